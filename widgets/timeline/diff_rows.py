"""The rows of one file's diff, of any length: side by side where there is room, else in one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType

from tools.text.safe_text import clean
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit
from widgets.timeline.side_by_side import HunkStart, LinePair, Part, old_numbers, side_by_side, unified
from widgets.transcript.code import CodeLine
from widgets.transcript.diff import LineDrawer, colored, number_size, without_tabs
from widgets.transcript.diff_reader import DiffFile, DiffHunk, DiffLine, read_diff
from widgets.transcript.wide_rows import WideRows
from widgets.transcript.word_diff import Spans, changed_words

TWO_COLUMNS = 120
"""Cells from which on the sides stand beside one another."""
SHIFT = 8
"""Cells of one step sideways."""


class _Drawn(NamedTuple):
    """The lines of a hunk, ready to be drawn."""

    lines: list[DiffLine]
    code: list[CodeLine]
    marks: dict[int, Spans]


class DiffRows(RowList):
    """The lines of a diff; only hunks that come into sight are coloured."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "shift(-1)", "Left", show=False, id="diff.left"),
        Binding("right,l", "shift(1)", "Right", show=False, id="diff.right"),
        Binding("w", "wrap", "Wrap", show=False, id="diff.wrap"),
    ]

    def __init__(self, empty: str = "Reading …", *, id: str | None = None) -> None:
        super().__init__(self.row, search_text=self._plain, empty=empty, id=id)
        self.file = DiffFile()
        """What is shown."""
        self.parts: list[Part] = []
        """The rows."""
        self._hunks: dict[int, _Drawn] = {}
        self._old: list[list[int]] = []
        self._wide = WideRows()
        self._digits = 1
        self._columns = 1

    def show(self, diff: str, nothing: str) -> None:
        """Show a unified diff of one file; `nothing` stands there if it has no lines."""
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
        parts = (side_by_side if self._columns == 2 else unified)(self.file)
        self.parts = [part for part in parts if not isinstance(part, HunkStart) or self.begins(part)]
        self.reset(len(self.parts))

    def begins(self, start: HunkStart) -> bool:
        """Whether a hunk has a row of its own before its lines."""
        return start.number > 1

    def start(self, start: HunkStart, width: int) -> Text:
        """That row."""
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
            self._hunks[number] = _Drawn(lines, colored(lines, self.file.path), changed_words(lines))
        return self._hunks[number]

    def row(self, number: int, width: int) -> list[Text]:
        """The lines of one row."""
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
    """A row behind the gutter of the cursor."""
    return Text.assemble(" ", *((run.text, run.style or "") for run in row))
