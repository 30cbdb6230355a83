"""The layer about the agent's identity: the user's SOUL.md, or Hermes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agent.knowledge.context.context_files import paragraphs
from agent.knowledge.context.layer import Entries, Facts, Layer, Part, of_file

IDENTITY = """\
You are Hermes, an agent in the user's terminal. You work on their machine with tools: you look, you act, \
you check, you report."""


def _parts(facts: Facts) -> Iterator[Part]:
    soul = facts.soul
    if soul is None:
        yield Part("Identity", IDENTITY)
        return
    # Its beginning says who the agent is, and is never left out.
    first, *rest = paragraphs(soul.text)
    items = tuple(f"\n\n{each}" for each in rest)
    entries = Entries(items=items, between="", head_stays=True) if rest else None
    yield replace(of_file("Identity", soul, first), entries=entries)


LAYER = Layer("identity", 10, _parts)
