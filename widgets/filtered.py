"""Rows that reach the screen past Textual's cache of styles.

That cache copies every row of a widget whenever one has changed, which is most of what a
frame costs. A widget that draws whole rows by itself, without border or padding, needs none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region
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
        runs = list(row)
        for line_filter in filters:
            runs = line_filter.apply(runs, background)
        return Strip(runs, row.cell_length)


class Kept(Widget):
    """A widget whose rows stay as they are from one refresh to the next, and are made only then.

    Textual asks for all rows of a widget in each frame that touches something beside it.
    """

    _rows_shown: tuple[Region, Sequence[LineFilter], list[Strip]] | None = None
    """What was asked for last, what the filters were, and the rows; None after a refresh."""

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        self._rows_shown = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        filters = self.app.get_line_filters()
        if self._rows_shown is None or self._rows_shown[:2] != (crop, filters):
            self._rows_shown = (crop, list(filters), self.shown_rows(crop))
        return self._rows_shown[2]

    def shown_rows(self, crop: Region) -> list[Strip]:
        """The rows of a part of the widget as they reach the screen: behind the filters."""
        raise NotImplementedError


class Drawn(Kept):
    """A widget that draws whole rows in `render_line`, without border or padding."""

    def shown_rows(self, crop: Region) -> list[Strip]:
        rows = [self.render_line(y) for y in range(crop.y, crop.bottom)]
        return FilteredRows(self).filter(rows, crop.x, crop.right)
