"""Learnings as plain data for people and other programs. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agent.knowledge.learnings.learning import Learning


def standing(learning: Learning) -> str:
    """How sure one is, in a word.

    `candidate`, `stale` and `retired` as they count; one in force is `confirmed` or `refuted` by what
    happened more often, and `learning` while nothing has.
    """
    if learning.status != "learning" or not (learning.confirmed or learning.refuted):
        return learning.status
    return "confirmed" if learning.confirmed > learning.refuted else "refuted"


def record(learning: Learning) -> dict[str, Any]:
    """What is handed on of one; the time is in UTC."""
    return {
        "pattern": learning.pattern,
        "error_type": learning.error_type,
        "fix": learning.fix,
        "context": learning.context,
        "tags": list(learning.tags),
        "created_at": datetime.fromtimestamp(learning.created_at, UTC).isoformat(timespec="seconds"),
        "times_used": learning.times_used,
        "confirmed": learning.confirmed,
        "refuted": learning.refuted,
    }
