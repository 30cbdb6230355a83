"""What was followed before, so that following it again in the same surroundings costs next to nothing.

Functions that call each other twice, or text that `eval` runs again and again, would
otherwise take time that doubles with every level. Following something says the same
again when everything it looked at is as it was; then what it left is put in place, what
it printed is handed out, and its steps are counted as if they had been taken. What it
showed the judge needs no second showing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from agent.safety.shell.state import State, Watch
from agent.safety.shell.values import Output

MOST_KEPT = 4
"""Surroundings that are remembered for one thing: the first ones and the last."""

Depths = tuple[int, ...]
Work = Callable[[], Output]


@dataclass(frozen=True, slots=True)
class _Followed:
    """Following something once: what it depended on, and what came of it."""

    depths: Depths
    """How deep it was inside others. Deeper, it might have been too deep."""
    calls: dict[int, int]
    """How often functions it could have called were running already."""
    found: dict[tuple[str, str], Any]
    left: dict[tuple[str, str], Any]
    cwds: tuple[str, ...]
    positional: tuple[str, ...] | None
    output: Output
    steps: int


class Memory:
    """Remembers for one interpreter, whose functions that are running now are counted in `running`."""

    def __init__(self, state: State, running: Counter[int]) -> None:
        self._state = state
        self._running = running
        self._seen: set[Hashable] = set()
        self._kept: dict[Hashable, list[_Followed]] = {}
        self._asked: set[int] | None = None

    def asks(self, function: int) -> None:
        """What is followed now depends on how often this function is running."""
        if self._asked is not None:
            self._asked.add(function)

    def is_new(self, name: Hashable) -> bool:
        """Whether nothing of this name was followed before, as is so with most things."""
        seen = name in self._seen
        self._seen.add(name)
        return not seen

    def follow(self, what: Hashable, depths: Depths, work: Work) -> Output:
        """What `work` returns and does, done only where that may differ from before.

        `what` names the work together with all it depends on besides the state.
        Raises what `work` raises.
        """
        key = (what, self._state.cwds, self._state.positional)
        kept = self._kept.setdefault(key, [])
        for followed in kept:
            if self._holds(followed, depths):
                return self._again(followed)
        followed, comes_again = self._watched(depths, work)
        if comes_again:
            kept[MOST_KEPT - 1 :] = [followed]
        return followed.output

    def _holds(self, followed: _Followed, depths: Depths) -> bool:
        if any(now > then for now, then in zip(depths, followed.depths, strict=True)):
            return False
        if any(self._running[function] != count for function, count in followed.calls.items()):
            return False
        return all(self._state.get(*entry) == value for entry, value in followed.found.items())

    def _again(self, followed: _Followed) -> Output:
        self._state.spend(followed.steps)
        for (table, name), value in followed.left.items():
            self._state.put(table, name, value)
        self._state.cwds, self._state.positional = followed.cwds, followed.positional
        if self._asked is not None:
            self._asked.update(followed.calls)
        return followed.output

    def _watched(self, depths: Depths, work: Work) -> tuple[_Followed, bool]:
        """Follow something, and tell whether that can ever be the same again."""
        state = self._state
        outer, asked = self._asked, set[int]()
        running = {function: count for function, count in self._running.items() if count}
        mark, budget = state.mark(), state.budget
        self._asked = asked
        try:
            with state.watching(Watch()) as watch:
                output = work()
        finally:
            self._asked = outer
        if outer is not None:
            outer |= asked
        calls = {function: running.get(function, 0) for function in asked}
        followed = _Followed(
            depths,
            calls,
            watch.found,
            state.changed_since(mark),
            state.cwds,
            state.positional,
            output,
            budget - state.budget,
        )
        return followed, not watch.unique
