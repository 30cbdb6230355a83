"""A document as rows of the screen: those in sight, and which of them are others than before."""

from __future__ import annotations

from collections.abc import Iterator

from textual.selection import Selection
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.transcript.conversation_search import Finder
from widgets.transcript.document import Document
from widgets.transcript.painting import BAR, SCROLLBAR, Span, badge, hint, painted, thumb_rows
from widgets.transcript.part_types import PicturePart
from widgets.transcript.row_positions import PlacedRow, RowPosition, RowRun, height
from widgets.transcript.selection import line_of, span_of
from widgets.transcript.viewport import Viewport

Marks = tuple[tuple[Span, ...], Span | None]
"""The spans of a row that were found, and the one that is selected."""
_NO_MARKS: Marks = ((), None)


class DocumentPicture:
    """Composes the rows of a viewport on a document: bar of the focus, marks, scrollbar, badge."""

    def __init__(self, document: Document, viewport: Viewport, finder: Finder, palette: Palette) -> None:
        self.palette = palette
        self.unread: set[int] = set()
        """Items that came or grew below while the person was reading above."""
        self.welcomes = True
        """Whether an empty conversation says what to do."""
        self.lines: list[Strip] = []
        """The rows as they were composed last."""
        self._document = document
        self._viewport = viewport
        self._finder = finder
        self._runs: list[RowRun] = []
        """The rows in sight."""
        self._known: dict[tuple[object, ...], tuple[Strip, Strip]] = {}
        """The document's rows of the last frame and how they were painted.

        By identity and all that decides how they look; the row is held, so that its identity stays its own.
        """

    @property
    def rows(self) -> list[PlacedRow]:
        """The rows in sight, each with its place."""
        return [row for run in self._runs for row in run.rows()]

    def compose(self, width: int, height: int, focused: int | None, selection: Selection | None) -> list[int]:
        """Compose what is in sight; the rows that differ from before, by their numbers.

        `focused` is the item that has the keys.
        """
        before, screen = self.lines, self._in_sight(width, height, focused, selection)
        changed: list[int] = []
        for row, strip in enumerate(screen):
            if row < len(before) and (strip is before[row] or strip == before[row]):
                screen[row] = before[row]
            else:
                changed.append(row)
        self.lines = screen
        return changed

    def pictures(self) -> Iterator[PicturePart]:
        """The images of the items in sight, also those that have no rows yet."""
        for item in dict.fromkeys(run.place.item for run in self._runs):
            for part in self._document.parts(item):
                if isinstance(part, PicturePart):
                    yield part

    def line(self, y: int, width: int) -> Strip:
        """A row as it was composed last; an empty one below what there is."""
        return self.lines[y] if y < len(self.lines) else self._blank(width)

    def selectable_line(self, y: int, width: int) -> Strip:
        """A row with the coordinates of its text, by which Textual finds what the mouse selects."""
        line, rows = self.line(y, width), self.rows
        if y >= len(rows):
            return line
        edge = line.cell_length - SCROLLBAR
        body = line.crop(BAR, edge).apply_offsets(0, line_of(rows[y].place))
        return Strip.join([line.crop(0, BAR), body, line.crop(edge)])

    def _in_sight(
        self, width: int, rows: int, focused: int | None, selection: Selection | None
    ) -> list[Strip]:
        if not len(self._document):
            self._runs = []
            return hint(rows, width, self.palette) if self.welcomes else [self._blank(width)] * rows
        self._runs = self._viewport.runs()
        if self._viewport.following:
            self.unread.clear()
        lines = self._painted_rows(rows, focused, selection)
        lines += [self._blank(width)] * (rows - len(lines))
        if message := self._status():
            lines[-1] = badge(lines[-1], message, self.palette)
        return lines

    def _painted_rows(self, rows: int, focused: int | None, selection: Selection | None) -> list[Strip]:
        """Whole rows of the screen: the same strips as in the last frame where nothing about them is new."""
        top = self._document.rows_above(self._viewport.top)
        thumb = thumb_rows(top, rows, max(self._document.heights.total, height(self._runs)))
        marked = bool(self._finder.pattern) or selection is not None
        look = id(self.palette)
        before, self._known = self._known, {}
        lines: list[Strip] = []
        for run in self._runs:
            has_keys = run.place.item == focused and (run.place >= self._document.start_of(run.place.item))
            for at, strip in enumerate(run.strips, run.place.row):
                on_thumb = None if thumb is None else len(lines) in thumb
                marks = self._marks(strip, run.place._replace(row=at), selection) if marked else _NO_MARKS
                key = (id(strip), has_keys, on_thumb, marks, look)
                known = before.get(key) or (strip, self._painted(strip, has_keys, on_thumb, marks))
                self._known[key] = known
                lines.append(known[1])
        return lines

    def _marks(self, strip: Strip, place: RowPosition, selection: Selection | None) -> Marks:
        """What is found in a row, and what is selected of it."""
        text = strip.text
        selected = span_of(selection, place, len(text)) if selection else None
        return tuple(self._finder.spans(text)), selected

    def _painted(self, strip: Strip, focused: bool, thumb: bool | None, marks: Marks) -> Strip:
        found, selected = marks
        return painted(strip, self.palette, focused=focused, thumb=thumb, found=found, selected=selected)

    def _blank(self, width: int) -> Strip:
        return Strip.blank(width, self.palette.style("text"))

    def _status(self) -> str:
        """What stands at the right end of the last row."""
        parts: list[str] = []
        if pattern := self._finder.pattern:
            count = self._finder.count
            more = " …" if self._finder.searching else ""
            where = f"{self._finder.number}/{count}{more}" if count else more.strip() or "no match"
            parts.append(f"{clean(pattern)}  {where}")
        if self.unread:
            parts.append(f"↓ {len(self.unread)} new")
        return "   ".join(parts)
