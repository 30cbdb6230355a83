"""Reading of contents in Gemini's form, which Gemini CLI and Qwen Code store: `text`, `functionCall`,
`functionResponse`.
"""

from __future__ import annotations

import re
from typing import Any

from agent.core.messages import ToolCall
from agent.integrations.migration.reading import mapping, sequence, text_of
from agent.integrations.migration.transcript import Outcome, TranscriptBuilder, call_of, outcome_of

_CODE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_OWN = ("<session_context>", "<system-reminder>", "<environment_context>")
"""The beginnings of texts that the program wrote as the user."""


def words_of(content: Any, *, thoughts: bool = False) -> str:
    """Return the text of a content (a text, a part, or a list of parts); with `thoughts`, its thoughts."""
    if isinstance(content, str):
        return "" if thoughts or content.lstrip().startswith(_OWN) else content
    pieces = []
    for part in map(mapping, sequence(content) or [content]):
        if bool(part.get("thought")) != thoughts:
            continue
        if "inlineData" in part or "fileData" in part:
            pieces.append("[image]")
        elif not (text := text_of(part.get("text"))).lstrip().startswith(_OWN):
            pieces.append(text)
    return "\n\n".join(filter(None, pieces))


def calls_of(content: Any) -> list[ToolCall]:
    """Return the calls among the parts of a content."""
    calls = [mapping(mapping(part).get("functionCall")) for part in sequence(content)]
    return [call_of(call.get("id"), call.get("name"), call.get("args")) for call in calls if call]


def add_results(
    transcript: TranscriptBuilder, content: Any, created: float, parent: int, status: str = ""
) -> int:
    """Add the results among the parts of a content; return the node that the next entries follow."""
    for part in sequence(content):
        answer = mapping(mapping(part).get("functionResponse"))
        if answer:
            text, outcome = result_of(answer.get("response"), status)
            at = transcript.result(str(answer.get("id")), text, created, parent, outcome=outcome)
            parent = parent if at is None else at
    return parent


def result_of(response: Any, status: str = "") -> tuple[str, Outcome]:
    """Return the text of a result, and the outcome of the call; `status` is that given by the program."""
    told = mapping(response)
    error = told.get("error")
    text = text_of(error) if error is not None else text_of(told.get("output", told or response))
    code = _CODE.search(text[-2_000:])
    if status in ("", "success"):
        status = "error" if error is not None else ""
    return text, outcome_of(status, int(code[1]) if code else None)
