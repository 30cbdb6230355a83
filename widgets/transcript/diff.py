"""File diffs in the conversation: parsing, word comparison, drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.palette import Palette
from widgets.transcript.markdown import TAB, CodeLine, highlight, ink
from widgets.transcript.wrap import CUT_AT_EDGE, Row, WideRows, crop, expand_tabs, pad, rows_for, strips

_HUNK = lazy_pattern(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)$")
_FILE = lazy_pattern(r'diff --git "?a/(.*?)"? "?b/(.*?)"?$')
_TOLD = lazy_pattern(
    r"index [0-9a-f]+\.\.|(?:dis)?similarity index |(?:rename|copy) (?:from|to) "
    r"|(?:new|deleted) file mode 100644"
)
"""Lines that only repeat the title."""
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a hunk. `sign` is a blank, `+` or `-`, or a backslash for a remark of the diff.

    `number` counts in the old file for removed lines, else in the new file; 0 is unknown.
    """

    sign: str
    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Changed lines with their context. `section` is the diff's description of the place."""

    section: str
    lines: list[DiffLine] = field(default_factory=list)


@dataclass(slots=True)
class DiffFile:
    """The changes of one file. Texts in `parts` are remarks of the diff outside hunks."""

    old: str = ""
    new: str = ""
    parts: list[DiffHunk | str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file's present name, or its former one."""
        return self.old if self.new in ("", _NOWHERE) else self.new

    @property
    def title(self) -> str:
        """The file's name and its change as a whole."""
        if self.old == _NOWHERE:
            return f"{self.path} · new file"
        if self.new == _NOWHERE:
            return f"{self.path} · deleted"
        if self.old and self.old != self.new:
            return f"{self.old} → {self.new}"
        return self.path


def read_diff(diff: str) -> list[DiffFile]:
    """Parse a unified diff; return its files in order."""
    reader = _Reader()
    lines = diff.removesuffix("\n").split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, following)
    return reader.files


class _Reader:
    """A line-by-line parser of a diff. The hunk header decides what the following lines mean."""

    def __init__(self) -> None:
        self.files: list[DiffFile] = []
        self._hunk: DiffHunk | None = None
        self._old = self._new = 0  # numbers of the next lines
        self._old_left = self._new_left = 0.0  # lines still announced

    def read(self, line: str, following: str) -> None:
        if self._hunk and self._takes(line):
            return
        if line.startswith("\\") and self._hunk:
            self._hunk.lines.append(DiffLine("\\", line[1:].strip()))
        elif found := _HUNK.match(line):
            old, old_count, new, new_count, section = found.groups()
            self._old, self._new = int(old), int(new)
            self._old_left, self._new_left = float(old_count or 1), float(new_count or 1)
            self._open(section)
        elif line.startswith("@@"):
            self._start_unnumbered(line.strip("@ "))
        elif found := _FILE.match(line):
            self._next_file(DiffFile(found[1], found[2]))
        elif line.startswith("--- ") and following.startswith("+++ "):
            self._name(_path(line), _path(following))
        elif line.startswith("+++ ") and self.files and self._file().new == _path(line):
            pass
        elif line[:1] in ("+", "-"):
            self._start_unnumbered("")
            self._takes(line)
        elif line.strip() and not _TOLD.match(line):
            self._hunk = None
            self._file().parts.append(line)

    def _takes(self, line: str) -> bool:
        """Add the line to the open hunk if it belongs there; return whether it does."""
        sign, text = line[:1] or " ", line[1:]
        if self._hunk is None or (self._old_left <= 0 and self._new_left <= 0):
            return False
        if sign == "+" and self._new_left > 0:
            self._add(DiffLine("+", text, self._new), new=1)
        elif sign == "-" and self._old_left > 0:
            self._add(DiffLine("-", text, self._old), old=1)
        elif sign == " " and (line or self._old):
            self._add(DiffLine(" ", text, self._new), old=1, new=1)
        else:
            return False
        return True

    def _add(self, line: DiffLine, old: int = 0, new: int = 0) -> None:
        if self._hunk:
            self._hunk.lines.append(line)
        self._old_left -= old
        self._new_left -= new
        self._old += old if self._old else 0
        self._new += new if self._new else 0

    def _start_unnumbered(self, section: str) -> None:
        self._old = self._new = 0
        self._old_left = self._new_left = float("inf")
        self._open(section)

    def _open(self, section: str) -> None:
        file = self._file()
        self._hunk = DiffHunk(section)
        file.parts.append(self._hunk)

    def _file(self) -> DiffFile:
        if not self.files:
            self._next_file(DiffFile())
        return self.files[-1]

    def _next_file(self, file: DiffFile) -> None:
        self._hunk = None
        self.files.append(file)

    def _name(self, old: str, new: str) -> None:
        if not self.files or any(isinstance(part, DiffHunk) for part in self.files[-1].parts):
            self._next_file(DiffFile())
        self._hunk = None
        self.files[-1].old, self.files[-1].new = old, new


def _path(line: str) -> str:
    """Return the path in a line such as `--- a/src/money.py`, without a date after it."""
    path = line[4:].split("\t")[0].strip().strip('"')
    return path[2:] if path[:2] in ("a/", "b/") else path


Spans = list[tuple[int, int]]
"""Ranges of characters, in order, not touching each other."""

COMPARED_CHARS = 1_000
"""A line of more characters is not compared."""
ALIKE = 0.5
"""The share of two lines that must be equal for their differences to be marked."""
PAIR_COST = 2_500
"""Words of one line times words of the other that are compared in full; above it only the ends are."""
HUNK_COST = 100_000
"""The same limit for all lines of a hunk together."""

_WORD = lazy_pattern(r"\w+|\s+|[^\w\s]")


def changed_words(lines: Sequence[DiffLine]) -> dict[int, Spans]:
    """Return the spans of changed words by line index."""
    marks: dict[int, Spans] = {}
    budget = HUNK_COST
    for old, new in _pairs(lines):
        before, after = lines[old].text, lines[new].text
        if max(len(before), len(after)) > COMPARED_CHARS:
            continue
        spans, cost = _differences(_WORD.findall(before), _WORD.findall(after), min(budget, PAIR_COST))
        budget -= cost
        if spans:
            marks[old], marks[new] = spans
    return marks


def _pairs(lines: Sequence[DiffLine]) -> Iterator[tuple[int, int]]:
    """Yield pairs of corresponding removed and added lines, from adjacent runs of both."""
    removed: list[int] = []
    added: list[int] = []
    for number, line in enumerate([*lines, DiffLine(" ", "")]):
        if line.sign == "+":
            added.append(number)
        elif line.sign != "\\":
            if added or line.sign == " ":
                yield from zip(removed, added, strict=False)
                removed, added = [], []
            if line.sign == "-":
                removed.append(number)


def _differences(old: list[str], new: list[str], budget: int) -> tuple[tuple[Spans, Spans] | None, int]:
    """Return the differing parts of two lines, None if they have too little in common; and the cost."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    cost = (old_end - head) * (new_end - head)
    changed = [(head, old_end, head, new_end)]
    if cost <= budget:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        changed = [
            (a + head, b + head, c + head, d + head)
            for kind, a, b, c, d in matcher.get_opcodes()
            if kind != "equal"
        ]
    else:
        cost = 0
    spans = (_spans(old, [item[:2] for item in changed]), _spans(new, [item[2:] for item in changed]))
    total = sum(map(len, old)) + sum(map(len, new))
    differing = sum(end - start for side in spans for start, end in side)
    return (spans if total - differing >= total * ALIKE else None), cost


def _common(old: list[str], new: list[str]) -> int:
    """Return the number of words two lines begin with in common."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))


def _spans(words: list[str], ranges: list[tuple[int, int]]) -> Spans:
    """Convert ranges of words to ranges of characters; ranges separated only by blanks are merged."""
    text = "".join(words)
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans: Spans = []
    for start, end in ((starts[first], starts[last]) for first, last in ranges):
        if start == end:
            continue
        if spans and not text[spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


MAX_ROWS = 400
READ_CHARS = 1_000_000
"""Characters of a diff that are read; of the rest only the lines are counted."""
MARK_STRENGTH = 0.3
"""The share of the words' colour in the background of changed words."""

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
    """Return the diff in rows of at most `width` cells; a last row counts the lines beyond `max_rows`.

    Colours follow `language`, or each file's name if it is empty. File names are shown only if there are
    several files, or nothing else to show.
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
        rows.append([Segment(f"… {plural(left, 'more row')}", palette.style("dim"))])
    return strips(rows, width)


@dataclass(frozen=True, slots=True)
class _Note:
    """A row that is not a file's line: its name, or a remark of the diff."""

    text: str
    is_title: bool


_Part = DiffHunk | _Note


def _parts(file: DiffFile, *, alone: bool) -> Iterator[_Part]:
    if file.title and not (alone and any(isinstance(part, DiffHunk) for part in file.parts)):
        yield _Note(file.title, is_title=True)
    for part in file.parts:
        yield part if isinstance(part, DiffHunk) else _Note(part, is_title=False)


def number_size(files: Sequence[DiffFile]) -> int:
    """Return the number of digits of the largest line number."""
    hunks = (part for file in files for part in file.parts if isinstance(part, DiffHunk))
    return len(str(max((line.number for hunk in hunks for line in hunk.lines), default=0)))


class LineDrawer:
    """A renderer of diff parts at one width, with one palette; `number_size` is the width of line numbers."""

    def __init__(self, width: int, palette: Palette, number_size: int, wide: WideRows) -> None:
        self._width = width
        self._wide = wide
        self._palette = palette
        self._size = number_size
        self._dim = palette.style("dim")

    def gap(self, before: _Part | None, part: _Part) -> Row | None:
        """Return the row between two parts, or None if there is none; `before` is None between files."""
        if before is None:
            return []
        if isinstance(before, _Note) or isinstance(part, _Note):
            return None
        text = f"{'⋯':>{self._size}}    {part.section}".rstrip()
        return self._crop([Segment(expand_tabs(text, TAB), self._dim)])

    def draw(self, part: _Part, room: int, language: str) -> list[Row]:
        """Return at most `room` rows."""
        if isinstance(part, DiffHunk):
            return self._hunk(part.lines[:room], language)
        style = self._palette.style("text", bold=True) if part.is_title else self._dim
        return [self._crop([Segment(expand_tabs(part.text, TAB), style)])][:room]

    def _hunk(self, lines: list[DiffLine], language: str) -> list[Row]:
        lines = without_tabs(lines)
        marks = changed_words(lines)
        code = color_lines(lines, language)
        drawn = (self.line(line, code[at], marks.get(at, [])) for at, line in enumerate(lines))
        return [row for rows in drawn for row in rows]

    def line(self, line: DiffLine, code: CodeLine, marks: Spans) -> list[Row]:
        """Return the rows of a line: one, or several if it is wrapped."""
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
        row = _mark_spans(words, marks, self._mark(role, background))
        rows = rows_for(row, self._width, self._wide, dim, lead)
        return [pad(row, self._width, dim) for row in rows] if line.sign in _CHANGED else rows

    def _crop(self, row: Row) -> Row:
        return crop(row, self._width, self._dim)

    def _is_flat(self, background: str) -> bool:
        """Return whether the skin gives such lines no separate background."""
        colors = self._palette.skin.colors
        return colors[background] == colors["background"]

    def _mark(self, role: str, background: str) -> Style:
        """Return the style added to changed words."""
        style = self._palette.style(role, background)
        ground, front = style.bgcolor, style.color
        if ground is None or front is None or ground.triplet is None or front.triplet is None:
            return Style(underline=True)
        pairs = zip(ground.triplet, front.triplet, strict=True)
        return Style(bgcolor=Color.from_rgb(*(low + (high - low) * MARK_STRENGTH for low, high in pairs)))


def without_tabs(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """Return the lines with tabs expanded to blanks."""
    return [DiffLine(line.sign, expand_tabs(line.text, TAB), line.number) for line in lines]


def color_lines(lines: Sequence[DiffLine], language: str) -> list[CodeLine]:
    """Return the lines in the language's colours; old and new side are lexed as two texts."""
    colored: list[CodeLine] = [[(line.text, "text")] for line in lines]
    for signs in (" -", " +"):
        side = [at for at, line in enumerate(lines) if line.sign in signs]
        code = highlight("\n".join(lines[at].text for at in side), language)
        for at, line in zip(side, code, strict=False):
            colored[at] = line
    return colored


def _mark_spans(row: Row, marks: Spans, style: Style) -> Row:
    """Return `row` with `style` added between the given characters."""
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
