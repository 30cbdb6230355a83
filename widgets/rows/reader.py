"""A reader for one text of any length that draws only the visible rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from widgets.painting.filtered_rows import FilteredRows, KeptRow
from widgets.palette import Palette
from widgets.rows.row_view import RowView
from widgets.transcript.drawing import SCROLLBAR, Span, mark_span, thumb_rows
from widgets.transcript.wrap import TAB, Row, WideRows, expand_tabs, flat, rows_for, whole_text

_HUNK = lazy_pattern(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_ROLES = {"+": "added", "-": "removed"}
_HEAD, _OLD, _NEW = "dim", "--- ", "+++ "


def diff_tones(lines: Iterable[str]) -> dict[int, str]:
    """Return the roles of lines by number from 0: `added`, `removed`, or `dim` for file and hunk headers.

    A hunk has exactly the length its header states, so lists with dashes are not coloured, even after a diff.
    Lines without a role have the colour of the text. Pure.
    """
    tones: dict[int, str] = {}
    old = new = 0
    last = before = ""
    for number, line in enumerate(lines):
        sign = line[:1]
        if (old or new) and _fits(sign, old, new):
            if sign in _ROLES:
                tones[number] = _ROLES[sign]
            old -= sign in ("-", " ", "")
            new -= sign in ("+", " ", "")
        elif sign == "@" and (head := _HUNK.match(line)):
            old, new = (1 if count is None else int(count) for count in head.groups())
            tones[number] = _HEAD
            if before.startswith(_OLD) and last.startswith(_NEW):
                tones |= {number - 2: _HEAD, number - 1: _HEAD}
        elif sign != "\\":
            old = new = 0
        before, last = last, line
    return tones


def _fits(sign: str, old: int, new: int) -> bool:
    """Return whether a hunk that still lacks `old` and `new` lines can continue with a line of this sign."""
    if sign in _ROLES:
        return bool(old if sign == "-" else new)
    return sign in (" ", "") and bool(old and new)


PIECE = 2_048
"""The maximum characters of a piece. A longer line continues in the next one on any screen."""
NEAR = 128
"""Characters before the end of a piece within which a cut at a blank is preferred."""
KEPT = 512
"""The number of pieces whose rows are cached."""

Gutter = Callable[[str], int]
"""Returns how many characters at the start of a line form its margin."""
Show = Callable[[str], str]
"""Makes a piece safe to show: `clean`, or `reveal`, which spells out invisible characters."""


class ReaderRows:
    """The rows of a text at one width. Only requested pieces are prepared, wrapped and cached."""

    def __init__(
        self,
        text: str,
        show: Show,
        marks: re.Pattern[str] | None = None,
        *,
        gutter: int | Gutter = 0,
        diffs: bool = False,
    ) -> None:
        """The first `gutter` characters of each line form a margin; wrapped text is indented by it.

        With `diffs`, lines of unified diffs in the text have the styles of their roles.
        """
        self.text = text
        self.pieces, self.continued = cut(text)
        self.drawn = 0
        """How often a piece was drawn, as a measure of the work."""
        self._show = show
        self._marks = marks
        self._gutter = gutter if callable(gutter) else lambda _line: gutter
        self._tones = piece_tones(self.pieces, self.continued) if diffs and "@@ -" in text else {}
        self._inks: Mapping[str, Style] = {}
        self._look = (80, WideRows(wrap=True), Style.null(), Style.null(), Style.null())
        self._kept: dict[int, list[Row]] = {}

    def look(
        self,
        width: int,
        wide: WideRows,
        text: Style,
        marked: Style,
        edge: Style,
        inks: Mapping[str, Style] | None = None,
    ) -> None:
        """Set the drawing options: cells per row, wrapped or shifted, and the three styles.

        `inks` are the styles of diff roles; a role without one is drawn as plain text.
        """
        look, inks = (max(width, 1), wide, text, marked, edge), inks or {}
        if (look, inks) != (self._look, self._inks):
            self._look, self._inks = look, inks
            self._kept.clear()

    def rows(self, index: int) -> list[Row]:
        """Return the rows of one piece, none wider than the width; at least one."""
        rows = self._kept.get(index)
        if rows is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            piece = self.pieces[index]
            gutter = 0 if index in self.continued else self._gutter(piece)
            rows = self._kept[index] = self._draw(piece, gutter, self._inks.get(self._tones.get(index, "")))
        return rows

    def height(self, index: int) -> int:
        """Return the number of rows of a piece."""
        return len(self.rows(index))

    def count(self, limit: int) -> int:
        """Return the number of all rows, counted up to `limit`."""
        rows = 0
        for index in range(len(self.pieces)):
            rows += self.height(index)
            if rows >= limit:
                return limit
        return rows

    def _draw(self, piece: str, gutter: int, ink: Style | None) -> list[Row]:
        self.drawn += 1
        width, wide, text, marked, edge = self._look
        style = ink or text
        shown = flat(expand_tabs(self._show(piece), TAB))
        lead, row = _split_row(list(self._runs(shown, style, marked)), gutter)
        return rows_for(row, width, wide, edge, lead)

    def _runs(self, text: str, style: Style, marked: Style) -> Iterator[Segment]:
        at = 0
        for found in self._marks.finditer(text) if self._marks else ():
            if found.start() > at:
                yield Segment(text[at : found.start()], style)
            yield Segment(found[0], marked)
            at = found.end()
        if at < len(text) or not text:
            yield Segment(text[at:], style)


def piece_tones(pieces: list[str], continued: frozenset[int]) -> dict[int, str]:
    """Return the diff roles of pieces by number; a continued piece has the role of its line. Pure."""
    starts = [index for index in range(len(pieces)) if index not in continued]
    tones: dict[int, str] = {}
    for line, role in diff_tones(pieces[start] for start in starts).items():
        end = starts[line + 1] if line + 1 < len(starts) else len(pieces)
        tones.update(dict.fromkeys(range(starts[line], end), role))
    return tones


def _split_row(row: Row, count: int) -> tuple[Row, Row]:
    """Split a row after `count` characters."""
    before: Row = []
    for at, segment in enumerate(row):
        if count <= 0:
            return before, row[at:]
        if len(segment.text) > count:
            text, style, _ = segment
            return [*before, Segment(text[:count], style)], [Segment(text[count:], style), *row[at + 1 :]]
        before.append(segment)
        count -= len(segment.text)
    return before, []


def cut(text: str) -> tuple[list[str], frozenset[int]]:
    """Return the pieces of a text, and the numbers of those that continue the previous piece's line."""
    pieces: list[str] = []
    continued: set[int] = set()
    for line in text.split("\n"):
        if len(line) <= PIECE:
            pieces.append(line)
            continue
        at = 0
        while at < len(line):
            end = at + PIECE
            if end < len(line):
                end = line.rfind(" ", end - NEAR, end) + 1 or end
            if at:
                continued.add(len(pieces))
            pieces.append(line[at:end])
            at = end
    return pieces, frozenset(continued)


SHIFT = 8
"""Cells of one step sideways."""
WHEEL = 3
"""Rows per step of the mouse wheel."""
KEPT_LINES = 1_024
"""The number of screen rows that are cached as strips."""
_ROW_BITS = 24
DIFF_ROLES = ("added", "removed", "dim")
"""Roles that lines of diffs have."""


class ReaderLook(NamedTuple):
    """The appearance of a reader: roles of its colours, margin, and whether it can have the focus."""

    role: str = "text"
    background: str = "background"
    margin: int = 1
    """Columns before the text."""
    focusable: bool = False


class Reader(KeptRow):
    """A widget for a text, which scrolls, wraps or shifts sideways, and can be selected.

    Opening only searches line feeds; scrolling draws only the rows that become visible. With the height
    `auto`, the widget is as high as the text.
    """

    ALLOW_SELECT = True
    DEFAULT_CSS = "Reader { width: 100%; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_rows(-1)", "Up", show=False, id="reader.up"),
        Binding("down,j", "scroll_rows(1)", "Down", show=False, id="reader.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="reader.page_up"),
        Binding("pagedown,space", "page(1)", "Page down", show=False, id="reader.page_down"),
        Binding("g,home", "top", "Start", show=False, id="reader.top"),
        Binding("G,end", "end", "End", show=False, id="reader.end"),
        Binding("left,h", "shift(-1)", "Left", show=False, id="reader.left"),
        Binding("right,l", "shift(1)", "Right", show=False, id="reader.right"),
        Binding("w", "wrap", "Wrap", show=False, id="reader.wrap"),
    ]

    def __init__(
        self,
        text: str,
        show: Show = clean,
        *,
        marks: re.Pattern[str] | None = None,
        wrap: bool = True,
        gutter: int | Gutter = 0,
        diffs: bool = False,
        look: ReaderLook | None = None,
        classes: str = "",
    ) -> None:
        """`show` makes each piece of `text` safe to display; matches of `marks` are drawn in the error style.

        `gutter` is the number of characters at each line's start that wrapped text is indented by. With
        `diffs`, lines of unified diffs have their colours.
        """
        super().__init__(classes=classes)
        look = look or ReaderLook()
        self.can_focus = look.focusable
        self._rows_of: Callable[[str], ReaderRows] = lambda text: ReaderRows(
            text, show, marks, gutter=gutter, diffs=diffs
        )
        self.rows = self._rows_of(text)
        self._view = RowView(lambda index: self.rows.height(index), count=len(self.rows.pieces))
        self._wide = WideRows(wrap=wrap)
        self._role = look.role
        self._background = look.background
        self._margin = look.margin
        self._lines: dict[tuple[int, int, object], Strip] = {}
        self._filtered = FilteredRows(self)

    @property
    def text(self) -> str:
        """The whole text, unchanged."""
        return self.rows.text

    def read(self, text: str) -> None:
        """Show another text from its start."""
        self.rows = self._rows_of(text)
        self._view.reset(len(self.rows.pieces))
        self._view.move_to(0)
        self._redraw()

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self._redraw()

    # Moving

    def scroll_by(self, rows: int) -> bool:
        """Scroll by rows, down if positive; return False at the end of the text."""
        moved = bool(self._view.height) and self._view.scroll(rows)
        if moved:
            self.refresh()
        return moved

    def page(self, step: int) -> bool:
        """Scroll by a screen less one row of overlap; return False at the end of the text."""
        return self.scroll_by(step * max(self._view.height - 1, 1))

    def action_scroll_rows(self, rows: int) -> None:
        self.scroll_by(rows)

    def action_page(self, step: int) -> None:
        self.page(step)

    def action_top(self) -> None:
        self._view.move_to(0)
        self.refresh()

    def action_end(self) -> None:
        self._view.to_end()
        # The end of the last piece, which can be higher than the window.
        self._view.scroll(self.rows.height(len(self.rows.pieces) - 1))
        self.refresh()

    def action_wrap(self) -> None:
        self._wide = WideRows(wrap=not self._wide.wrap)
        self._redraw()

    def action_shift(self, step: int) -> None:
        if not self._wide.wrap:
            self._wide = WideRows(shift=max(self._wide.shift + step * SHIFT, 0))
            self._redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(WHEEL)

    # Selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as displayed, with wrapped lines joined."""
        if selection.start is None and selection.end is None:
            return clean(self.text), "\n"
        start = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self.rows.pieces) << _ROW_BITS
        lines: list[str] = []
        for index in range(start >> _ROW_BITS, min((last >> _ROW_BITS) + 1, len(self.rows.pieces))):
            for at, row in enumerate(self.rows.rows(index)):
                span = selection.get_span(index << _ROW_BITS | at)
                if span is not None and start <= (index << _ROW_BITS | at) <= last:
                    self._take(lines, Strip(row), span, goes_on=at == 0 and index in self.rows.continued)
        return ("\n".join(lines), "\n") if lines else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Repaint the selection."""
        self.refresh()

    def _take(self, lines: list[str], row: Strip, span: Span, *, goes_on: bool) -> None:
        text, joined = whole_text(row, span[0], span[1] if span[1] >= 0 else len(row.text))
        if lines and (joined is not None or goes_on):
            lines[-1] += text
        else:
            lines.append(text)

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the text, at most that of a screen."""
        self._prepare(width)
        return self.rows.count(max(viewport.height, 1))

    def on_resize(self) -> None:
        self._view.resize(self.size.height)
        self._redraw()

    def shown_rows(self, crop: Region) -> list[Strip]:
        return self._filtered.filter(self._compose_rows()[crop.y : crop.bottom], crop.x, crop.right)

    def render_line(self, y: int) -> Strip:
        """Return a row with its text coordinates, which Textual uses for mouse selection."""
        line = self._compose_rows()[y]
        layout = self._view.layout()
        if y >= len(layout):
            return line
        index, at = layout[y]
        edge = line.cell_length - SCROLLBAR
        body = line.crop(self._margin, edge).apply_offsets(0, index << _ROW_BITS | at)
        return Strip.join([line.crop(0, self._margin), body, line.crop(edge)])

    def _redraw(self) -> None:
        self._prepare(self.size.width)
        self.refresh()

    def _prepare(self, width: int) -> None:
        text, dim = (self.palette.style(role, self._background) for role in (self._role, "dim"))
        error = self.palette.style("error", self._background, bold=True)
        inks = {role: self.palette.style(role, self._background) for role in DIFF_ROLES}
        self.rows.look(width - self._margin - SCROLLBAR, self._wide, text, error, dim, inks)
        self._view.forget_layout()
        self._lines.clear()

    def _compose_rows(self) -> list[Strip]:
        width, height = self.size
        layout = self._view.layout()
        thumb = self._thumb(layout)
        lines = [
            self._line(index, at, None if thumb is None else y in thumb)
            for y, (index, at) in enumerate(layout[:height])
        ]
        blank = Strip.blank(width, self.palette.style("text", self._background))
        return lines + [blank] * (height - len(lines))

    def _line(self, index: int, at: int, thumb: bool | None) -> Strip:
        """Return one screen row; the same strip object if nothing changed."""
        row = Strip(self.rows.rows(index)[at])
        selection = self.text_selection
        span = selection.get_span(index << _ROW_BITS | at) if selection else None
        key = (index, at, (thumb, span))
        if key not in self._lines:
            if len(self._lines) > KEPT_LINES:
                self._lines.clear()
            base = self.palette.style("text", self._background)
            bar = Segment("┃" if thumb else " ", self.palette.style("dim", self._background))
            room = max(self.size.width - self._margin - SCROLLBAR, 0)
            body = (mark_span(row, span, self.palette) if span else row).adjust_cell_length(room, base)
            self._lines[key] = Strip([Segment(" " * self._margin, base), *body, bar])
        return self._lines[key]

    def _thumb(self, layout: list[tuple[int, int]]) -> range | None:
        """Return the scrollbar thumb's rows, assuming all pieces are as high as the visible ones."""
        pieces, height = len(self.rows.pieces), self._view.height
        if not layout:
            return None
        (top, skip), (bottom, last) = layout[0], layout[-1]
        ends = bottom == pieces - 1 and last == self.rows.height(bottom) - 1
        if ends and (top, skip) == (0, 0):
            return None
        each = sum(map(self.rows.height, range(top, bottom + 1))) / (bottom + 1 - top)
        total = max(int(pieces * each), height + 1)
        return thumb_rows(total - height if ends else int(top * each) + skip, height, total)
