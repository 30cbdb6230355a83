"""The lines of a diff, one below the other or side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from widgets.transcript.diff_reader import DiffFile, DiffHunk, DiffLine


@dataclass(frozen=True, slots=True)
class LinePair:
    """A row of a diff: what stands left and right, as indices into the lines of a hunk; None is a gap.

    In a unified diff `right` is the line, whatever side it is of. `hunk` counts the parts of the file.
    """

    hunk: int
    left: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class HunkStart:
    """The row before the lines of a hunk. `hunk` counts as in `LinePair`, `number` only hunks, from 1."""

    hunk: int
    number: int
    section: str


Part = LinePair | HunkStart | str
"""A row; text is what the diff says outside of its hunks."""


def unified(file: DiffFile) -> list[Part]:
    """The rows of a diff in one column."""
    return list(_rows(file, lambda hunk: ((None, at) for at in range(len(hunk.lines)))))


def side_by_side(file: DiffFile) -> list[Part]:
    """The rows of a diff in two columns: lines that stand for one another in the same row."""
    return list(_rows(file, lambda hunk: _paired(hunk.lines)))


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


def _paired(lines: Sequence[DiffLine]) -> Iterator[tuple[int | None, int | None]]:
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
    """For each part the numbers its lines have in the old file; 0 for added ones and where none are known."""
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
