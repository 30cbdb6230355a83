"""Layout and drawing of the prompt, in cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from themes.states import glyph
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.palette import Palette
from widgets.prompt.buffer import Span, is_token
from widgets.prompt.draft import Draft
from widgets.prompt.grapheme_cells import clusters, width
from widgets.prompt.history import HistorySearch

SHOWN = 3
"""The maximum number of messages shown; the others are only counted."""


class QueueView:
    """The waiting messages, those being sent into the running turn, and the selected one."""

    def __init__(self) -> None:
        self._queued: tuple[str, ...] = ()
        self.steering: tuple[str, ...] = ()
        """Messages being sent into the running turn, shown above those that wait."""
        self.chosen: int | None = None
        """The queued message that the keys act on."""

    @property
    def queued(self) -> tuple[str, ...]:
        """The waiting messages, in order."""
        return self._queued

    @queued.setter
    def queued(self, queued: Sequence[str]) -> None:
        self._queued = tuple(queued)
        if self.chosen is not None:
            self.chosen = min(self.chosen, len(queued) - 1) if queued else None

    @property
    def height(self) -> int:
        """Return the number of rows; 0 if no message waits."""
        return height(self._queued, self.steering)

    def paint(self, width: int, palette: Palette) -> list[Strip]:
        """Return the rows, each `width` cells wide."""
        return paint_queue(self._queued, self.steering, self.chosen, width, palette)

    def choose_at(self, row: int) -> None:
        """Select the message in a row; none if the row shows something else."""
        self.chosen = place_at(row, self._queued, self.steering, self.chosen)

    def choose_last(self) -> bool:
        """Select the last queued message; return False if none waits."""
        self.chosen = len(self._queued) - 1 if self._queued else None
        return bool(self._queued)

    def step(self, count: int) -> None:
        """Move the selection; moving below the last message clears it."""
        at = max((self.chosen or 0) + count, 0)
        self.chosen = at if at < len(self._queued) else None

    def take(self, index: int) -> str:
        """Remove a message from the queue and return it; the selection keeps its position."""
        text = self._queued[index]
        self.queued = self._queued[:index] + self._queued[index + 1 :]
        return text


def height(queued: Sequence[str], steering: Sequence[str]) -> int:
    """Return the number of rows that `paint_queue` returns for these messages."""
    return min(len(queued), SHOWN) + (len(queued) > SHOWN) + (1 if steering else 0)


def window(queued: Sequence[str], selected: int | None) -> range:
    """Return the range of shown messages: around the selected one, else the last ones."""
    last = len(queued) if selected is None else min(max(selected + 1, SHOWN), len(queued))
    return range(max(last - SHOWN, 0), last)


def place_at(row: int, queued: Sequence[str], steering: Sequence[str], selected: int | None) -> int | None:
    """Return the queued message in a row of `paint_queue`; None if the row shows something else."""
    row -= (1 if steering else 0) + (len(queued) > SHOWN)
    shown = window(queued, selected)
    return shown[row] if 0 <= row < len(shown) else None


def paint_queue(
    queued: Sequence[str], steering: Sequence[str], selected: int | None, width: int, palette: Palette
) -> list[Strip]:
    """Return a row for the steering messages, one for the hidden rest, and one per shown message."""
    shown = window(queued, selected)
    strips: list[Strip] = []
    if steering:
        more = f" … +{len(steering) - 1}" if len(steering) > 1 else ""
        words = f"{_first_line(steering[-1])}{more} · read before the next request"
        strips.append(_queue_row("↪ ", words, width, palette, chosen=False))
    if len(queued) > SHOWN:
        strips.append(
            _queue_row("  ", f"… {len(queued) - len(shown)} more queued", width, palette, chosen=False)
        )
    for place in shown:
        text = f"{place + 1}  {_first_line(queued[place])}"
        chosen = place == selected
        strips.append(
            _queue_row("▸ " if chosen else f"{glyph('pending')} ", text, width, palette, chosen=chosen)
        )
    return strips


def _first_line(text: str) -> str:
    first, _, rest = clean(text).strip().replace("\t", " ").partition("\n")
    return first + (f" … +{plural(rest.count(chr(10)) + 1, 'line')}" if rest else "")


def _queue_row(glyph: str, text: str, width: int, palette: Palette, *, chosen: bool) -> Strip:
    background = "selection" if chosen else "surface"
    room = max(width - 2, 0)
    text = set_cell_size(text, max(room - 1, 0)) + "…" if cell_len(text) > room else set_cell_size(text, room)
    strip = Strip(
        [
            Segment(glyph, palette.style("accent" if chosen else "dim", background)),
            Segment(text, palette.style("text" if chosen else "dim", background)),
        ]
    )
    return strip.crop(0, width)


def lay_out(text: str, width: int, labels: Mapping[str, str]) -> list[Span]:
    """Return the rows of `text` in `width` cells, at least one, wrapped after blanks where possible.

    Only changed lines are wrapped again. A wrapped row ends where the next one starts; the line feed between
    two lines belongs to neither row.
    """
    rows: list[Span] = []
    at = 0
    for line in text.split("\n"):
        if any(token in line for token in labels):
            spans = _wrap(line, width, labels)
        else:
            spans = _wrap_plain(line, width)
        rows += [(at + start, at + end) for start, end in spans]
        at += len(line) + 1
    return rows


def row_of(rows: list[Span], offset: int) -> int:
    """Return the row of the cursor: the end of a wrapped row is the start of the next one."""
    low, high = 0, len(rows) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rows[middle][0] <= offset:
            low = middle
        else:
            high = middle - 1
    return low


def offset_at(text: str, rows: list[Span], row: int, column: int, labels: Mapping[str, str]) -> int:
    """Return the offset nearest to a cell: before the character there, or at the end of the row."""
    row = min(max(row, 0), len(rows) - 1)
    start, end = rows[row]
    left = 0
    last = start
    for cluster in clusters(text[start:end], labels):
        last = start + cluster.start
        if column < left + cluster.cells:
            return last
        left += cluster.cells
    continued = any(following[0] == end for following in rows[row + 1 : row + 2])
    return last if continued else end


@lru_cache(maxsize=4096)
def _wrap_plain(line: str, width: int) -> tuple[Span, ...]:
    if line.isascii() and "\t" not in line:
        return _wrap_ascii(line, width)
    return _wrap(line, width, {})


def _wrap_ascii(line: str, width: int) -> tuple[Span, ...]:
    """Return the same as `_wrap` for ASCII text, row by row instead of character by character."""
    rows: list[Span] = []
    start = 0
    while len(line) - start > width:
        end = start + width
        if line[end] != " ":
            end = line.rfind(" ", start, end) + 1 or end
        rows.append((start, end))
        start = end
    rows.append((start, len(line)))
    return tuple(rows)


def _wrap(line: str, width: int, labels: Mapping[str, str]) -> tuple[Span, ...]:
    rows: list[Span] = []
    start = chance = 0
    used = since_chance = 0
    for cluster in clusters(line, labels):
        while used + cluster.cells > width and cluster.start > start:
            if chance <= start or cluster.shown == " ":
                chance, since_chance = cluster.start, 0
            rows.append((start, chance))
            start, used = chance, since_chance
        wide = cluster.cells == 2 and not cluster.shown.isspace()
        if wide and cluster.start > start:
            chance, since_chance = cluster.start, 0
        used += cluster.cells
        since_chance += cluster.cells
        if wide or cluster.shown.isspace():
            chance, since_chance = cluster.end, 0
    rows.append((start, len(line)))
    return tuple(rows)


GUTTER = 2
"""Columns left of the text: the symbol and a blank."""
BESIDE = 2
"""The minimum number of blank columns between text and hints."""


class View(NamedTuple):
    """The data to draw the edited text."""

    text: str
    rows: Sequence[Span]
    width: int
    top: int = 0
    """The first row shown."""
    height: int = 1
    cursor: int = 0
    selection: Span | None = None
    focused: bool = True
    symbol: str = "❯"
    symbol_role: str = "user"
    placeholder: str = ""
    hints: Sequence[str] = ()
    """Most important last; those that do not fit beside the text are left out from the front."""
    labels: Mapping[str, str] = MappingProxyType({})


class SearchView(NamedTuple):
    """The data to draw a history search."""

    query: str
    match: str | None
    span: Span
    place: tuple[int, int]
    width: int


def text_width(width: int) -> int:
    """Return the cells of a text row in a prompt of `width`; one cell at its end is for the cursor."""
    return max(width - GUTTER - 1, 1)


def paint(view: View, palette: Palette) -> list[Strip]:
    """Return one strip per row; the hints are at the right of the last one."""
    here = row_of(list(view.rows), view.cursor)
    last = min(view.top + view.height, len(view.rows))
    strips: list[Strip] = []
    for at in range(view.top, view.top + view.height):
        segments = [_gutter(view, at, palette)]
        if not view.text:
            segments += _empty(view, palette)
        elif at < len(view.rows):
            segments += _row(view, at, palette, has_cursor=at == here)
        hints = view.hints if at == last - 1 else ()
        strips.append(finish(segments, hints, view.width, palette))
    return strips


def paint_search(view: SearchView, palette: Palette) -> Strip:
    """Return the search row: the query, its match, and the match's number."""
    shown = clean(view.match or "").replace("\n", "⏎").replace("\t", " ")
    start, end = view.span if len(shown) == len(view.match or "") else (0, 0)
    room = view.width - GUTTER - cell_len(view.query) - 30
    if start > room // 2 > 0:
        cut = start - room // 4
        shown, start, end = "…" + shown[cut:], start - cut + 1, end - cut + 1
    plain, dim = palette.style("text", "surface"), palette.style("dim", "surface")
    segments = [
        Segment("⌕ ", palette.style("accent", "surface")),
        Segment(view.query, plain),
        Segment(" ", palette.style("surface", "cursor")),
        Segment("  "),
    ]
    if view.match is not None:
        segments += [
            Segment(shown[:start], dim),
            Segment(shown[start:end], palette.style("text", "match")),
            Segment(shown[end:], dim),
        ]
        hints = [f"{view.place[0]} of {view.place[1]}", "^R older", "⏎ take", "esc back"]
    else:
        segments.append(Segment("nothing found" if view.query else "search what you sent before", dim))
        hints = ["esc back"]
    return finish(segments, hints, view.width, palette, cut=True)


def finish(
    segments: Iterable[Segment], hints: Sequence[str], width: int, palette: Palette, *, cut: bool = False
) -> Strip:
    """Return a full row: segments at the left, hints at the right if they fit.

    `cut` shortens the left side to half the row to make room for hints.
    """
    surface = palette.style("text", "surface")
    filled = (Segment(s.text, s.style or surface) for s in segments if s.text)
    # A new strip measures its segments: a cut through a joined emoji changes their width.
    left = Strip(list(Strip(filled).crop(0, width)))
    right = ""
    room = width // 2 if cut else width - left.cell_length - BESIDE
    for first in range(len(hints)):
        right = " · ".join(hints[first:])
        if cell_len(right) <= room:
            break
    else:
        right = ""
    if cut and left.cell_length > width - cell_len(right) - BESIDE:
        left = left.crop(0, width - cell_len(right) - BESIDE - 1)
        left = Strip([*left, Segment("…", palette.style("dim", "surface"))])
    gap = max(width - left.cell_length - cell_len(right), 0)
    return Strip([*left, Segment(" " * gap, surface), Segment(right, palette.style("dim", "surface"))], width)


def _gutter(view: View, at: int, palette: Palette) -> Segment:
    if at == view.top > 0:
        return Segment("↑ ", palette.style("dim", "surface"))
    if at == view.top + view.height - 1 and at < len(view.rows) - 1:
        return Segment("↓ ", palette.style("dim", "surface"))
    symbol = _in_gutter(view.symbol) if at == 0 else " " * GUTTER
    return Segment(symbol, palette.style(view.symbol_role, "surface", bold=True))


@lru_cache(maxsize=16)
def _in_gutter(symbol: str) -> str:
    return set_cell_size(clean(symbol), GUTTER)


def _empty(view: View, palette: Palette) -> list[Segment]:
    words = clean(view.placeholder) or " "
    dim = palette.style("dim", "surface")
    under = palette.style("surface", "cursor") if view.focused else dim
    return [Segment(words[0], under), Segment(words[1:], dim)]


def _row(view: View, at: int, palette: Palette, *, has_cursor: bool) -> list[Segment]:
    """Return the text of one row, adjacent characters of one style merged."""
    start, end = view.rows[at]
    low, high = view.selection or (0, 0)
    text_style = palette.style("text", "surface")
    pieces: list[tuple[str, Style]] = []
    drawn = False
    room = text_width(view.width)
    for cluster in clusters(view.text[start:end], view.labels):
        offset = start + cluster.start
        role = "accent" if is_token(view.text[offset]) else "text"
        style = text_style if role == "text" else palette.style(role, "surface")
        if low <= offset < high:
            style = palette.style(role, "selection")
        if has_cursor and view.focused and offset == view.cursor:
            style, drawn = palette.style("surface", "cursor"), True
        shown = cluster.shown if cluster.cells <= room else set_cell_size(cluster.shown, room - 1) + "…"
        if style == palette.style("surface", "cursor") and view.text[offset] == "\t":
            pieces += [(" ", style), (shown[1:], text_style)]
        else:
            pieces.append((shown, style))
    if has_cursor and view.focused and not drawn:
        pieces.append((" ", palette.style("surface", "cursor")))
    elif low <= end < high and end < len(view.text) and view.text[end] == "\n":
        # A selected line feed shows as a blank, or an empty line would look left out.
        pieces.append((" ", palette.style("text", "selection")))
    return _merge_runs(pieces)


def _merge_runs(pieces: list[tuple[str, Style]]) -> list[Segment]:
    segments: list[Segment] = []
    texts: list[str] = []
    for at, (text, style) in enumerate(pieces):
        texts.append(text)
        if at + 1 == len(pieces) or pieces[at + 1][1] != style:
            segments.append(Segment("".join(texts), style))
            texts = []
    return segments


class PromptPicture:
    """The waiting messages and the wrapped text as strips, cached between draws."""

    def __init__(self, draft: Draft, queue: QueueView) -> None:
        self._draft = draft
        self._queue = queue
        self.rows: list[Span] = [(0, 0)]
        """The rows of the text."""
        self._top = 0
        """The first row of the text that is shown."""
        self._shown = 1
        """The number of rows shown."""
        self.strips: Sequence[Strip] = ()

    def measure(self, cells: int, screen_rows: int) -> int:
        """Wrap the text in `cells`; return the wanted rows, at most a third of the screen for the text."""
        above = self._queue.height
        self._wrap(cells, max(screen_rows // 3 - above, 1))
        return above + self._shown

    def draw(
        self,
        cells: int,
        room: int,
        palette: Palette,
        *,
        focused: bool,
        placeholder: str,
        hints: Sequence[str],
        search: HistorySearch | None,
    ) -> list[int]:
        """Paint the measured text into `room` rows; return the numbers of changed rows."""
        left = room - self._queue.height
        if 0 < left < self._shown:
            # The new row is written at once; room for it comes with the layout, which takes longer.
            self._wrap(cells, left)
        buffer = self._draft.buffer
        is_shell = buffer.text.startswith("!")
        view = View(
            text=buffer.text,
            rows=self.rows,
            top=self._top,
            height=self._shown,
            width=cells,
            cursor=buffer.cursor,
            selection=buffer.selection,
            focused=focused,
            symbol="!" if is_shell else palette.skin.prompt_symbol,
            symbol_role="warning" if is_shell else "user",
            placeholder=placeholder,
            hints=hints,
            labels=self._draft.pastes.labels,
        )
        strips = [*self._queue.paint(cells, palette), *paint(view, palette)]
        if search is not None:
            found = SearchView(search.query, search.match, search.span, search.place, cells)
            strips[-self._shown] = paint_search(found, palette)
        before, self.strips = self.strips, strips
        return [at for at, strip in enumerate(strips) if at >= len(before) or before[at] != strip]

    def cursor_cell(self) -> tuple[int, int]:
        """Return column and row of the cursor within the prompt."""
        buffer = self._draft.buffer
        row = row_of(self.rows, buffer.cursor)
        before = buffer.text[self.rows[row][0] : buffer.cursor]
        column = GUTTER + width(before, self._draft.pastes.labels)
        return column, self._queue.height + row - self._top

    def offset_at(self, x: int, y: int) -> int:
        """Return the text offset nearest to a cell of the prompt."""
        row = self._top + y - self._queue.height
        return offset_at(self._draft.buffer.text, self.rows, row, x - GUTTER, self._draft.pastes.labels)

    def _wrap(self, cells: int, most: int) -> None:
        """Wrap the text and scroll to the cursor, showing at most `most` rows."""
        buffer = self._draft.buffer
        self.rows = lay_out(buffer.text, text_width(cells), self._draft.pastes.labels)
        shown = self._shown = min(len(self.rows), most)
        here = row_of(self.rows, buffer.cursor)
        self._top = min(max(self._top, here - shown + 1), here, len(self.rows) - shown)
