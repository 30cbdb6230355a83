"""Rows that reach the screen past Textual's cache of styles.

That cache copies every row of a widget whenever one has changed, which is most of what a
frame costs. A widget that draws whole rows by itself, without border or padding, needs none of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip
from textual.widget import Widget


class FilteredRows:
    """The rows of one widget behind the application's filters; a row that stays is filtered once."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._look: tuple[Sequence[LineFilter], Color] = ((), Color(0, 0, 0))
        """The filters that rows went through, and the background they were told."""
        self._known: dict[int, tuple[Strip, Strip]] = {}
        """Rows as they were composed and as they were filtered, by the identity of the first.

        A row that scrolls is the same row in another place.
        """

    def filter(self, rows: Sequence[Strip], start: int, end: int) -> list[Strip]:
        """`rows`, cut to the columns from `start` to `end`."""
        look = (list(self._widget.app.get_line_filters()), self._widget.background_colors[1])
        if look != self._look:
            self._look = look
            self._known.clear()
        before, self._known = self._known, {}
        filtered: list[Strip] = []
        for row in rows:
            known = self._known.get(id(row))
            if known is None:
                known = self._known[id(row)] = before.get(id(row)) or (row, self._filtered(row))
            strip = known[1]
            filtered.append(strip if not start and strip.cell_length <= end else strip.crop(start, end))
        return filtered

    def _filtered(self, row: Strip) -> Strip:
        filters, background = self._look
        for line_filter in filters:
            row = row.apply_filter(line_filter, background)
        return row
