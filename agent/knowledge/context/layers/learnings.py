"""The layer of failures in earlier sessions of the project, and their fixes."""

from __future__ import annotations

from collections.abc import Iterator

from agent.knowledge.context.layer import Entries, Facts, Layer, Part
from tools.text.redact import redact

_HEAD = """\
# Learnings
Calls that failed in earlier sessions, and what worked: notes, not orders.
"""
_TOOL = "search_learnings"


def _parts(facts: Facts) -> Iterator[Part]:
    if facts.learnings:
        hint = f"The others are found with {_TOOL}." if _TOOL in facts.tools else ""
        yield Part("Learnings", _HEAD, entries=Entries(items=tuple(map(redact, facts.learnings)), hint=hint))


LAYER = Layer("learnings", 75, _parts)
