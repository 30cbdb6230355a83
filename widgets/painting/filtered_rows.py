"""Rows that bypass Textual's style cache.

The cache copies every row of a widget whenever one row changes, which is most of the cost of a frame. A
widget that draws whole rows without border or padding does not need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Self
from urllib.parse import quote, urljoin

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from tools.kit.lazy_pattern import lazy_pattern
from widgets.palette import Palette

LONGEST = 2_000
"""The character limit of an address; terminals cut longer ones."""
PLACE = lazy_pattern(r"[\w./+-]+\.\w+:\d+(?::\d+|-\d+)?", re.A)
"""A file at a line, as models write it in code spans: `src/main.py:12`."""
_FILE = lazy_pattern(r"([^:#?\x00-\x1f]+?)(?:(?::|#L?| )(\d+)(?:[-–:]L?\d+)?)?")
_PAGE = lazy_pattern(r"(?:https?://|mailto:)\S+", re.I)
_KEPT = ":/?#[]@!$&'()*+,;=%~"


def link_address(target: str, root: str) -> str:
    """Return the address that the terminal opens for a link; empty if it gets none. Pure.

    `root` is the `file:` address of the folder that paths are in. An address is always plain ASCII. Schemes
    other than those of web pages and files are left out, because a program may handle them.
    """
    if _PAGE.fullmatch(target):
        address = quote(target, safe=_KEPT)
    elif (found := _FILE.fullmatch(target)) and found[1][0] != "~":
        line = f"#{found[2]}" if found[2] else ""
        address = urljoin(root, quote(found[1])) + line
    else:
        return ""
    return address if len(address) <= LONGEST else ""


def with_links(runs: Sequence[Segment], root: str) -> list[Segment]:
    """Return the segments with the addresses of their links, which the terminal opens."""
    return [
        Segment(text, style + Style(link=address), control)
        if style is not None and (address := link_address(str(style.meta.get("link", "")), root))
        else Segment(text, style, control)
        for text, style, control in runs
    ]


STYLES = 2_048
"""The number of styles that are cached; each link address has a style of its own."""


class FilteredRows:
    """The application's filters for a widget's rows, with a cache: an unchanged row is filtered once."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._look: tuple[Sequence[LineFilter], Color] = ((), Color(0, 0, 0))
        """The filters that were applied to the rows, and the background they were given."""
        self._known: dict[int, tuple[Strip, Strip]] = {}
        """Rows before and after filtering, by the identity of the row before.

        A row that scrolls is the same object at another position.
        """
        self._true: dict[int, tuple[Style, bool]] = {}
        """Styles by their identity, and whether `ANSIToTruecolor` leaves them as they are."""
        self.root: Callable[[], str] | None = None
        """A function that returns the `file:` address of the folder of files; None: no links are sent."""

    def filter(self, rows: Sequence[Strip], start: int, end: int) -> list[Strip]:
        """Return the filtered rows, cropped to the columns from `start` to `end`."""
        look = (list(self._widget.app.get_line_filters()), self._widget.background_colors[1])
        if look != self._look:
            self._look = look
            self._known.clear()
            self._true.clear()
        before, self._known = self._known, {}
        filtered: list[Strip] = []
        for row in rows:
            known = self._known.get(id(row))
            if known is None:
                known = self._known[id(row)] = before.get(id(row)) or (row, self._filter(row))
            strip = known[1]
            filtered.append(strip if not start and strip.cell_length <= end else strip.crop(start, end))
        return filtered

    def _filter(self, row: Strip) -> Strip:
        filters, background = self._look
        before = runs = list(row)
        for line_filter in filters:
            # It copies each run, usually unchanged, which is most of the filters' cost.
            if not (type(line_filter) is ANSIToTruecolor and self._are_true(runs, line_filter)):
                runs = line_filter.apply(runs, background)
        if self.root and any(style is not None and "link" in style.meta for _, style, _ in runs):
            runs = with_links(runs, self.root())
        return row if runs is before else Strip(runs, row.cell_length)

    def _are_true(self, runs: list[Segment], line_filter: ANSIToTruecolor) -> bool:
        """Return whether the filter would leave all runs unchanged."""
        for _, style, control in runs:
            if control is not None:
                return False
            if style is None:
                continue
            known = self._true.get(id(style))
            if known is None:
                if len(self._true) >= STYLES:
                    self._true.clear()
                same = line_filter.truecolor_style(style, self._look[1].rich_color) == style
                known = self._true[id(style)] = (style, same)
            if not known[1]:
                return False
        return True


class KeptRow(Widget):
    """A widget that caches its rows between refreshes.

    Textual requests all rows of a widget in each frame that touches anything next to it.
    """

    palette = Palette(Skin())
    """The styles in which the widget is drawn."""
    _rows_shown: tuple[Region, Sequence[LineFilter], list[Strip]] | None = None
    """The last requested region, the filters then, and the rows; None after a refresh."""

    def use(self, palette: Palette) -> None:
        """Draw in the colours and words of another skin."""
        self.palette = palette
        self.refresh()

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        self.forget_rows()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def forget_rows(self) -> None:
        """Drop the cached rows; the caller refreshes the screen."""
        self._rows_shown = None

    def render_lines(self, crop: Region) -> list[Strip]:
        filters = self.app.get_line_filters()
        if self._rows_shown is None or self._rows_shown[:2] != (crop, filters):
            self._rows_shown = (crop, list(filters), self.shown_rows(crop))
        return self._rows_shown[2]

    def shown_rows(self, crop: Region) -> list[Strip]:
        """Return the filtered rows of a part of the widget."""
        raise NotImplementedError


class DrawnRow(KeptRow):
    """A widget that draws whole rows in `render_line`, without border or padding."""

    def shown_rows(self, crop: Region) -> list[Strip]:
        rows = [self.render_line(y) for y in range(crop.y, crop.bottom)]
        return FilteredRows(self).filter(rows, crop.x, crop.right)
