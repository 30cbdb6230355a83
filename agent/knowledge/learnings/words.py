"""Learnings that somebody wrote in words: which failures they speak of. Pure."""

from __future__ import annotations

from agent.knowledge.learnings.failures import Failure, normalise
from agent.knowledge.learnings.learning import Learning

SHORTEST = 6
"""Characters that a text needs to tell one error from others."""
_COMMON = frozenset(
    {"error", "failed", "failure", "exit <n>", "exception", "unknown", "timed out", "not found"}
)
"""What errors are called that says nothing about them."""
_LOOKED_AT = 20_000
"""Characters at the end of an output that are looked through."""


def speaks_of(learning: Learning, failure: Failure, output: str) -> bool:
    """Whether the error that a learning names stands in what a call said when it failed."""
    said = f"{normalise(failure.line)}\n{failure.kind.lower()}"
    whole = output[-_LOOKED_AT:].lower()
    for text in (learning.error_type, learning.pattern):
        named = normalise(text)
        if len(named) < SHORTEST or named in _COMMON:
            continue
        if named in said or text.lower() in whole:
            return True
    return False
