"""A unified diff as strips: one column of line numbers, colours of the language, marks in changed lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.transcript.code import TAB, CodeLine, highlight, ink
from widgets.transcript.diff_reader import DiffFile, DiffHunk, DiffLine, read_diff
from widgets.transcript.wide_rows import CUT_AT_EDGE, Row, WideRows, rows_for
from widgets.transcript.word_diff import Spans, changed_words
from widgets.transcript.wrap import crop, expand_tabs, pad, strips

MAX_ROWS = 400
READ_CHARS = 1_000_000
"""Characters of a diff that are read; of the rest only the lines are counted."""
MARK_STRENGTH = 0.3
"""How far the background of changed words is drawn towards the colour of the words."""

_CHANGED = {"+": "added", "-": "removed"}


def render_diff(
    diff: str,
    width: int,
    palette: Palette,
    *,
    language: str = "",
    max_rows: int = MAX_ROWS,
    wide: WideRows = CUT_AT_EDGE,
) -> list[Strip]:
    """The diff in rows of at most `width` cells; a last row counts the lines beyond `max_rows`.

    Colours follow `language`, or the name of each file where it is empty. Names
    of files are shown only if there are several of them, or nothing else.
    """
    text = clean(diff[:READ_CHARS])
    files = read_diff(text) if text.strip() else []
    drawer = LineDrawer(width, palette, number_size(files), wide)
    rows: list[Row] = []
    left = diff.count("\n", READ_CHARS)
    for file in files:
        before: _Part | None = None
        for part in _parts(file, alone=len(files) == 1):
            room = max(max_rows - len(rows), 0)
            if room and rows and (gap := drawer.gap(before, part)) is not None:
                rows.append(gap)
            rows += drawer.draw(part, room, language or file.path)
            left += max((len(part.lines) if isinstance(part, DiffHunk) else 1) - room, 0)
            before = part
    if left:
        rows.append([Segment(f"… {left:,} more rows", palette.style("dim"))])
    return strips(rows, width)


@dataclass(frozen=True, slots=True)
class _Note:
    """A row that is no line of a file: its name, or what the diff says about it."""

    text: str
    is_title: bool


_Part = DiffHunk | _Note


def _parts(file: DiffFile, *, alone: bool) -> Iterator[_Part]:
    if file.title and not (alone and any(isinstance(part, DiffHunk) for part in file.parts)):
        yield _Note(file.title, is_title=True)
    for part in file.parts:
        yield part if isinstance(part, DiffHunk) else _Note(part, is_title=False)


def number_size(files: Sequence[DiffFile]) -> int:
    """Digits of the largest line number."""
    hunks = (part for file in files for part in file.parts if isinstance(part, DiffHunk))
    return len(str(max((line.number for hunk in hunks for line in hunk.lines), default=0)))


class LineDrawer:
    """Draws the parts of a diff in one width and one palette; `number_size` is that of the line numbers."""

    def __init__(self, width: int, palette: Palette, number_size: int, wide: WideRows) -> None:
        self._width = width
        self._wide = wide
        self._palette = palette
        self._size = number_size
        self._dim = palette.style("dim")

    def gap(self, before: _Part | None, part: _Part) -> Row | None:
        """The row between two parts; `before` is None between files."""
        if before is None:
            return []
        if isinstance(before, _Note) or isinstance(part, _Note):
            return None
        text = f"{'⋯':>{self._size}}    {part.section}".rstrip()
        return self._crop([Segment(expand_tabs(text, TAB), self._dim)])

    def draw(self, part: _Part, room: int, language: str) -> list[Row]:
        """At most `room` rows."""
        if isinstance(part, DiffHunk):
            return self._hunk(part.lines[:room], language)
        style = self._palette.style("text", bold=True) if part.is_title else self._dim
        return [self._crop([Segment(expand_tabs(part.text, TAB), style)])][:room]

    def _hunk(self, lines: list[DiffLine], language: str) -> list[Row]:
        lines = without_tabs(lines)
        marks = changed_words(lines)
        code = colored(lines, language)
        drawn = (self.line(line, code[at], marks.get(at, [])) for at, line in enumerate(lines))
        return [row for rows in drawn for row in rows]

    def line(self, line: DiffLine, code: CodeLine, marks: Spans) -> list[Row]:
        """The rows of a line: one, or several where it is wrapped."""
        if line.sign == "\\":
            return [self._crop([Segment(" " * (self._size + 4) + line.text, self._dim)])]
        role = _CHANGED.get(line.sign, "text")
        background = f"{role}_background" if line.sign in _CHANGED else "background"
        dim = self._palette.style("dim", background)
        plain = role if self._is_flat(background) else "text"
        words = [
            Segment(text, ink(self._palette, plain if kind == "text" else kind, background))
            for text, kind in code
        ]
        number = line.number or ""
        lead = [
            Segment(f"{number:>{self._size}}  ", dim),
            Segment(f"{line.sign} ", self._palette.style(role, background, bold=line.sign in _CHANGED)),
        ]
        row = _marked(words, marks, self._mark(role, background))
        rows = rows_for(row, self._width, self._wide, dim, lead)
        return [pad(row, self._width, dim) for row in rows] if line.sign in _CHANGED else rows

    def _crop(self, row: Row) -> Row:
        return crop(row, self._width, self._dim)

    def _is_flat(self, background: str) -> bool:
        """Whether the skin does not set such lines off by their background."""
        colors = self._palette.skin.colors
        return colors[background] == colors["background"]

    def _mark(self, role: str, background: str) -> Style:
        """What is added to the style of changed words."""
        style = self._palette.style(role, background)
        ground, front = style.bgcolor, style.color
        if ground is None or front is None or ground.triplet is None or front.triplet is None:
            return Style(underline=True)
        pairs = zip(ground.triplet, front.triplet, strict=True)
        return Style(bgcolor=Color.from_rgb(*(low + (high - low) * MARK_STRENGTH for low, high in pairs)))


def without_tabs(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """The lines with their tabs as blanks, as they are drawn."""
    return [DiffLine(line.sign, expand_tabs(line.text, TAB), line.number) for line in lines]


def colored(lines: Sequence[DiffLine], language: str) -> list[CodeLine]:
    """The lines in the colours of the language; the old and the new side are lexed as two texts."""
    colored: list[CodeLine] = [[(line.text, "text")] for line in lines]
    for signs in (" -", " +"):
        side = [at for at, line in enumerate(lines) if line.sign in signs]
        code = highlight("\n".join(lines[at].text for at in side), language)
        for at, line in zip(side, code, strict=False):
            colored[at] = line
    return colored


def _marked(row: Row, marks: Spans, style: Style) -> Row:
    """`row` with `style` added between the given characters."""
    if not marks:
        return row
    edges = [edge for span in marks for edge in span]
    done: Row = []
    at = 0
    for run in row:
        base = run.style or Style.null()
        cuts = [0, *(edge - at for edge in edges if 0 < edge - at < len(run.text)), len(run.text)]
        for start, end in pairwise(cuts):
            inside = any(first <= at + start < last for first, last in marks)
            done.append(Segment(run.text[start:end], base + style if inside else base))
        at += len(run.text)
    return done
