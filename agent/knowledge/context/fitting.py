"""Fitting the layers of the system prompt into their budgets: whole entries go, the lowest layers first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.knowledge.context.layer import CHARACTERS_PER_TOKEN, Part

BEGINNING = 60
"""Characters by which an entry that was left out is named."""


def fitted(parts: Sequence[Part], budgets: Mapping[str, int], whole: int | None) -> tuple[Part, ...]:
    """The parts with as many entries as their layers, and all together, have room for. Pure.

    `parts` name their layers and stand in the order of the prompt. Texts without entries are never cut.
    What comes back has no entries any more: they are part of the text, or named in `left_out`.
    """
    kept = [_Shrinking(part) for part in parts]
    for name in dict.fromkeys(part.layer for part in parts):
        if name in budgets:
            _shrink([each for each in kept if each.part.layer == name], budgets[name])
    if whole is not None:
        _shrink(kept, whole)
    shown = (each.rendered(budgets.get(each.part.layer)) for each in kept)
    return tuple(part for part in shown if part.text)


def _shrink(parts: Sequence[_Shrinking], budget: int) -> None:
    """Leave entries out, those of the last part first, until the parts have no more than `budget` tokens."""
    over = sum(each.tokens for each in parts) - budget
    for group in reversed(_neighbours(parts)):
        while over > 0 and (left := [each for each in group if each.items]):
            longest = max(left, key=lambda each: each.tokens)
            before = longest.tokens
            longest.leave_one_out()
            over -= before - longest.tokens


def _neighbours(parts: Sequence[_Shrinking]) -> list[list[_Shrinking]]:
    """Parts that shrink together, in order: neighbours that share the room of their layer evenly."""
    groups: list[list[_Shrinking]] = []
    for each in parts:
        last = groups[-1][-1].part if groups else None
        if last is not None and last.layer == each.part.layer and each.shares and groups[-1][-1].shares:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


class _Shrinking:
    """A part, and which of its entries are still in."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.items = list(part.entries.items) if part.entries is not None else []
        self._left: list[str] = []
        self._stays = part.entries is None or part.entries.head_stays
        self._characters = len(self._text())

    @property
    def shares(self) -> bool:
        """Whether it shares the room of its layer evenly with its neighbours."""
        return self.part.entries is not None and self.part.entries.evenly

    @property
    def tokens(self) -> int:
        return math.ceil(self._characters / CHARACTERS_PER_TOKEN)

    def leave_one_out(self) -> None:
        entries = self.part.entries
        assert entries is not None
        gone = self.items.pop(0 if entries.newest_last else -1)
        self._left.insert(len(self._left) if entries.newest_last else 0, gone)
        # Counted by what went: rendering again for each of thousands would be quadratic.
        is_gone = not self.items and not self._stays
        mark = len(self._mark()) + len(entries.between) if len(self._left) == 1 else 0
        less = len(gone) + len(entries.between) - mark
        self._characters = 0 if is_gone else self._characters - less

    def rendered(self, budget: int | None) -> Part:
        named = tuple(" ".join(each.split())[:BEGINNING] for each in self._left)
        return replace(self.part, text=self._text(), entries=None, budget=budget, left_out=named)

    def _text(self) -> str:
        part, entries = self.part, self.part.entries
        if entries is None:
            return part.text
        if not self.items and not self._stays:
            return ""
        pieces = [*self.items]
        if self._left:
            pieces.insert(0 if entries.newest_last else len(pieces), self._mark())
        return part.text + entries.between.join(pieces) + entries.end

    def _mark(self) -> str:
        """What stands for the entries that were left out."""
        hint = f"; {self.part.entries.hint}" if self.part.entries and self.part.entries.hint else ""
        return f"[{len(self._left):,} more left out for want of room{hint}]"
