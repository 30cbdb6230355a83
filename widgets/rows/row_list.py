"""A widget that draws any number of selectable rows.

Only visible rows are requested, drawn and cached. The scroll position is a row and a line within it, so no
cost depends on the number of rows.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from themes.states import state_glyph
from widgets.painting.filtered_rows import FilteredRows, KeptRow
from widgets.palette import Palette
from widgets.rows.row_text import to_strip
from widgets.rows.row_view import RowView

FRAME = 1 / 30
"""Seconds between two paints of a list that keeps changing."""


class Painted(Protocol):
    """The methods of a row list that `RowPainter` uses."""

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
    """A collector of a list's changed rows that refreshes only the lines that look different."""

    def __init__(self, rows: Painted, view: RowView) -> None:
        self._rows = rows
        self._view = view
        self._stale: set[int] | None = set()
        """Rows to paint again; None means all."""
        self._layout: list[tuple[int, int]] = []
        """The layout of the last paint, which the screen shows."""
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


SLICE = 0.003
"""Seconds of filtering before other work gets its turn."""
STRIDE = 16
"""Rows between two checks of the clock."""


class RowFilter:
    """Words that must all occur in a row's text, in any order and case."""

    def __init__(self, text_of: Callable[[int], str]) -> None:
        self._text_of = text_of
        self._needle = ""
        self._words: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._last = ""
        self.typing = False
        """Whether keys are typed into the filter text."""

    @property
    def needle(self) -> str:
        """The typed filter; empty if everything is shown."""
        return self._needle

    @needle.setter
    def needle(self, needle: str) -> None:
        self._needle = needle
        self._words = needle.casefold().split()
        self._last = needle if self._words else self._last
        words = "|".join(re.escape(word) for word in needle.split())
        self._pattern = re.compile(words, re.IGNORECASE) if words else None

    def accepts(self, index: int) -> bool:
        """Return whether the filter accepts the row at `index`."""
        return not self._words or _has_all(self._text_of(index), self._words)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the words in a drawn line."""
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield match.span()

    def scan_slice(self, view: RowView) -> bool:
        """Filter the next rows of `view` for about `SLICE` seconds; return True if more remain."""
        index = view.scanned or 0
        end = time.monotonic() + SLICE
        found: list[int] = []
        while index < view.count:
            stop = min(index + STRIDE, view.count)
            found += [row for row in range(index, stop) if self.accepts(row)]
            index = stop
            if time.monotonic() >= end:
                break
        view.add_matches(found, index)
        return index < view.count

    async def find(self, view: RowView, direction: int) -> int | None:
        """Return the nearest row in `direction` (1 or -1) from the cursor that matches the last filter,
        wrapping around; None if there is none or no filter was set.
        """
        words = self._last.casefold().split()
        start = view.cursor_row
        if start is None or not words:
            return None
        row, end = start, time.monotonic() + SLICE
        for step in range(1, view.count + 1):
            if view.count == 0:
                return None
            row = (start + direction * step) % view.count
            if _has_all(self._text_of(row), words):
                return row
            if step % STRIDE == 0 and time.monotonic() >= end:
                await asyncio.sleep(0)
                end = time.monotonic() + SLICE
        return None


def _has_all(text: str, words: list[str]) -> bool:
    text = text.casefold()
    return all(word in text for word in words)


Draw = Callable[[int, int], Sequence[Text]]
"""Returns the lines of a row, given its index and the width in cells: cleaned text, at least one line.

The first cell is the gutter of the cursor and should be blank.
"""

WHEEL_LINES = 3


class RowList(KeptRow, can_focus=True):
    """A list of rows drawn on demand, with a cursor, a filter and optionally the newest row always in view.

    The owner keeps the data and reports changes with `reset`, `add_rows`, `insert_row`, `drop_rows` and
    `update_row`. `draw` is called for visible rows only; `search_text` for every row during a filter or
    search.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "RowList { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="rows.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="rows.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="rows.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="rows.page_down"),
        Binding("g,home", "first", "First", show=False, id="rows.first"),
        Binding("G,end", "last", "Last", show=False, id="rows.last"),
        Binding("enter", "open", "Open", id="rows.open"),
        Binding("slash", "filter", "Filter", id="rows.filter"),
        Binding("escape", "clear_filter", "Show all", show=False, id="rows.clear_filter"),
        Binding("y", "copy", "Copy", show=False, id="rows.copy"),
    ]

    class Activated(Message):
        """A row was opened. `index` counts all rows of the owner, including hidden ones."""

        def __init__(self, rows: RowList, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> RowList:
            return self.rows

    def __init__(
        self,
        draw: Draw,
        *,
        search_text: Callable[[int], str] | None = None,
        count: int = 0,
        empty: str = "",
        follow: bool = False,
        background: str = "background",
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.background = background
        self.empty = empty
        """The hint shown in an empty list."""
        self.problem = ""
        """Why there are no rows; shown instead of `empty`."""
        self.lit = False
        """Whether the cursor is shown while another widget has the focus and moves it."""
        self.margin = 1
        """Cells before and after that hint."""
        self._draw = draw
        self._search_text = search_text or self._row_text
        self._view = RowView(self._height_of, count=count, follow=follow)
        self._filter = RowFilter(self._search_text)
        self._strips: dict[int, list[Strip]] = {}
        self._painter = RowPainter(self, self._view)
        self._filtered = FilteredRows(self)

    # Methods for the owner

    @property
    def count(self) -> int:
        """The number of rows, including hidden ones."""
        return self._view.count

    @property
    def cursor(self) -> int | None:
        """The index of the row under the cursor; None if no row is shown."""
        return self._view.cursor_row

    @property
    def follows(self) -> bool:
        """True if the newest row stays in view."""
        return self._view.follow

    @property
    def needle(self) -> str:
        """The filter text, or empty."""
        return self._filter.needle

    @property
    def shown_count(self) -> int:
        """The number of rows the filter accepts."""
        return len(self._view.rows)

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.repaint()

    def reset(self, count: int) -> None:
        """Replace all rows with `count` new ones."""
        self._view.reset(count)
        self._after_change()

    def add_rows(self, count: int = 1) -> None:
        """Handle `count` rows added at the end."""
        first = self._view.count
        matching = [i for i in range(first, first + count) if self._filter.accepts(i)]
        self._view.append(count, matching)
        self._painter.mark(*range(first, first + count)) if count < 64 else self.repaint()

    def insert_row(self, index: int) -> None:
        """Handle one row inserted before the row at `index`."""
        self._view.insert(index, self._filter.accepts(index))
        self.repaint()

    def drop_rows(self, count: int) -> None:
        """Handle the removal of the first `count` rows."""
        self._view.drop(count)
        self.repaint()

    def update_row(self, index: int) -> None:
        """Handle a changed row at `index`."""
        self._strips.pop(index, None)
        self._view.update_match(index, self._filter.accepts(index))
        self._painter.mark(index)

    def move_to(self, index: int) -> None:
        """Move the cursor to the row at `index`, or to the nearest shown row."""
        self._view.move_to(index)
        self.cursor_moved()

    def repaint(self) -> None:
        """Draw every line again."""
        self._strips.clear()
        self._view.forget_layout()
        self._painter.mark_all()

    # Methods a subclass may override

    def heading(self, width: int) -> Text | None:
        """Return a fixed line above the rows, or None."""
        return None

    def ink(self, role: str, *, bold: bool = False, italic: bool = False) -> Style:
        """Return the style of text in `role` on the background of this list."""
        return self.palette.style(role, self.background, bold=bold, italic=italic)

    # Keys

    def action_move(self, lines: int) -> None:
        self._view.move(lines)
        self.cursor_moved()

    def action_page(self, direction: int) -> None:
        self._view.page(direction)
        self.cursor_moved()

    def action_first(self) -> None:
        self._view.move_to(0)
        self.cursor_moved()

    def action_last(self) -> None:
        self._view.to_end()
        self.cursor_moved()

    def action_open(self) -> None:
        if (row := self.cursor) is not None:
            self.post_message(self.Activated(self, row))

    def action_filter(self) -> None:
        self._filter.typing = True
        self._resize_view()

    def action_clear_filter(self) -> None:
        self._search("")
        self._filter.typing = False
        self._resize_view()

    def action_find(self, direction: int) -> None:
        self.run_worker(partial(self._find, direction), group="find", exclusive=True)

    def action_copy(self) -> None:
        if (row := self.cursor) is not None:
            self.app.copy_to_clipboard(self._search_text(row))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: esc only while there is a filter to remove."""
        if action == "clear_filter":
            return self._filter.typing or bool(self._filter.needle)
        return True

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return whether a key is typed into the filter, and therefore triggers no command."""
        return self._filter.typing and character is not None and character.isprintable()

    def on_key(self, event: events.Key) -> None:
        if not self._filter.typing:
            if not self._begins_filter(event):
                return
            self.action_filter()
        needle = self._filter.needle
        if event.key == "enter":
            self._filter.typing = False
            self._resize_view()
        elif event.key == "backspace":
            self._search(needle[:-1])
        elif event.character is not None and event.is_printable:
            self._search(needle + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def _begins_filter(self, event: events.Key) -> bool:
        """Return whether the key is a letter without a command here, which starts a filter."""
        chain = self.screen._modal_binding_chain  # including bindings that are disabled now
        typed = event.character or ""
        return (
            bool(self.count)
            and typed.isalnum()
            and not any(event.key in keys.key_to_bindings for _, keys in chain)
        )

    def on_paste(self, event: events.Paste) -> None:
        if self._filter.typing:
            first = event.text.strip().partition("\n")[0]
            self._search(self._filter.needle + "".join(c for c in first if c.isprintable()))
            event.stop()

    # Mouse

    def on_click(self, event: events.Click) -> None:
        line = event.y - self.heading_lines
        layout = self._view.layout()
        if 0 <= line < len(layout):
            self._view.move_to(layout[line][0])
            self.cursor_moved()
            self.action_open()
            event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(-WHEEL_LINES, event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(WHEEL_LINES, event)

    def _scroll(self, lines: int, event: events.MouseEvent) -> None:
        if self._view.scroll(lines):
            self._painter.mark()
        event.stop()

    def on_resize(self) -> None:
        self._resize_view()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self._filter.typing = False
        self._resize_view()

    # Filter and search

    def _search(self, needle: str) -> None:
        if needle != self._filter.needle:
            self._filter.needle = needle
            self._after_change()

    def _after_change(self) -> None:
        if self._filter.needle:
            self.run_worker(self._apply_filter, group="filter", exclusive=True)
        elif self._view.scanned is not None:
            self.workers.cancel_group(self, "filter")
            self._view.show_all()
        self.repaint()

    async def _apply_filter(self) -> None:
        """Filter all rows in slices; rows added during this are included."""
        self._view.start_filter()
        while self._filter.scan_slice(self._view):
            self._painter.mark()
            await asyncio.sleep(0)
        self.repaint()

    async def _find(self, direction: int) -> None:
        found = await self._filter.find(self._view, direction)
        if found is not None:
            self.move_to(found)

    # Drawing

    @property
    def heading_lines(self) -> int:
        """The number of lines above the rows, 0 or 1."""
        return 0 if self.heading(max(self.size.width, 1)) is None else 1

    @property
    def _foot(self) -> int:
        return 1 if self._filter.typing or self._filter.needle else 0

    @property
    def _room(self) -> int:
        """The number of lines for rows."""
        return max(self.size.height - self.heading_lines - self._foot, 0)

    def _resize_view(self) -> None:
        self._view.resize(self._room)
        self.repaint()

    def cursor_moved(self) -> None:
        """Repaint what a cursor move changes."""
        self._painter.mark()

    def _lines_of(self, row: int) -> list[Strip]:
        strips = self._strips.get(row)
        if strips is None:
            if len(self._strips) > 1024:
                self._strips.clear()
            drawn = self._draw(row, self.size.width) or [Text()]
            strips = self._strips[row] = [self._strip(self._mark_matches(line)) for line in drawn]
        return strips

    def _height_of(self, row: int) -> int:
        return len(self._lines_of(row))

    def _row_text(self, row: int) -> str:
        return "\n".join(line.plain for line in self._draw(row, 240))

    def _mark_matches(self, line: Text) -> Text:
        spans = list(self._filter.spans(line.plain))
        if not spans:
            return line
        line = line.copy()
        for start, end in spans:
            line.stylize(self.palette.style("text", "match"), start, end)
        return line

    def _strip(self, line: Text) -> Strip:
        return to_strip(line, self.size.width, self.ink("text"), self.app.console)

    def shown_rows(self, crop: Region) -> list[Strip]:
        return self._filtered.filter(self._compose_rows()[crop.y : crop.bottom], crop.x, crop.right)

    def render_line(self, y: int) -> Strip:
        return self._compose_rows()[y]

    def _compose_rows(self) -> list[Strip]:
        """Return every line of the widget: heading, rows or a hint, filter."""
        width, height = self.size
        heading = self.heading(width)
        lines = [self._strip(heading)] if heading is not None else []
        if self._view.height != self._room:
            # The first paint happens before the widget receives its size.
            self._view.resize(self._room)
        layout = self._view.layout()
        focused = self.has_focus or self.lit
        for index, line in layout:
            strip = self._lines_of(index)[line]
            lines.append(self._under_cursor(strip) if focused and index == self.cursor else strip)
        if not layout:
            lines += map(self._strip, self._hint())
        room = height - self._foot
        lines = lines[:room] + [Strip.blank(width, self.ink("text"))] * (room - len(lines))
        return [*lines, self._strip(self._filter_line())] if self._foot else lines

    def _under_cursor(self, strip: Strip) -> Strip:
        width = self.size.width
        if width < 2:
            return strip
        plain = self.ink("text").bgcolor
        mark = self.palette.style("text", "selection")
        # Without colours the row is reversed, and dim text in it would be hard to read.
        lit = Style(bgcolor=mark.bgcolor, reverse=mark.reverse, dim=False if mark.reverse else None)
        # Search hits keep their background; a blank in another colour would be a block when reversed.
        segments = [
            Segment(text, mark if mark.reverse and text.isspace() else style + lit)
            if style is not None and style.bgcolor == plain
            else Segment(text, style)
            for text, style, _ in strip
        ]
        lit_strip = Strip(segments, width)
        if not strip.text.startswith(" "):
            return lit_strip
        return Strip([Segment("▌", self.palette.style("accent", "selection")), *lit_strip.crop(1)], width)

    def _hint(self) -> list[Text]:
        """Return the text shown if there are no rows."""
        text = self.empty
        if self._view.count:
            looking = self._view.scanned is not None and self._view.scanned < self._view.count
            text = "Looking …" if looking else "No row matches. esc shows all."
        mark, role = state_glyph("failed")
        said = Text(f"{mark} {self.problem}", self.ink(role)) if self.problem else Text(text, self.ink("dim"))
        wrapped = said.wrap(self.app.console, max(self.size.width - 2 * self.margin, 1))
        return [Text(" " * self.margin).append_text(line) for line in wrapped]

    def _filter_line(self) -> Text:
        cursor = "█" if self._filter.typing else ""
        line = Text(" / ", self.ink("accent"))
        room = max(self.size.width - 5, 1)
        line.append(self._filter.needle[-room:], self.ink("text"))
        return line.append(cursor, self.ink("cursor"))


class ReadingRows(RowList):
    """A list of rows to read, in which `n` and `N` go to the next and the previous match."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "find(1)", "Next match", show=False, id="rows.next"),
        Binding("N", "find(-1)", "Previous match", show=False, id="rows.previous"),
    ]


class HeadedRows(RowList):
    """A list of rows under headings; the cursor skips the headings."""

    def is_heading(self, index: int) -> bool:
        """Return whether the row at `index` is a heading."""
        raise NotImplementedError

    def action_move(self, lines: int) -> None:
        super().action_move(lines)
        self.leave_heading(1 if lines > 0 else -1)

    def action_page(self, direction: int) -> None:
        super().action_page(direction)
        self.leave_heading(direction)

    def action_first(self) -> None:
        super().action_first()
        self.leave_heading(1)

    def leave_heading(self, step: int) -> None:
        """Move from a heading to a row; at the first heading, turn around."""
        for direction in (step, -step):
            before = None
            while (at := self.cursor) is not None and at != before and self.is_heading(at):
                before = at
                RowList.action_move(self, direction)
