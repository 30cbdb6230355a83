"""The tools by which the agent stores what failed and what worked, and searches it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, error_text
from tools.services.learning_notes import LearningKeeper, LearningNote, LearningView
from tools.text.safe_text import clean

MOST = 50
"""The maximum number of learnings that one search returns."""


def _prepare(arguments: Arguments) -> Arguments:
    """Split tags that are given as one text into a list."""
    tags = arguments.get("tags")
    if isinstance(tags, str):
        arguments["tags"] = [tag.strip() for tag in tags.split(",") if tag.strip()]
    return arguments


async def save_learning(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Store what failed or worked as a learning, and return the learning."""
    kept = await context.service(LearningKeeper).save(
        LearningNote(
            pattern=str(arguments.get("pattern") or ""),
            error_type=str(arguments.get("error_type") or ""),
            fix=str(arguments.get("fix") or ""),
            context=str(arguments.get("context") or ""),
            tags=tuple(map(str, arguments.get("tags") or ())),
            candidate=arguments.get("candidate"),
            everywhere=bool(arguments.get("everywhere")),
        )
    )
    return {"success": True, "learning": _learning_row(kept)}


async def search_learnings(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return matching learnings, best first."""
    limit = min(int(arguments.get("limit") or 10), MOST)
    found = await context.service(LearningKeeper).search(str(arguments.get("query") or ""), limit)
    return {"learnings": [_learning_row(each) for each in found], "count": len(found)}


def _learning_row(learning: LearningView) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": learning.id,
        "status": learning.status,
        "pattern": learning.pattern,
        "error_type": learning.error_type,
        "fix": learning.fix,
        "context": learning.context,
        "tags": list(learning.tags),
        "created_at": datetime.fromtimestamp(learning.created_at).isoformat(timespec="seconds"),
        "times_used": learning.times_used,
        "confirmed": learning.confirmed,
        "refuted": learning.refuted,
    }
    if learning.everywhere:
        shown["everywhere"] = True
    return {name: value for name, value in shown.items() if value not in ("", [])}


def _line(learning: Mapping[str, Any]) -> str:
    text = f"{learning.get('id')}  {learning.get('pattern')}: {learning.get('fix')}"
    return clean(" ".join(text.split()))


def _describe_save(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    given = arguments.get("pattern") or arguments.get("fix") or f"candidate {arguments.get('candidate', '')}"
    subject = clean(" ".join(str(given).split()))[:80]
    if result is None or result.get("error"):
        return Display("learn", subject, error_text(result))
    kept = result.get("learning")
    line = _line(kept) if isinstance(kept, Mapping) else ""
    return Display("learn", subject, "kept", TextDetail(line))


def _describe_search(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(" ".join(str(arguments.get("query", "")).split()))[:80]
    if result is None or result.get("error"):
        return Display("look up learnings", subject, error_text(result))
    found = result.get("learnings") or []
    lines = "\n".join(_line(each) for each in found if isinstance(each, Mapping))
    return Display("look up learnings", subject, f"{len(found)} found", TextDetail(lines))


registry.register(
    name="save_learning",
    toolset="learnings",
    schema=tool_schema(
        (
            "Keep what failed and what worked, so that you are reminded before the same call. For how tools "
            "and commands behave here (flags, environment, setup), not for mistakes in code that you fixed. "
            "With candidate, the number of one that you were told of, the rest may be left out."
        ),
        pattern={"type": "string", "description": "The call that fails, as you made it."},
        error_type={"type": "string"},
        fix={"type": "string", "description": "What works instead: a call, or one sentence."},
        context={"type": "string", "description": "When it matters, if not always."},
        tags={"type": "array", "items": {"type": "string"}},
        candidate={"type": "integer"},
        everywhere={"type": "boolean", "description": "It holds in every project."},
    ),
    handler=save_learning,
    describe=_describe_save,
    prepare=_prepare,
    place=72,
    bundles=("default",),
)

registry.register(
    name="search_learnings",
    toolset="learnings",
    schema=tool_schema(
        "Look up what failed before in this project, and what worked.",
        "query",
        query={"type": "string", "description": "A program, an error, words."},
        limit={"type": "integer", "minimum": 1, "description": "Default 10."},
    ),
    handler=search_learnings,
    describe=_describe_search,
    read_only=True,
    place=74,
    bundles=("default",),
)
