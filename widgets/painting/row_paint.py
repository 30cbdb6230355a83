"""Paints the lines of a list that changed, at most 30 times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from textual.geometry import Region, Size
from textual.timer import Timer

from widgets.rows.row_view import RowView

FRAME = 1 / 30
"""Seconds between two paints of a list that keeps changing."""


class Painted(Protocol):
    """The list that is painted: a widget with rows."""

    @property
    def is_running(self) -> bool: ...

    @property
    def size(self) -> Size: ...

    @property
    def cursor(self) -> int | None: ...

    @property
    def heading_lines(self) -> int: ...

    def set_timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...

    def refresh(self, *regions: Region) -> object: ...


class RowPainter:
    """Collects changed rows of a list and refreshes only the lines that look different."""

    def __init__(self, rows: Painted, view: RowView) -> None:
        self._rows = rows
        self._view = view
        self._stale: set[int] | None = set()
        """Rows to paint again; None stands for all."""
        self._layout: list[tuple[int, int]] = []
        """What the screen shows: the layout of the last paint."""
        self._cursor: int | None = None
        self._last = 0.0
        self._timer: Timer | None = None

    def mark(self, *rows: int) -> None:
        """Mark rows as changed; cursor, scroll position and heading are checked too."""
        if self._stale is not None:
            self._stale.update(rows)
        self._schedule()

    def mark_all(self) -> None:
        """Mark everything as changed."""
        self._stale = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._rows.is_running or self._timer is not None:
            return
        wait = self._last + FRAME - time.monotonic()
        if wait <= 0:
            self._paint()
        else:
            self._timer = self._rows.set_timer(wait, self._paint)

    def _paint(self) -> None:
        self._timer = None
        self._last = time.monotonic()
        stale, self._stale = self._stale, set()
        before, self._layout = self._layout, list(self._view.layout())
        cursor, self._cursor = self._cursor, self._rows.cursor
        if stale is None or not before or not self._layout:
            self._rows.refresh()
            return
        if cursor != self._cursor:
            stale |= {row for row in (cursor, self._cursor) if row is not None}
        head, width = self._rows.heading_lines, self._rows.size.width
        changed = [head + y for y in dirty_lines(before, self._layout, stale)]
        regions = [Region(0, y, width, 1) for y in (*range(head), *changed)]
        if regions:
            self._rows.refresh(*regions)


def dirty_lines(before: list[tuple[int, int]], now: list[tuple[int, int]], stale: set[int]) -> list[int]:
    """Return the lines where `now` differs from `before` or shows a stale row."""
    return [
        y
        for y in range(max(len(before), len(now)))
        if y >= len(now) or y >= len(before) or now[y] != before[y] or now[y][0] in stale
    ]
