"""File diffs as rows: unified, by hunk, and side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from themes.states import glyph
from tools.text.safe_text import clean
from widgets.rows.row_list import ReadingRows, RowList
from widgets.rows.row_text import fit, spread
from widgets.transcript.diff import (
    DiffFile,
    DiffHunk,
    DiffLine,
    LineDrawer,
    Spans,
    changed_words,
    color_lines,
    number_size,
    read_diff,
    without_tabs,
)
from widgets.transcript.markdown import CodeLine
from widgets.transcript.wrap import WideRows


@dataclass(frozen=True, slots=True)
class LinePair:
    """A row of a diff: the left and right line as indices into a hunk; None is a gap.

    In a unified diff `right` is the line, of either side. `hunk` is the index of the file's part.
    """

    hunk: int
    left: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class HunkStart:
    """The row before a hunk's lines. `hunk` is as in `LinePair`; `number` counts only hunks, from 1."""

    hunk: int
    number: int
    section: str


Part = LinePair | HunkStart | str
"""A row; text is a line of the diff outside of its hunks."""


def unified_rows(file: DiffFile) -> list[Part]:
    """Return the rows of a diff in one column."""
    return list(_rows(file, lambda hunk: ((None, at) for at in range(len(hunk.lines)))))


def side_by_side(file: DiffFile) -> list[Part]:
    """Return the rows of a diff in two columns, with corresponding lines in one row."""
    return list(_rows(file, lambda hunk: _pair_lines(hunk.lines)))


def _rows(file: DiffFile, pairs) -> Iterator[Part]:
    begun = 0
    for number, part in enumerate(file.parts):
        if isinstance(part, str):
            yield part
            continue
        begun += 1
        yield HunkStart(number, begun, part.section)
        for left, right in pairs(part):
            yield LinePair(number, left, right)


def _pair_lines(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
    removed: list[int] = []
    added: list[int] = []
    for at, line in enumerate([*lines, DiffLine(" ", "")]):
        if line.sign == "-" and not added:
            removed.append(at)
        elif line.sign == "+":
            added.append(at)
        elif line.sign == "\\":
            # The remark belongs to the line before it.
            (added if added else removed).append(at)
        else:
            for row in range(max(len(removed), len(added))):
                yield (
                    removed[row] if row < len(removed) else None,
                    added[row] if row < len(added) else None,
                )
            removed, added = ([at], []) if line.sign == "-" else ([], [])
            if line.sign == " " and at < len(lines):
                yield at, at


def old_numbers(file: DiffFile) -> list[list[int]]:
    """Return for each part its lines' numbers in the old file; 0 for added or unknown lines."""
    ahead = 0
    found: list[list[int]] = []
    for part in file.parts:
        numbers: list[int] = []
        for line in part.lines if isinstance(part, DiffHunk) else ():
            if line.sign == "-":
                numbers.append(line.number)
            else:
                numbers.append(line.number - ahead if line.sign == " " and line.number else 0)
            ahead += {"+": 1, "-": -1}.get(line.sign, 0)
        found.append(numbers)
    return found


TWO_COLUMNS = 120
"""The width in cells from which both sides are shown next to each other."""
SHIFT = 8
"""Cells of one step sideways."""


class _Drawn(NamedTuple):
    """The lines of a hunk, ready to be drawn."""

    lines: list[DiffLine]
    code: list[CodeLine]
    marks: dict[int, Spans]


class DiffRows(ReadingRows):
    """A list with the lines of a diff; only visible hunks are coloured."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "shift(-1)", "Left", show=False, id="diff.left"),
        Binding("right,l", "shift(1)", "Right", show=False, id="diff.right"),
        Binding("w", "wrap", "Wrap", show=False, id="diff.wrap"),
    ]

    def __init__(self, empty: str = "Reading …", *, id: str | None = None) -> None:
        super().__init__(self.row, search_text=self._plain, empty=empty, id=id)
        self.file = DiffFile()
        """The shown file."""
        self.parts: list[Part] = []
        """The rows."""
        self._hunks: dict[int, _Drawn] = {}
        self._old: list[list[int]] = []
        self._wide = WideRows()
        self._digits = 1
        self._columns = 1

    def show(self, diff: str, nothing: str) -> None:
        """Show a unified diff of one file; `nothing` is shown if it has no lines."""
        files = read_diff(clean(diff)) if diff.strip() else []
        self.file = files[0] if files else DiffFile()
        self._hunks.clear()
        self._old = old_numbers(self.file)
        self._digits = number_size(files)
        self.empty = nothing
        self._arrange()
        self.move_to(0)

    def action_shift(self, step: int) -> None:
        if not self._wide.wrap:
            self._wide = WideRows(shift=max(self._wide.shift + step * SHIFT, 0))
            self.repaint()

    def action_wrap(self) -> None:
        self._wide = WideRows(wrap=not self._wide.wrap)
        self.repaint()

    def on_resize(self) -> None:
        columns = 2 if self.size.width >= TWO_COLUMNS else 1
        if columns != self._columns:
            self._columns = columns
            self._arrange()

    def _arrange(self) -> None:
        parts = (side_by_side if self._columns == 2 else unified_rows)(self.file)
        self.parts = [part for part in parts if not isinstance(part, HunkStart) or self.begins(part)]
        self.reset(len(self.parts))

    def begins(self, start: HunkStart) -> bool:
        """Return whether a hunk has a separate row before its lines."""
        return start.number > 1

    def start(self, start: HunkStart, width: int) -> Text:
        """Return the row before a hunk."""
        return fit(Text(f" ⋯ {start.section}".rstrip(), self.ink("dim")), width)

    def _plain(self, number: int) -> str:
        part = self.parts[number]
        if not isinstance(part, LinePair):
            return part if isinstance(part, str) else part.section
        hunk = self._hunk(part.hunk)
        sides = dict.fromkeys(at for at in (part.left, part.right) if at is not None)
        return "\n".join(hunk.lines[at].text for at in sides)

    def _hunk(self, number: int) -> _Drawn:
        if number not in self._hunks:
            part = self.file.parts[number]
            lines = without_tabs(part.lines) if isinstance(part, DiffHunk) else []
            self._hunks[number] = _Drawn(lines, color_lines(lines, self.file.path), changed_words(lines))
        return self._hunks[number]

    def row(self, number: int, width: int) -> list[Text]:
        """Return the lines of one row."""
        part = self.parts[number]
        if isinstance(part, HunkStart):
            return [self.start(part, width)]
        if isinstance(part, str):
            return [fit(Text(f" {part}", self.ink("dim")), width)]
        if self._columns == 1:
            return [_text(row) for row in self._side(part, part.right, width - 1, old=False)]
        half = (width - 2) // 2
        left = self._side(part, part.left, half, old=True)
        right = self._side(part, part.right, width - 2 - half, old=False)
        rows = max(len(left), len(right))
        left += [[]] * (rows - len(left))
        right += [[]] * (rows - len(right))
        return [self._beside(*each, half) for each in zip(left, right, strict=True)]

    def _beside(self, left: Sequence[Segment], right: Sequence[Segment], half: int) -> Text:
        text = _text(left)
        text.append(" " * (half + 1 - text.cell_len)).append("│", self.ink("rule"))
        return text.append_text(_text(right)[1:])

    def _side(self, part: LinePair, at: int | None, width: int, *, old: bool) -> list[list[Segment]]:
        if at is None:
            return [[]]
        hunk = self._hunk(part.hunk)
        line = hunk.lines[at]
        if old:
            line = DiffLine(line.sign, line.text, self._old[part.hunk][at])
        drawer = LineDrawer(width, self.palette, self._digits, self._wide)
        return [list(row) for row in drawer.line(line, hunk.code[at], hunk.marks.get(at, []))]


def _text(row: Sequence[Segment]) -> Text:
    """Return a row with the cursor's gutter in front."""
    return Text.assemble(" ", *((run.text, run.style or "") for run in row))


class HunkRows(DiffRows):
    """A diff with a row per hunk that shows whether it is chosen; other hunks are dim."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "turn", "Take or leave the hunk", id="hunks.toggle"),
        Binding("plus", "choose(True)", "Take all hunks", id="hunks.all"),
        Binding("minus", "choose(False)", "Leave all hunks", id="hunks.none"),
        Binding("right_square_bracket", "step(1)", "Next hunk", id="hunks.next"),
        Binding("left_square_bracket", "step(-1)", "Previous hunk", id="hunks.previous"),
    ]

    class Chosen(Message):
        """The choice of hunks changed."""

        def __init__(self, taken: frozenset[int]) -> None:
            super().__init__()
            self.taken = taken

    def __init__(self, taken: Collection[int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.taken = frozenset(taken)
        """The numbers of the selected hunks, from 1."""
        self._places: dict[int, int] = {}
        self._counted: DiffFile | None = None

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of all hunks."""
        return list(self._numbers().values())

    def begins(self, start: HunkStart) -> bool:
        return True

    def start(self, start: HunkStart, width: int) -> Text:
        taken = start.number in self.taken
        sign, word = (glyph("done"), "taken") if taken else (glyph("pending"), "left")
        left = Text(f" {sign} hunk {start.number:,} of {len(self._numbers()):,} · {word}")
        left.stylize(self.ink("accent" if taken else "dim", bold=taken))
        hunk = self.file.parts[start.hunk]
        lines = hunk.lines if isinstance(hunk, DiffHunk) else ()
        right = Text()
        for sign, shown, role in (("+", "+", "added"), ("-", "−", "removed")):
            if count := sum(line.sign == sign for line in lines):
                right.append(f" {shown}{count:,}", self.ink(role if taken else "dim"))
        return spread(left, right.append(" "), width)

    def row(self, number: int, width: int) -> list[Text]:
        rows = super().row(number, width)
        part = self.parts[number]
        if isinstance(part, LinePair) and self._number(number) not in self.taken:
            for row in rows:
                row.stylize(self.ink("dim"))
        return rows

    # Keys

    def action_turn(self) -> None:
        if self.cursor is not None and (number := self._number(self.cursor)):
            self._take(self.taken ^ {number})

    def action_choose(self, take: bool) -> None:
        if self._numbers():
            self._take(frozenset(self.numbers if take else ()))

    def action_step(self, direction: int) -> None:
        starts = [at for at, part in enumerate(self.parts) if isinstance(part, HunkStart)]
        here = -1 if self.cursor is None else self.cursor
        ahead = [at for at in starts if (at - here) * direction > 0]
        if ahead:
            self.move_to(min(ahead, key=lambda at: abs(at - here)))

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        """Handle a click or enter on a hunk's row like its key."""
        event.stop()
        if isinstance(self.parts[event.index], HunkStart):
            self.action_turn()

    def _take(self, taken: frozenset[int]) -> None:
        self.taken = taken
        self.repaint()
        self.post_message(self.Chosen(taken))

    def _number(self, row: int) -> int:
        """Return the hunk number of a row; 0 if it belongs to none."""
        part = self.parts[row]
        if isinstance(part, HunkStart):
            return part.number
        return self._numbers().get(part.hunk, 0) if isinstance(part, LinePair) else 0

    def _numbers(self) -> dict[int, int]:
        """Return hunk numbers by part index."""
        if self._counted is not self.file:
            places = (at for at, part in enumerate(self.file.parts) if isinstance(part, DiffHunk))
            self._places = {at: number for number, at in enumerate(places, 1)}
            self._counted = self.file
        return self._places
