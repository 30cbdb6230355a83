"""Wrapping of styled text into rows of a given number of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.rows.row_text import countable

Row = list[Segment]

CUT = "›"
"""The mark at the right edge of a row that continues beyond it."""
CUT_LEFT = "‹"
"""The mark at the left edge of a row that began before it."""

SLICE = 16
"""The maximum code points examined per cell; a longer combination of characters is cut."""

_WIDE_ROWS_CLOSING = frozenset(",.;:!?)]}%…")
"""Characters after a word that do not begin a row if the word can be moved with them."""
_WIDE_ROWS_BLANKS = lazy_pattern(" +")
_LAST_WORD = lazy_pattern(r"\w+$")
_HIDDEN = "hidden"
_JOINED = "joined"


@dataclass(frozen=True, slots=True)
class WideRows:
    """The display of code wider than the view: wrapped, or shifted to the cell `shift`."""

    wrap: bool = False
    shift: int = 0


CUT_AT_EDGE = WideRows()


def rows_for(row: Row, width: int, wide: WideRows, style: Style, lead: Row | None = None) -> list[Row]:
    """Return `row` in rows of at most `width` cells, with marks in `style`.

    `lead` comes before it, wrapped or not, and is never shifted, like a diff's line numbers.
    """
    lead = lead or []
    room = width - cells_of(lead)
    if room < 2:
        return [window([*lead, *row], width, 0, style)]
    if not wide.wrap:
        return [[*lead, *window(row, room, wide.shift, style)]]
    pieces = list(_pieces(row, room))
    rows = [[*lead, *pieces[0]]]
    blanks = 0
    for before, piece in pairwise(pieces):
        # Trailing blanks of earlier pieces cannot be distinguished from padding.
        text = _text(before)
        kept = len(text.rstrip())
        blanks = len(text) - kept + (0 if kept else blanks)
        rows.append(_continue_row(lead, piece, blanks))
    return [(shown if cells_of(shown) <= width else _divide(shown, width)[0]) for shown in rows]


def window(row: Row, width: int, shift: int, style: Style) -> Row:
    """Return `width` cells of `row` from the cell `shift` on, with marks in `style` at hidden ends."""
    if width < 1:
        return []
    shift = max(shift, 0)
    if shift == 0 and cells_of(row) <= width:
        return row
    shown: Row = []
    if shift:
        hidden, row, gap = _divide(row, shift + 1, whole=True)
        text = _text(hidden)
        shown = [_mark(CUT_LEFT if text.strip() else " ", text, style)] if text else []
        width -= 1
        if 0 < gap < width:
            shown.append(_mark(" " * gap, "", style))
            width -= gap
    if cells_of(row) <= width:
        return [*shown, *row]
    inside, rest, gap = _divide(row, max(width - 1, 0))
    blank = [_mark(" " * gap, "", style)] if gap else []
    return [*shown, *inside, *blank, _mark(CUT, _text(rest), style)]


def cells_of(row: Row) -> int:
    """Return the number of cells of a row."""
    total = 0
    for text, _, _ in row:
        # Nearly all text is plain: as many cells as characters.
        total += len(text) if text.isascii() and text.isprintable() else cell_len(text)
    return total


def beyond(strip: Strip) -> int:
    """Return the number of cells hidden beyond a strip's right edge."""
    return sum(cell_len(_meta(run).get(_HIDDEN, "")) for run in strip if run.text == CUT)


def whole_text(strip: Strip, start: int, end: int) -> tuple[str, int | None]:
    """Return the characters `start` to `end` of a strip, including those hidden by marks.

    If the row continues the previous row's text, also return the number of blanks between them, else None.
    """
    parts: list[str] = []
    joined: int | None = None
    at = 0
    for run in strip:
        first, last = max(start - at, 0), min(end - at, len(run.text))
        if first < last:
            meta = _meta(run)
            parts.append(meta.get(_HIDDEN, run.text[first:last]))
            joined = meta.get(_JOINED, joined)
        at += len(run.text)
    return "".join(parts), joined


def _meta(run: Segment) -> dict[str, Any]:
    return run.style.meta if run.style is not None else {}


def _mark(text: str, hidden: str, style: Style) -> Segment:
    return Segment(text, style + Style.from_meta({_HIDDEN: hidden}))


def _continue_row(lead: Row, piece: Row, blanks: int) -> Row:
    """Return a row that continues the previous one; its lead is blank and not part of the text."""
    joined = Style.from_meta({_JOINED: blanks})
    if lead:
        blank = Style.from_meta({_HIDDEN: "", _JOINED: blanks})
        blanks_before = (Segment(" " * run.cell_length, (run.style or Style.null()) + blank) for run in lead)
        return [*blanks_before, *piece]
    first, *rest = piece
    return [Segment(first.text, (first.style or Style.null()) + joined), *rest]


def _pieces(row: Row, width: int) -> Iterator[Row]:
    """Yield `row` in pieces of at most `width` cells, cut after words if possible; at least one piece."""
    text = _text(row)
    at = 0
    for piece in _lengths(text, width):
        yield _between(row, at, at + piece)
        at += piece
    if not text:
        yield []


def _lengths(text: str, width: int) -> Iterator[int]:
    """Yield the number of characters of each piece."""
    at = 0
    while at < len(text):
        piece = _prefix(text[at : at + SLICE * width], width) or text[at]
        follows = at + len(piece)
        if follows < len(text) and text[follows] == " " and not piece.endswith(" "):
            # Blanks between two words stay behind the first, hidden by the edge if need be.
            after = _WIDE_ROWS_BLANKS.match(text, follows)
            assert after is not None
            if after.end() < len(text):
                piece += after.group()
        elif follows < len(text) and not piece.endswith(" "):
            piece = piece[: _last_break(piece, text[follows])]
        yield len(piece)
        at += len(piece)


def _last_break(piece: str, follows: str) -> int:
    """Return where to cut a piece that ends in a word: after its last blank, in the word, or at its end."""
    places = [piece.rfind(" ") + 1]
    if (follows.isalnum() or follows in _WIDE_ROWS_CLOSING) and (word := _LAST_WORD.search(piece)):
        places.append(word.start())
    # Something that fills half of the row does not justify leaving that half blank.
    good = (at for at in places if at > len(piece) // 2 and not piece[:at].isspace())
    return next(good, len(piece))


def _between(row: Row, start: int, end: int) -> Row:
    """Return the characters `start` to `end` of `row`."""
    piece: Row = []
    at = 0
    for run in row:
        if text := run.text[max(start - at, 0) : max(end - at, 0)]:
            piece.append(Segment(text, run.style))
        at += len(run.text)
    return piece


def _divide(row: Row, cells: int, *, whole: bool = False) -> tuple[Row, Row, int]:
    """Split `row` after `cells` cells; also return the missing cells of a wide character at the cut.

    The character goes to the right, and the gap is missing on the left; with `whole` it goes to the left, and
    the gap is missing on the right.
    """
    left: Row = []
    room = cells
    for at, run in enumerate(row):
        size = run.cell_length
        if size <= room:
            left.append(run)
            room -= size
            continue
        kept = _prefix(run.text, room) if room or not left else _marks(run.text)
        missing = room - cell_len(kept)
        if missing and whole:
            kept = _prefix(run.text, room + 1)
            missing = cell_len(kept) - room
        rest = run.text[len(kept) :]
        left += [Segment(kept, run.style)] if kept else []
        return left, [Segment(rest, run.style), *row[at + 1 :]] if rest else row[at + 1 :], missing
    return left, [], 0


def _prefix(text: str, cells: int) -> str:
    """Return the longest start of `text` that fits in `cells`."""
    if text.isascii():
        return text[:cells]
    if cells < 1:
        return ""
    # A character of several code points is kept in one piece, within reason.
    looked = text[: SLICE * cells]
    # Zero-width text is never cut: all of it fits.
    first = next(iter(chop_cells(looked, cells)), looked)
    return first if cell_len(first) <= cells else ""


def _marks(text: str) -> str:
    """Return the leading marks of a text that combine with the preceding character, such as an accent."""
    return "".join(takewhile(lambda character: not cell_len(character), text[:SLICE]))


def _text(row: Row) -> str:
    return "".join(run.text for run in row)


TAB = 8
"""Columns between the tab stops of outside text that is not code."""

_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"
    "\U00020000-\U0003fffd"
)
_CLOSING = "、。，．：；？！）」』】〕〉》”’…!?,.;:)\\]"
_BLANKS = lazy_pattern("[\b\t\n\r\u2028\u2029]")
# Words end at blanks; scripts without blanks may be cut between any two signs, but not before punctuation.
_PIECE = lazy_pattern(rf"[ \t]+|[{_WIDE}][{_CLOSING}]*|[^ \t{_WIDE}]+")


def flat(text: str) -> str:
    """Return `text` safe for one row: without control characters, line feeds and tabs."""
    return text if text.isprintable() else countable(clean(_BLANKS.sub(" ", text)))


def expand_tabs(line: str, size: int) -> str:
    """Return `line` with each tab replaced by blanks up to the next tab stop, counted in cells."""
    line = countable(line)
    if "\t" not in line:
        return line
    if line.isascii():
        return line.expandtabs(size)
    done: list[str] = []
    column = 0
    for piece in line.split("\t")[:-1]:
        column += cell_len(piece)
        gap = size - column % size
        done.append(piece + " " * gap)
        column += gap
    return "".join(done) + line.rsplit("\t", 1)[1]


def wrap(runs: Sequence[Segment], width: int) -> list[Row]:
    """Return rows of at most `width` cells, cut between words if possible; a line feed starts a new row."""
    spans: list[tuple[int, int]] = []
    start = 0
    for line in "".join(run.text for run in runs).split("\n"):
        spans += _fold(line, max(width, 1), start)
        start += len(line) + 1
    return _cut(runs, spans)


def _fold(line: str, width: int, offset: int) -> list[tuple[int, int]]:
    """Return start and end of each row of a line; blanks at a break belong to no row."""
    if cell_len(line) <= width:
        return [(offset, offset + len(line))]
    spans: list[tuple[int, int]] = []
    start = end = used = 0
    for match in _PIECE.finditer(line):
        piece = match[0]
        cells = cell_len(piece)
        if piece.isspace():
            if start == end and used == 0 and spans:
                start = end = match.end()
            else:
                used += cells
            continue
        if used + cells > width:
            if end > start:
                spans.append((offset + start, offset + end))
            start, used = match.start(), 0
            if cells > width:
                *full, last = _chop(piece, width)
                for part in full:
                    spans.append((offset + start, offset + start + len(part)))
                    start += len(part)
                cells = cell_len(last)
        used += cells
        end = match.end()
    if end > start or not spans:
        spans.append((offset + start, offset + end))
    return spans


def _chop(word: str, width: int) -> list[str]:
    if word.isascii():
        return [word[at : at + width] for at in range(0, len(word), width)]
    return [part for part in chop_cells(word, width) if part]


def _cut(runs: Sequence[Segment], spans: Iterable[tuple[int, int]]) -> list[Row]:
    """Return the parts of the runs within the given ascending spans."""
    rows: list[Row] = []
    index = begin = 0
    for start, end in spans:
        row: Row = []
        while index < len(runs):
            run = runs[index]
            finish = begin + len(run.text)
            if finish > start and begin < end:
                row.append(Segment(run.text[max(start - begin, 0) : end - begin], run.style))
            if finish > end:
                break
            begin = finish
            index += 1
        rows.append(row)
    return rows


def crop(row: Row, width: int, style: Style) -> Row:
    """Return `row` unchanged if it fits, else cut to `width` cells with a mark in `style`."""
    return window(row, width, 0, style)


def pad(row: Row, width: int, style: Style) -> Row:
    """Return `row` filled up to `width` cells with blanks in `style`."""
    room = width - cells_of(row)
    return [*row, Segment(" " * room, style)] if room > 0 else row


def strips(rows: Iterable[Row], width: int) -> list[Strip]:
    """Return rows as strips of at most `width` cells."""
    done: list[Strip] = []
    for row in rows:
        size = cells_of(row)
        fits = size <= width
        done.append(Strip(row, size) if fits else Strip(crop(row, width, row[-1].style or Style.null())))
    return done


def plain(text: str, width: int, palette: Palette, role: str = "text") -> list[Strip]:
    """Return outside text that is not markdown, in one style: cleaned, tabs expanded, wrapped on words."""
    style = palette.style(role)
    lines = clean(text).split("\n")
    rows = [row for line in lines for row in wrap([Segment(expand_tabs(line, TAB), style)], width)]
    return strips(rows, width)
