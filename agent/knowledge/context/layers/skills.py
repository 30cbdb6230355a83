"""The layer that lists skills by name and purpose; their instructions are read when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.knowledge.context.layer import CHARACTERS_PER_TOKEN, Entries, Facts, Layer, Part, SkillEntry
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import one_line

_HEAD = """\
# Skills
Ways of doing a kind of task. When one fits, read it with skill_view before you begin, and follow it.

"""
_SHORTEST = 24
"""If purposes had to be cut below this length, only names are listed, so that more of them fit."""
_LOOSE_END = lazy_pattern(r"[\s,;:–(-]+(?:(?:and|or|of|in|to|the|a|an|with|for|by|that|so|are) )*$")


def _parts(facts: Facts) -> Iterator[Part]:
    if facts.skills and "skill_view" in facts.tools:
        budget = facts.budgets.get("skills")
        room = None if budget is None else budget * CHARACTERS_PER_TOKEN - len(_HEAD)
        hint = "skills_list names them" if "skills_list" in facts.tools else ""
        items, between = _index(facts.skills, room)
        yield Part("Skills", _HEAD, entries=Entries(items=items, between=between, hint=hint))


def _index(skills: Sequence[SkillEntry], room: int | None) -> tuple[tuple[str, ...], str]:
    """Return the entries and their separator: with purposes that are shortened alike so that all fit into
    `room` characters, or the names alone if there are too many.
    """
    purposes = [one_line(each.description) for each in skills]
    if room is None or (length := _length(skills, purposes, room)) is None:
        length = max(map(len, purposes))
    if length < _SHORTEST:
        return tuple(one_line(each.name) for each in skills), ", "
    pairs = zip(skills, purposes, strict=True)
    return tuple(f"- {each.name}: {_shortened(purpose, length)}" for each, purpose in pairs), "\n"


def _length(skills: Sequence[SkillEntry], purposes: Sequence[str], room: int) -> int | None:
    """Return the length to which the longest purposes have to be cut; None if all fit unchanged."""
    left = room - sum(len(each.name) + len("- : …\n".encode()) for each in skills)
    sizes = sorted(map(len, purposes))
    for position, size in enumerate(sizes):
        share = left // (len(sizes) - position)
        if share < size:
            return share
        left -= size
    return None


def _shortened(purpose: str, length: int) -> str:
    """Return the purpose; if longer than `length`, its first sentence or as many whole words of it as fit."""
    if len(purpose) <= length:
        return purpose
    first = purpose.partition(". ")[0]
    if len(first) <= length:
        return first
    words = first[: length - 1].rpartition(" ")[0] or first[: length - 1]
    return f"{_LOOSE_END.sub('', f'{words} ')}…"


LAYER = Layer("skills", 65, _parts)
