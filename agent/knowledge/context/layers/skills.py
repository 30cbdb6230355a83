"""The layer that lists skills by name and purpose; their instructions are read when needed."""

from __future__ import annotations

from collections.abc import Iterator

from agent.knowledge.context.layer import Entries, Facts, Layer, Part
from tools.text.words import one_line

_HEAD = """\
# Skills
Written-down ways of doing a kind of task. When one fits, read it with skill_view before you begin, \
and follow it.

"""


def _parts(facts: Facts) -> Iterator[Part]:
    if facts.skills and "skill_view" in facts.tools:
        items = tuple(f"- {each.name}: {one_line(each.description)}" for each in facts.skills)
        hint = "skills_list names them" if "skills_list" in facts.tools else ""
        yield Part("Skills", _HEAD, entries=Entries(items=items, hint=hint))


LAYER = Layer("skills", 65, _parts)
