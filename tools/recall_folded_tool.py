"""The tool by which the agent retrieves messages that were folded or masked to save context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import Folded, FoundMessage, ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.text.safe_text import clean
from tools.text.words import brief, plural

PAGE = 20_000
"""Characters of a message shown at once."""
LISTED = 40
EXCERPT = 120


async def recall_folded(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return one message with its whole text, or a list of the folded ones."""
    if "id" in arguments:
        return _page(await context.service(Folded).message(arguments["id"]), arguments["offset"])
    total, found = await context.service(Folded).search_messages(arguments["query"].strip(), LISTED)
    listed = [
        {"id": each.id, "role": each.role, "begins": brief(each.text[: 4 * EXCERPT], EXCERPT)}
        for each in found
    ]
    result: dict[str, Any] = {"total": total, "messages": listed}
    if total > len(found):
        result["hint"] = f"The newest {len(found)} are listed; name a word of it in query to find others."
    elif not total:
        result["hint"] = (
            "Nothing that is folded has these words." if arguments["query"] else "Nothing is folded."
        )
    return result


def _page(message: FoundMessage, offset: int) -> dict[str, Any]:
    text = clean(message.text)
    if offset and offset >= len(text):
        raise ToolError(f"The message has {len(text):,} characters; offset is behind its end.")
    shown = text[offset : offset + PAGE]
    result: dict[str, Any] = {"id": message.id, "role": message.role, "text": shown, "characters": len(text)}
    if offset + len(shown) < len(text):
        result["next_offset"] = offset + len(shown)
    return result


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = (
        f"message {arguments['id']}" if "id" in arguments else str(arguments.get("query", "") or "folded")
    )
    if result is None or result.get("error"):
        return Display("recall", clean(subject), error_text(result))
    if "text" in result:
        text = str(result["text"])
        return Display("recall", clean(subject), f"{result['characters']:,} characters", TextDetail(text))
    total = result.get("total", 0)
    return Display("recall", clean(subject), plural(total, "message"))


registry.register(
    name="recall_folded",
    toolset="session",
    schema=tool_schema(
        (
            "Get back what was folded or left out of this conversation to make room. With id (marks name it) "
            "one message in full; without, a list of them, or of those with the words of query."
        ),
        id={"type": "integer", "minimum": 1},
        offset={"type": "integer", "minimum": 0, "default": 0, "description": "First character."},
        query={"type": "string", "default": ""},
    ),
    handler=recall_folded,
    describe=_describe,
    read_only=True,
    place=51,
    bundles=("default", "safe"),
)
