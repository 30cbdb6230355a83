"""Sorting what is long in pieces.

One sort of a hundred thousand paths keeps the interpreter to itself for fifty
milliseconds, whichever thread runs it: no key is drawn meanwhile. Pieces let
the event loop in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

PIECE = 1_024
"""Paths whose sort takes well below a millisecond."""


def in_order(items: Iterable[T], key: Callable[[T], Any] | None = None) -> list[T]:
    """As `sorted`, at twice the price. Pure; for threads beside the event loop."""
    rest: Any = iter(items)
    runs: list[list[Any]] = []
    while run := sorted(islice(rest, PIECE), key=key):
        runs.append(run)
    return runs[0] if len(runs) == 1 else list(merge(*runs, key=key))
