"""Navigation in a document: focus, positions, folds, sideways shifts, search."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import Any, Literal, NamedTuple, Protocol

from rich.cells import cell_len
from textual import events
from textual.geometry import Offset
from textual.selection import Selection
from textual.widget import Widget

from tools.text.safe_text import clean
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import SCROLLBAR
from widgets.transcript.markdown import label_of
from widgets.transcript.parts import (
    CodePart,
    DiffPart,
    Fold,
    Item,
    MarkupPart,
    Part,
    UserItem,
    WordsPart,
    code_in,
    folds,
    text_of,
)
from widgets.transcript.picture import SLICE, DocumentPicture, Finder, Viewport, line_of, run_in_slices
from widgets.transcript.wrap import beyond

Unit = Literal["line", "block", "message"]


class SourceLine(NamedTuple):
    """A line of the source of one part of an item."""

    item: int
    part: int
    line: int


class SourceSpan(NamedTuple):
    """The lines of a document from the first to the last."""

    first: SourceLine
    last: SourceLine


class CopyRange:
    """A line, block or message that keys move; once held, everything from there to the current one."""

    def __init__(self, document: Document, item: int) -> None:
        """Begin at the first line of an item that has rows."""
        self._document = document
        first = self._whole(item).first
        self._at = SourceSpan(first, first)
        self._held: SourceSpan | None = None

    def hold(self) -> None:
        """Let the range begin here; if it is held already, let it move again."""
        self._held = self._at if self._held is None else None

    def step(self, unit: Unit, step: int) -> None:
        """Go to the next unit (1) or the previous one (-1); a larger unit begins with the one around it."""
        around = self._around(unit, self._at.first)
        if unit == "line" or around == self._at:
            place = self._beside(unit, self._at.last if step > 0 else self._at.first, step)
            around = self._around(unit, place) if place is not None else self._at
        self._at = around

    @property
    def marked(self) -> SourceSpan:
        """The whole marked span."""
        held = self._held or self._at
        return SourceSpan(min(held.first, self._at.first), max(held.last, self._at.last))

    def place(self) -> RowPosition:
        """Return the row at the end that moves."""
        grows = self._held is not None and self._at > self._held
        return self._row(self._at.last if grows else self._at.first)

    def selection(self) -> Selection:
        """Return the rows that show what is marked, at least one."""
        first, last = self.marked
        end = self._row(last._replace(line=last.line + 1))
        end = max(end, end._replace(row=self._row(last).row + 1))
        return Selection(Offset(0, line_of(self._row(first))), Offset(0, line_of(end)))

    def text(self) -> str:
        """Return the source of what is marked: all of an item that is marked whole, also if it is folded."""
        first, last = self.marked
        texts: list[str] = []
        for item in range(first.item, last.item + 1):
            whole = self._whole(item)
            span = SourceSpan(max(first, whole.first), min(last, whole.last))
            source = clean(self._document.source(item))
            texts.append(source if span == whole else self._source_of(span, source))
        return "\n\n".join(filter(None, texts))

    def _source_of(self, span: SourceSpan, source: str) -> str:
        """Return a span of an item's source, with the text between its parts if that can be found."""
        (_, low, above), (_, high, below) = span
        start, at, kept = 0, 0, list[str]()
        for part, text in self._texts(span.first.item).items():
            begin = _offset(text, above) if part == low else 0
            end = _offset(text, below + 1) - 1 if part == high else len(text)
            if low <= part <= high:
                kept.append(text[begin:end])
            if at >= 0 and part <= high and (at := source.find(text, at)) >= 0:
                start = at + begin if part == low else start
                at += end
        return source[start:at] if at >= 0 else "\n".join(kept)

    def _texts(self, item: int) -> dict[int, str]:
        """Return the texts of the parts of an item that have any."""
        return {part: text for part, each in enumerate(self._document.parts(item)) if (text := text_of(each))}

    def _whole(self, item: int) -> SourceSpan:
        texts = self._texts(item) or {0: ""}
        last = max(texts)
        return SourceSpan(SourceLine(item, min(texts), 0), SourceLine(item, last, texts[last].count("\n")))

    def _around(self, unit: Unit, place: SourceLine) -> SourceSpan:
        """Return the unit that contains a line."""
        if unit == "message":
            return self._whole(place.item)
        if unit == "line":
            return SourceSpan(place, place)
        last = max(self._texts(place.item).get(place.part, "").count("\n"), place.line)
        return SourceSpan(place._replace(line=0), place._replace(line=last))

    def _beside(self, unit: Unit, place: SourceLine, step: int) -> SourceLine | None:
        """Return the nearest line before or after the unit of `place`; None at the document's ends."""
        item, part, line = place
        texts = self._texts(item)
        if unit == "line" and 0 <= line + step <= texts.get(part, "").count("\n"):
            return place._replace(line=line + step)
        if unit != "message":
            beyond = [number for number in texts if (number - part) * step > 0]
            if beyond:
                number = beyond[0] if step > 0 else beyond[-1]
                return SourceLine(item, number, 0 if step > 0 else texts[number].count("\n"))
        item += step
        while self._document.has(item):
            if self._texts(item):
                whole = self._whole(item)
                return whole.first if step > 0 else whole.last
            item += step
        return None

    def _row(self, place: SourceLine) -> RowPosition:
        """Return the row where a line begins, by the number of rows that the lines above it take alone."""
        item, part, line = place
        parts = self._document.parts(item)
        if part >= len(parts):
            return self._document.start_of(item)
        rows = len(self._document.strips(item, part))
        lines = text_of(parts[part]).split("\n")
        if line >= len(lines):
            return RowPosition(item, part, rows)
        return RowPosition(item, part, min(self._rows_above(parts[part], lines[:line]), max(rows - 1, 0)))

    def _rows_above(self, part: Part, lines: list[str]) -> int:
        """Return the rows of a part's first lines."""
        if not lines:
            return 0
        if not isinstance(part, CodePart) and code_in(part) is None:
            return len(self._document.draw(_with_text(part, "\n".join(lines))))
        if self._document.wrap:
            # Empty rows at the end of code are not drawn, so a line stands in for the one below.
            return len(self._document.draw(_with_text(part, "\n".join([*lines, "."])))) - 1
        return len(lines) - (isinstance(part, MarkupPart) and lines[0][:4].lstrip(" ")[:1] in ("`", "~"))


def _offset(text: str, line: int) -> int:
    """Return the offset at which a line begins; after the last line, the length of the text plus one."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1 or len(text) + 1
    return at


def _with_text(part: Part, text: str) -> Part:
    """Return a part with another text, without a language, because highlighting would be slow."""
    match part:
        case MarkupPart(block=block):
            return MarkupPart(replace(block, source=text, info="" if block.kind == "fence" else block.info))
        case CodePart():
            return CodePart(text)
        case WordsPart():
            return replace(part, text=text)
        case DiffPart():
            return replace(part, diff=text)
        case _:
            return part


SHIFT = 8
"""Cells of one step sideways."""
REPEATS = 4.0
"""Seconds within which copying again copies the next block of code."""


class NavigatorHost(Protocol):
    """The methods of the widget that a navigator uses."""

    def repaint(self) -> int:
        """Paint the visible rows that changed; return their number."""
        ...

    def settle(self) -> None:
        """Update unfinished items before they are read."""

    def redraw_code(self) -> None:
        """Redraw code with other options, and paint."""

    def select(self, selection: Selection | None) -> None:
        """Select this range; None clears the selection."""

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]], *, group: str = "") -> None:
        """Run work in the background; within a group only the last one runs."""


class Navigator:
    """The user's position in a document, and moves from there. Each move ends with a repaint."""

    def __init__(
        self,
        document: Document,
        viewport: Viewport,
        finder: Finder,
        picture: DocumentPicture,
        host: NavigatorHost,
    ) -> None:
        self.focused: int | None = None
        """The item that the keys act on; None if there is none."""
        self.range: CopyRange | None = None
        """The range selected with the keys; it ends with the selection."""
        self._document = document
        self._viewport = viewport
        self._finder = finder
        self._picture = picture
        self._host = host
        self._copied = (-1, 0, 0.0)
        """The item that was copied last, which of its texts, and when."""
        self._wanted_step = 0
        """The requested step to a hit that is not found yet; 0: none."""
        self._seeking: Iterator[None] | None = None
        """The search for a position that was started last."""
        self.last_pattern = ""
        """The pattern of the last search in this conversation."""

    def forget(self) -> None:
        """Reset for another conversation: go to its end, without focus or search."""
        self._seeking = None
        self.focused = None
        self.end_range()
        self.last_pattern = ""
        self._finder.clear()
        self._viewport.to_end()

    # Search

    async def find(self, pattern: str, *, go: bool = False) -> int | None:
        """Search all items ignoring case; return the number of hits, None if another search replaced it.

        Hits can be visited during the search. An empty pattern ends the search. With `go`, the first hit in
        or below the focused item is visited as soon as it is found.
        """
        self._host.settle()
        self._wanted_step = int(go)
        self.last_pattern = pattern or self.last_pattern
        finder = self._finder
        steps = finder.search(self._document, pattern)
        async for _ in run_in_slices(steps):
            if self._wanted_step:
                self.find_step(self._wanted_step)
            self._host.repaint()
        return finder.count if finder.pattern == pattern and not finder.searching else None

    async def find_again(self, step: int) -> None:
        """Repeat the last search, and go to its next (1) or previous (-1) hit."""
        if not self.last_pattern:
            return
        before = self.focused
        await self.find(self.last_pattern, go=True)
        if step < 0 or self.focused == before:
            self.find_step(step)

    def find_next(self) -> None:
        """Go to the next hit, after the last to the first."""
        self.find_step(1)

    def find_previous(self) -> None:
        """Go to the previous hit."""
        self.find_step(-1)

    def find_step(self, step: int) -> None:
        """Go to the next (1) or previous (-1) hit as soon as it is found."""
        here = self._viewport.top.item if self.focused is None else self.focused
        match = self._finder.move(step, here)
        self._wanted_step = step if match is None and self._finder.searching else 0
        if match is not None:
            self.focused = match.item
            self._viewport.hold()
            self._viewport.reveal(self._finder.place(self._document, match), 1)
        self._host.repaint()

    async def go_to(self, wanted: Callable[[Item], bool], words: str = "") -> bool:
        """Go to the last `wanted` item, open it and highlight `words`; return False if there is none."""
        self._host.settle()
        document = self._document
        found: int | None = None

        def look() -> Iterator[None]:
            nonlocal found
            index = document.stop - 1
            while found is None and document.has(index):
                found = index if wanted(document.peek(index)) else None
                index -= 1
                yield

        async for _ in run_in_slices(look()):
            pass
        if found is None:
            return False
        self.focused = found
        if folds(document.peek(found)):
            document.fold(found, Fold.OPEN)
        self._viewport.to(document.start_of(found))
        self._viewport.scroll(-self._viewport.height // 4)
        self._host.repaint()
        if words and words.lower() in document.source(found).lower():
            self._host.go_on(partial(self.find, words, go=True), group="find")
        return True

    # Places

    def move(self, step: int) -> None:
        """Move the focus between items; the first step focuses the item nearest to the prompt.

        While keys select, they go from line to line.
        """
        if self.range is not None:
            self.step_range("line", step)
            return
        document, index = self._document, self.focused
        if index is None:
            rows = self._picture.rows
            index = rows[-1].place.item - step if rows else 0
        index += step
        while document.has(index) and not document.parts(index):
            index += step
        if document.has(index):
            self.focused = index
            self._viewport.reveal(document.start_of(index))
        self._host.repaint()

    def jump_to_start(self) -> None:
        """Go to the first row."""
        self._viewport.to_start()
        self._host.repaint()

    def jump_to_end(self) -> None:
        """Go to the end and follow it."""
        self._viewport.to_end()
        self._host.repaint()

    def jump_to_share(self, share: float) -> None:
        """Go to a fraction of the document, from 0 to 1."""
        self._viewport.to_share(share)
        self._host.repaint()

    def jump_user(self, step: int) -> None:
        """Go to the user's previous (-1) or next (1) message, from the focused item or the first visible row.

        A selection by keys moves by a message instead.
        """
        if self.range is not None:
            self.step_range("message", step)
            return
        if not len(self._document):
            return
        self._viewport.rows()
        top = self._viewport.top
        here = top.item if self.focused is None else self.focused
        if step < 0 and self.focused is None and top > self._document.start_of(here):
            here += 1
        self._seek(self._to_user(here + step, step))
        self._host.repaint()

    def scroll(self, rows: int) -> None:
        """Move by some rows, down if positive."""
        self._viewport.scroll(rows)
        self._host.repaint()

    def _to_user(self, index: int, step: int) -> Iterator[None]:
        """Search for a message by the user from `index` on, one item per step, and go there."""
        while self._document.has(index):
            if isinstance(self._document.peek(index), UserItem):
                self.focused = index
                self._viewport.to(self._document.start_of(index))
                self._host.repaint()
                return
            index += step
            yield

    def _seek(self, steps: Iterator[None]) -> None:
        """Run a search: at once for a near target, else in slices until the user moves elsewhere."""
        self._seeking = steps
        end = perf_counter() + SLICE
        for _ in steps:
            if perf_counter() >= end:
                self._host.go_on(partial(self._seek_on, steps, self._where))
                return

    async def _seek_on(self, steps: Iterator[None], before: tuple[int | None, RowPosition | None]) -> None:
        async for _ in run_in_slices(
            takewhile(lambda _: self._seeking is steps and self._where == before, steps)
        ):
            pass

    @property
    def _where(self) -> tuple[int | None, RowPosition | None]:
        """Return the current item and position; no position at the end, which moves automatically."""
        return self.focused, None if self._viewport.following else self._viewport.top

    # A range for copying

    def begin_range(self) -> None:
        """Begin a selection by keys at the focused item; if there is one, hold or release its start."""
        if self.range is not None:
            self.range.hold()
        else:
            if self.focused is None:
                self.move(-1)
            if self.focused is None:
                return
            self._host.settle()
            self.range = CopyRange(self._document, self.focused)
        self.mark_range()

    def step_range(self, unit: Unit, step: int) -> None:
        """Move the range, or its end if the start is held."""
        if self.range is not None:
            self._host.settle()
            self.range.step(unit, step)
            self.mark_range()

    def mark_range(self) -> None:
        """Select the rows of the range, and scroll to the end that moves."""
        if self.range is not None:
            place = self.range.place()
            self.focused = place.item
            self._viewport.hold()
            self._viewport.reveal(place, 1)
            self._host.select(self.range.selection())
            self._host.repaint()

    def end_range(self) -> None:
        """End the selection by keys, if there is one, and clear it."""
        if self.range is not None:
            self.range = None
            self._host.select(None)

    # Folds

    def toggle(self, index: int, *, further: bool = False) -> None:
        """Fold or unfold an item. With `further`, an automatically opened one opens fully."""
        entry = self._document.entry(index)
        if not folds(entry.item):
            return
        self._host.settle()
        self.end_range()
        closed = entry.fold is Fold.CLOSED or (further and entry.fold is Fold.PEEK)
        self._viewport.hold()
        self._document.fold(index, Fold.OPEN if closed else Fold.CLOSED)
        if index == self._viewport.top.item and not closed:
            # Its rows may be gone; only its header remains.
            self._viewport.reveal(self._document.start_of(index), 1)
        elif closed:
            self._viewport.reveal(self._document.start_of(index))
        self._host.repaint()

    def toggle_focused(self, *, further: bool = False) -> None:
        """Fold or unfold the focused item, if any."""
        if self.focused is not None:
            self.toggle(self.focused, further=further)

    def fold_all(self) -> None:
        """Fold all items that can fold."""
        self._fold_all(Fold.CLOSED)

    def unfold_all(self) -> None:
        """Open all items that can fold, or fold them if they were opened like this last."""
        self._fold_all(Fold.CLOSED if self._document.folded is Fold.OPEN else Fold.OPEN)

    def _fold_all(self, fold: Fold) -> None:
        self._host.settle()
        self.end_range()
        self._viewport.hold()
        self._document.fold_all(fold)
        self._host.repaint()

    # Code that is wider than the screen

    def wrap_code(self, on: bool) -> None:
        """Wrap or cut long lines of code."""
        if on == self._document.wrap:
            return
        self._viewport.hold()
        self._document.wrap_code(on)
        self._host.redraw_code()

    def shift(self, step: int) -> None:
        """Shift the code of the focused item, else of the first visible item that is cut off, sideways."""
        if self.focused is None:
            cut = (row.place.item for row in self._picture.rows if beyond(row.strip))
            self.focused = next(cut, None)
        if self.focused is not None:
            self.shift_code(self.focused, step * SHIFT)

    def shift_code(self, index: int, cells: int) -> None:
        """Shift an item's code sideways, right if positive, up to the end of its visible rows."""
        document = self._document
        if document.wrap:
            return
        if cells > 0:
            rows = (row.strip for row in self._picture.rows if row.place.item == index)
            # The last hidden cell replaces the mark.
            cells = min(cells, max(map(beyond, rows), default=0) - 1)
            if cells <= 0:
                return
        before = document.wide(index).shift
        after = max(before + cells, 0)
        if after != before:
            document.shift(index, after)
            self._host.redraw_code()

    # Items

    def focused_item(self) -> Item | None:
        """Return the focused item, up to date, or None."""
        if self.focused is None:
            return None
        self._host.settle()
        return self._document.entry(self.focused).item

    def source(self) -> str | None:
        """Return the source of the focused item, else of the last; None in an empty conversation."""
        if not len(self._document):
            return None
        self._host.settle()
        return clean(self._document.source(self._document.stop - 1 if self.focused is None else self.focused))

    def next_copy(self) -> tuple[str, str] | None:
        """Return the text to copy, and a sentence on what is copied next; None in an empty conversation.

        The text is the range selected with keys, which then ends; else the source of the focused or the last
        item, and if this is repeated soon, each of its blocks of code in turn.
        """
        if self.range is not None:
            text = self.range.text()
            self.end_range()
            return text, ""
        if (source := self.source()) is None:
            return None
        index = self._document.stop - 1 if self.focused is None else self.focused
        blocks = self._document.code_blocks(index)
        before, turn, at = self._copied
        now = perf_counter()
        turn = turn + 1 if before == index and now - at < REPEATS and turn < len(blocks) else 0
        self._copied = (index, turn, now)
        more = f"y again: block of code {turn + 1} of {len(blocks)}." if turn < len(blocks) else ""
        return (clean(blocks[turn - 1]) if turn else source), more

    def node(self) -> int:
        """Return the node of the focused message, or of the nearest one before it; 0 if there is none."""
        index = self.focused
        while index is not None and self._document.has(index):
            if node := getattr(self._document.peek(index), "node", 0):
                return node
            index -= 1
        return 0


WHEEL = 3
"""Rows per step of the mouse wheel."""


class DocumentMouse:
    """A converter of a widget's mouse events to moves of its navigator."""

    def __init__(
        self, document: Document, picture: DocumentPicture, navigator: Navigator, widget: Widget
    ) -> None:
        self._document = document
        self._picture = picture
        self._navigator = navigator
        self._widget = widget
        self.on_scrollbar = False
        """Whether the pointer is over the scrollbar, or drags it."""

    @property
    def dragging(self) -> bool:
        """True while the scrollbar is dragged."""
        return self.on_scrollbar and self._widget.app.mouse_captured is self._widget

    def wheel(self, event: events.MouseEvent, step: int, *, sideways: bool) -> None:
        """Handle one step of the wheel, down or right if `step` is positive."""
        event.stop()
        if not sideways:
            self._navigator.scroll(step * WHEEL)
        elif event.y < len(rows := self._picture.rows):
            self._navigator.shift_code(rows[event.y].place.item, step * SHIFT)

    def down(self, event: events.MouseDown) -> None:
        """Handle a pressed button."""
        if event.button == 1 and self._is_over_scrollbar(event):
            self.on_scrollbar = True
            self._widget.capture_mouse()
            self._drag(event)

    def move(self, event: events.MouseMove) -> None:
        """Handle a mouse move, with or without a button."""
        widget = self._widget
        if widget.app.mouse_captured is widget:
            self._drag(event)
            return
        self.on_scrollbar = self._is_over_scrollbar(event)
        selects = event.button == 1 and widget.text_selection is not None
        if selects and event.y in (0, widget.size.height - 1):
            self._navigator.scroll(-1 if event.y == 0 else 1)

    def up(self) -> None:
        """Handle a released button."""
        self.on_scrollbar = False
        self._widget.release_mouse()

    def click(self, event: events.Click) -> bool:
        """Focus the clicked item and open or fold it; return False for a click without effect."""
        rows = self._picture.rows
        selects = self._widget.text_selection is not None
        if selects or self._is_over_scrollbar(event) or event.y >= len(rows):
            return False
        place = rows[event.y].place
        start = self._document.start_of(place.item)
        if place < start:
            return False
        self._navigator.focused = place.item
        closed = self._document.entry(place.item).fold is not Fold.OPEN
        # The head folds and unfolds; a row below it only opens, for its text is there to be selected.
        if event.chain == 1 and (place == start or closed):
            self._navigator.toggle(place.item, further=place != start)
        return True

    def code_at(self, event: events.Click) -> str | None:
        """Return the code whose label was clicked; None for any other click."""
        rows = self._picture.rows
        if event.y >= len(rows) or rows[event.y].place.row:
            return None
        (item, part, _row), strip = rows[event.y]
        parts = self._document.parts(item)
        block = parts[part] if part < len(parts) else None
        if not isinstance(block, MarkupPart) or (code := code_in(block)) is None:
            return None
        text, label = strip.text.rstrip(), label_of(block.block.info)
        end = cell_len(text)
        return code if text.endswith(label) and end - cell_len(label) <= event.x < end else None

    def _is_over_scrollbar(self, event: events.MouseEvent) -> bool:
        size = self._widget.size
        return event.x >= size.width - SCROLLBAR and self._document.heights.total > size.height

    def _drag(self, event: events.MouseEvent) -> None:
        share = max(event.y, 0) / max(self._widget.size.height - 1, 1)
        self._navigator.jump_to_share(min(share, 1.0))
