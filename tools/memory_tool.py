"""The tool by which the agent stores short notes that outlive the session.

The memory in the prompt is fixed when a session begins, so a write changes nothing already sent; the result
shows what the file contains now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import MemoryChange, MemoryKeeper, MemoryView, ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.text.safe_text import clean

TARGETS = ("memory", "user", "project")
ACTIONS = ("add", "replace", "remove")

_KEYS = ("action", "content", "old_text")


def _prepare(arguments: Arguments) -> Arguments:
    """Wrap a single operation in a list."""
    operations = arguments.get("operations")
    if isinstance(operations, dict):
        arguments["operations"] = [operations]
    return arguments


def changes(arguments: Mapping[str, Any]) -> tuple[MemoryChange, ...]:
    """Return the changes of a call, in order. Raises `ToolError`."""
    given = arguments.get("operations")
    if given and arguments.get("action"):
        raise ToolError("Give either action or operations, not both.", done=False)
    if given == [] and not arguments.get("action"):
        raise ToolError("operations is empty; give at least one change, or an action.", done=False)
    listed = list(given) if given else [{key: arguments.get(key) for key in _KEYS}]
    found: list[MemoryChange] = []
    for each in listed:
        action = str(each.get("action") or "").strip().lower()
        if action not in ACTIONS:
            raise ToolError(f"Unknown action {action[:40]!r}; use {', '.join(ACTIONS)}.")
        found.append(MemoryChange(action, str(each.get("content") or ""), str(each.get("old_text") or "")))
    return tuple(found)


async def memory(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Apply changes to the notes; return all entries afterwards. Raises `ToolError`."""
    view = await context.service(MemoryKeeper).write(
        str(arguments["target"]), changes(arguments), context.permit
    )
    return _result(view)


def _result(view: MemoryView) -> dict[str, Any]:
    result: dict[str, Any] = {
        "success": True,
        "target": view.target,
        "file": view.path,
        "shown_in": view.shown_in,
        "entries": list(view.entries),
        "usage": view.usage,
        "message": view.message,
    }
    return result | {"note": view.note} if view.note else result


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    target = clean(str(arguments.get("target", "")))
    operations = arguments.get("operations") or [arguments]
    first = operations[0] if isinstance(operations, list) and operations else {}
    text = first.get("content") or first.get("old_text") or "" if isinstance(first, Mapping) else ""
    subject = clean(" ".join(str(text).split()))[:80] or target
    if result is None or result.get("error"):
        return Display("remember", subject, error_text(result))
    entries = "\n".join(f"- {clean(' '.join(str(each).split()))}" for each in result.get("entries", ()))
    return Display("remember", subject, f"{target} {result.get('usage', '')}", TextDetail(entries))


registry.register(
    name="memory",
    toolset="memory",
    schema=tool_schema(
        (
            "Keep short notes that outlive this session. Targets: user (who the user is: preferences, "
            "manner, corrections), project (facts about this project), memory (this machine, tools, the "
            "rest). "
            "Save when the user states a preference, corrects you, or you learn a lasting fact the hard way; "
            "not for task progress, what files already say, or guesses. One fact per entry, as a plain "
            "statement.\n"
            "add, replace (old_text: a part of the entry that only it contains), remove. Space is small: "
            "when it is full, replace and remove in one batch of operations, which applies completely or "
            "not at all. What is written is in the prompt from the next session on."
        ),
        "target",
        target={"type": "string", "enum": list(TARGETS)},
        action={"type": "string", "description": "add, replace or remove."},
        content={"type": "string"},
        old_text={"type": "string"},
        operations={
            "type": "array",
            "description": "Several at once, instead of action.",
            "items": {
                "type": "object",
                "properties": {
                    "action": {"type": "string"},
                    "content": {"type": "string"},
                    "old_text": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    ),
    handler=memory,
    describe=_describe,
    prepare=_prepare,
    place=70,
    bundles=("default",),
    traits=("whole_session",),
)
