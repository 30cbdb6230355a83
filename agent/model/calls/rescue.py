"""Tool calls that a model wrote as text instead of using the provider's field for them.

Qwen-Coder on llama.cpp and Ollama does so always, others now and then. Such a
text counts as a call only if tools were offered, the whole message is the call
(in a fence or in tags, several in a row, or as a list), the name is on offer and
the arguments fit its schema. Everything else stays the text it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent.core.messages import ToolCall
from agent.model.calls.call_marks import TAG
from agent.model.calls.call_text import DraftedCall, read_calls
from agent.model.calls.harmony import HarmonyReply
from agent.model.calls.repair import TRUNCATED, repair_arguments, repair_name, without_surrogates
from agent.model.protocol import ToolSpec
from tools.arguments import check_arguments
from tools.results import ToolError

LONGEST_LEAD = 500
"""Characters of prose that may come before a tagged call."""

_MOST_CALLS = 64
_LONGEST_END = 20_000
"""Characters at the end of reasoning that are searched for calls."""


@dataclass(frozen=True, slots=True)
class Rescued:
    """Calls found in a text, and the prose that came before them."""

    lead: str
    calls: tuple[ToolCall, ...]


def rescue(text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...] | None:
    """The calls that `text` consists of, or None if it is an ordinary answer.

    Linear in the length of `text`; never raises. Ids depend on `text` alone.
    """
    found = find_calls(text, tools)
    return found.calls if found else None


def find_calls(text: str, tools: Sequence[ToolSpec]) -> Rescued | None:
    """Like `rescue`, with the short lead-in that may come before a tagged call."""
    if not tools:
        return None
    offered = {tool.name: tool for tool in tools}
    lead, body = split_lead(text)
    drafts = read_calls(body)
    calls = _all_valid(drafts, offered, text) if drafts else None
    return Rescued(lead, calls) if calls else None


def find_in_thought(thought: str, tools: Sequence[ToolSpec]) -> Rescued | None:
    """The tagged calls that reasoning ends with, each tag on a line of its own; `lead` is what came before.

    Models that do not close their reasoning call tools from within it.
    """
    end = thought[-_LONGEST_END:]
    for tag in islice(TAG.finditer(end), _MOST_CALLS):
        before = thought[: len(thought) - len(end) + tag.start()]
        if before.strip(" \t")[-1:] not in ("", "\n"):
            continue
        found = find_calls(end[tag.start() :], tools)
        if found and not found.lead:
            return Rescued(before.rstrip(), found.calls)
    return None


def find_in_harmony(reply: HarmonyReply, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...] | None:
    """The calls of a reply in the channels of Harmony, possibly none; None if one of them is no real call."""
    offered = {tool.name: tool for tool in tools}
    drafts = [DraftedCall(name, arguments) for name, arguments in reply.calls]
    return _all_valid(drafts, offered, reply.text) if drafts else ()


def _all_valid(
    drafts: Sequence[DraftedCall], offered: Mapping[str, ToolSpec], text: str
) -> tuple[ToolCall, ...] | None:
    if len(drafts) > _MOST_CALLS:
        return None
    calls = tuple(_validated(drafts, offered, text))
    return calls if len(calls) == len(drafts) else None


def split_lead(text: str) -> tuple[str, str]:
    """Prose before the first tag of a call, and the rest. Fences, JSON and quoted tags are no prose."""
    body = text.strip()
    tag = TAG.search(body, 0, LONGEST_LEAD + 64)
    if tag is None or tag.start() == 0 or body[0] in "{[`":
        return "", body
    lead = body[: tag.start()]
    if len(lead) > LONGEST_LEAD or "```" in lead or lead.rsplit("\n", 1)[-1].count("`") % 2:
        return "", body
    return lead.rstrip(), body[tag.start() :]


def _validated(
    drafts: Sequence[DraftedCall], offered: Mapping[str, ToolSpec], text: str
) -> Iterator[ToolCall]:
    """The drafts that are real calls of offered tools."""
    seed = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    for number, draft in enumerate(drafts):
        name = repair_name(draft.name, offered)
        arguments = _arguments_text(draft.arguments)
        if name is None or arguments is None or not _fits(offered[name].parameters, arguments, draft):
            return
        digest = hashlib.sha256(f"{seed}{number}".encode()).hexdigest()
        yield ToolCall(f"call_{digest[:8]}", name, arguments)


def _arguments_text(value: Any) -> str | None:
    """The arguments as JSON text; a text inside may hold them once more."""
    if value is None:
        return "{}"
    if not isinstance(value, (dict, str)):
        return None
    try:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
    except (ValueError, RecursionError):
        return None
    mended, reason = repair_arguments(without_surrogates(text))
    return None if reason == TRUNCATED else mended


def _fits(schema: Mapping[str, Any], arguments: str, draft: DraftedCall) -> bool:
    given = json.loads(arguments)
    unknown = given.keys() - schema.get("properties", {}).keys()
    if unknown and (draft.flat or not schema.get("required")):
        return False
    try:
        check_arguments(schema, given)
    except (ToolError, RecursionError):
        return False
    return True
