"""A document on the screen: which rows are in sight, painted where they changed."""

from __future__ import annotations

from textual.geometry import Region
from textual.selection import Selection
from textual.strip import Strip

from themes.skin import Skin
from tools.safe_text import clean
from widgets.direct_rows import DirectRows
from widgets.filtered_rows import FilteredRows, KeptRow
from widgets.palette import Palette
from widgets.transcript.conversation_search import Finder
from widgets.transcript.document import Document
from widgets.transcript.painting import BAR, SCROLLBAR, Span, badge, hint, painted, thumb_rows
from widgets.transcript.row_positions import PlacedRow, RowPosition, RowRun, height
from widgets.transcript.selection import line_of, selected_text, span_of, whole
from widgets.transcript.viewport import Viewport

Marks = tuple[tuple[Span, ...], Span | None]
"""The spans of a row that were found, and the one that is selected."""
_NO_MARKS: Marks = ((), None)


class DocumentSurface(KeptRow):
    """Draws a document by its own scroll position, and refreshes only rows that differ.

    Textual's `virtual_size` is never touched: each change of it would paint the whole screen anew.
    """

    ALLOW_SELECT = True

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.palette = Palette(Skin())
        self.document = Document(self.palette)
        self.finder = Finder()
        self._viewport = Viewport(self.document)
        self._focused: int | None = None
        """The item the keys act on."""
        self._unread: set[int] = set()
        self._runs: list[RowRun] = []
        """The rows in sight."""
        self._lines: list[Strip] = []
        self._filtered = FilteredRows(self)
        self.direct = DirectRows(self)
        self._known: dict[tuple[object, ...], tuple[Strip, Strip]] = {}
        """The document's rows of the last frame and how they were painted.

        By identity and all that decides how they look; the row is held, so that its identity stays its own.
        """

    @property
    def following(self) -> bool:
        """Whether the end is in sight, so that new rows are shown as they come."""
        return self._viewport.following

    @property
    def unread(self) -> int:
        """Items that came or grew below while the person was reading above."""
        return len(self._unread)

    def repaint(self) -> int:
        """Compose the rows in sight and refresh those that differ from what is on the screen; how many."""
        width, height = self.size
        if not self.is_attached or not height or width < 8:
            return 0
        before, screen = self._lines, self._lines_in_sight(width, height)
        changed: list[int] = []
        for row, strip in enumerate(screen):
            if row < len(before) and (strip is before[row] or strip == before[row]):
                screen[row] = before[row]
            else:
                changed.append(row)
        self._lines = screen
        if changed:
            self._bring_to_screen(changed)
        self.painted()
        return len(changed)

    def _bring_to_screen(self, changed: list[int]) -> None:
        """Paint rows by their numbers, in order: at once where that can be, else in Textual's next frame."""
        self.forget_rows()
        width = self.size.width
        shown = self._filtered.filter(self._lines, 0, width)
        if self.direct.put((row, shown[row]) for row in changed):
            return
        runs: list[list[int]] = []
        for row in changed:
            if runs and runs[-1][1] == row:
                runs[-1][1] = row + 1
            else:
                runs.append([row, row + 1])
        self.refresh(*(Region(0, start, width, end - start) for start, end in runs))

    def painted(self) -> None:
        """Called after each repaint."""

    def redraw_open(self) -> None:
        """Called when what is being written must be drawn in another way."""

    def settle(self) -> None:
        """Called before items are read: bring them up to date."""

    def shown_rows(self, crop: Region) -> list[Strip]:
        rows = self._lines[crop.y : crop.bottom]
        rows += [self._composed(y) for y in range(crop.y + len(rows), crop.bottom)]
        return self._filtered.filter(rows, crop.x, crop.right)

    def render_line(self, y: int) -> Strip:
        """A row with the coordinates of its text, by which Textual finds what the mouse selects."""
        line, rows = self._composed(y), self._rows
        if y >= len(rows):
            return line
        edge = line.cell_length - SCROLLBAR
        body = line.crop(BAR, edge).apply_offsets(0, line_of(rows[y].place))
        return Strip.join([line.crop(0, BAR), body, line.crop(edge)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it is shown."""
        text = selected_text(self.document, selection)
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint the rows whose selection changed."""
        self.repaint()

    def text_select_all(self) -> None:
        """Select the focused item: a double click means what is under the mouse, not everything."""
        if self._focused is not None:
            self.screen.selections = {self: whole(self.document, self._focused)}

    def _composed(self, y: int) -> Strip:
        if y < len(self._lines):
            return self._lines[y]
        return Strip.blank(self.size.width, self.palette.style("text"))

    @property
    def _rows(self) -> list[PlacedRow]:
        """The rows in sight, each with its place."""
        return [row for run in self._runs for row in run.rows()]

    def _lines_in_sight(self, width: int, rows: int) -> list[Strip]:
        if not len(self.document):
            self._runs = []
            return hint(rows, width, self.palette)
        self._runs = self._viewport.runs()
        if self.following:
            self._unread.clear()
        lines = self._painted_rows(rows)
        lines += [Strip.blank(width, self.palette.style("text"))] * (rows - len(lines))
        if message := self._status():
            lines[-1] = badge(lines[-1], message, self.palette)
        return lines

    def _painted_rows(self, rows: int) -> list[Strip]:
        """Whole rows of the screen: the same strips as in the last frame where nothing about them is new."""
        top = self.document.rows_above(self._viewport.top)
        thumb = thumb_rows(top, rows, max(self.document.heights.total, height(self._runs)))
        marked = bool(self.finder.pattern) or self.text_selection is not None
        look = id(self.palette)
        before, self._known = self._known, {}
        lines: list[Strip] = []
        for run in self._runs:
            focused = self._is_focused(run.place)
            for at, strip in enumerate(run.strips, run.place.row):
                on_thumb = None if thumb is None else len(lines) in thumb
                marks = self._marks(strip, run.place._replace(row=at)) if marked else _NO_MARKS
                key = (id(strip), focused, on_thumb, marks, look)
                known = before.get(key) or (strip, self._painted(strip, focused, on_thumb, marks))
                self._known[key] = known
                lines.append(known[1])
        return lines

    def _is_focused(self, place: RowPosition) -> bool:
        """Whether a part belongs to the item the keys act on, the empty row above it left out."""
        if place.item != self._focused or not self.has_focus:
            return False
        return place >= self.document.start_of(place.item)

    def _marks(self, strip: Strip, place: RowPosition) -> Marks:
        """What is found in a row, and what is selected of it."""
        selection, text = self.text_selection, strip.text
        selected = span_of(selection, place, len(text)) if selection else None
        return tuple(self.finder.spans(text)), selected

    def _painted(self, strip: Strip, focused: bool, thumb: bool | None, marks: Marks) -> Strip:
        found, selected = marks
        return painted(strip, self.palette, focused=focused, thumb=thumb, found=found, selected=selected)

    def _status(self) -> str:
        """What stands at the right end of the last row."""
        parts: list[str] = []
        if self.finder.pattern:
            count = self.finder.count
            more = " …" if self.finder.searching else ""
            where = f"{self.finder.number}/{count}{more}" if count else more.strip() or "no match"
            parts.append(f"{clean(self.finder.pattern)}  {where}")
        if self._unread:
            parts.append(f"↓ {len(self._unread)} new")
        return "   ".join(parts)
