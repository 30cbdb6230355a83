"""Calls of tools as an editor shows them: kind, title, places, text and changes of files. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from acp import schema

from tools.results import DiffDetail, Display, Outcome, TextDetail
from tools.text.safe_text import clean
from tools.text.words import brief

ToolKind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]

MOST_TEXT = 60_000
"""Characters of a call's text that an editor is sent."""
LONGEST_TITLE = 200
DEEPEST = 20
"""Levels of arguments that are sent."""
KINDS: Mapping[str, ToolKind] = {
    "read_file": "read",
    "write_file": "edit",
    "patch": "edit",
    "search": "search",
    "session_search": "search",
    "search_learnings": "search",
    "terminal": "execute",
    "process": "execute",
    "execute_code": "execute",
    "todo_write": "think",
    "todo_read": "think",
}
_PATHS = ("path", "file", "file_path")


def kind_of(tool: str) -> ToolKind:
    """What an editor shows a tool as."""
    return "fetch" if tool.startswith("web_") else KINDS.get(tool, "other")


def title_of(display: Display) -> str:
    """A call in one line."""
    return brief(f"{display.verb} {display.subject}", LONGEST_TITLE)


def locations(arguments: Mapping[str, Any], workspace: Path) -> list[schema.ToolCallLocation]:
    """The files that a call names."""
    found = (arguments.get(name) for name in _PATHS)
    return [
        schema.ToolCallLocation(path=str(workspace / clean(each)))
        for each in found
        if isinstance(each, str) and each
    ]


def text(words: str) -> schema.ContentToolCallContent:
    """Text of a call; of a long one the end, where results stand."""
    shown = clean(words)
    if len(shown) > MOST_TEXT:
        shown = f"… {len(shown) - MOST_TEXT:,} characters before\n{shown[-MOST_TEXT:]}"
    return schema.ContentToolCallContent(
        type="content", content=schema.TextContentBlock(type="text", text=shown)
    )


def output(words: str) -> schema.ContentToolCallContent:
    """Output of a command, as it came."""
    return text(_fence(words))


def terminal(id: str) -> schema.TerminalToolCallContent:
    """A terminal of the editor."""
    return schema.TerminalToolCallContent(type="terminal", terminal_id=id)


def _fence(words: str, language: str = "") -> str:
    fence = "```"
    while fence in words:
        fence += "`"
    return f"{fence}{language}\n{words.rstrip()}\n{fence}"


def contents(display: Display, result: str) -> list[Any]:
    """What is shown of a call that has ended, beside changes of files."""
    match display.detail:
        case TextDetail(text=words, language=language) if words.strip():
            return [text(_fence(words, language))]
        case DiffDetail(diff=diff) if diff.strip():
            return [text(_fence(diff, "diff"))]
        case _:
            said = _error(result) or display.summary
            return [text(said)] if said.strip() else []


def _error(result: str) -> str:
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("error") or "") if isinstance(found, dict) else ""


def status_of(outcome: Outcome) -> Literal["completed", "failed"]:
    """How an editor shows what became of a call."""
    return "completed" if outcome == "done" else "failed"


def diff(path: str, before: str | None, after: str) -> schema.FileEditToolCallContent:
    """A file before and after a call; `before` is None for one that is new."""
    return schema.FileEditToolCallContent(type="diff", path=path, old_text=before, new_text=after)


def portable(value: Any, depth: int = 0) -> Any:
    """Arguments of a call as every reader of JSON takes them: whole characters, numbers that are some."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case float() if not math.isfinite(value):
            return str(value)
        case dict() | list() if depth >= DEEPEST:
            return "…"
        case dict():
            return {portable(str(name)): portable(each, depth + 1) for name, each in value.items()}
        case list() | tuple():
            return [portable(each, depth + 1) for each in value]
        case None | bool() | int() | float():
            return value
        case _:
            return portable(str(value))


def started(
    call: str, tool: str, display: Display, arguments: Mapping[str, Any], workspace: Path
) -> schema.ToolCallStart:
    """A call that begins."""
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=call,
        title=title_of(display),
        kind=kind_of(tool),
        status="in_progress",
        locations=locations(arguments, workspace),
        raw_input=portable(dict(arguments)),
    )


def progressed(call: str, words: str) -> schema.ToolCallProgress:
    """What a running call has printed so far."""
    return schema.ToolCallProgress(
        session_update="tool_call_update", tool_call_id=call, content=[output(words)]
    )


def finished(call: str, display: Display, outcome: Outcome, shown: Sequence[Any]) -> schema.ToolCallProgress:
    """A call that has ended."""
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call,
        title=title_of(display),
        status=status_of(outcome),
        content=list(shown),
    )
