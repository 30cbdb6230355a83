"""The differences between a file and its earlier state, to be restored one by one.

A line ends with a line feed only. Lines are compared byte for byte, so their ends are restored exactly, and
so is a missing end of the last line. Hunks are those of a unified diff from the earlier to the current state,
counted from 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tools.files.diffs import ChangedBlock, changed_blocks, hunk_lines, hunks_of, marked_lines
from tools.text.safe_text import reveal

MAX_BYTES = 4_000_000
"""The size in bytes above which a file is not divided."""


@dataclass(frozen=True, slots=True)
class Hunks:
    """The current and the earlier content of a file, and their differences."""

    then: str
    now: str
    """Both contents with one character for each byte, so that every byte is preserved."""
    groups: tuple[tuple[ChangedBlock, ...], ...]
    """For each hunk, the blocks of lines of `then` that became lines of `now`."""

    def __len__(self) -> int:
        return len(self.groups)

    def check(self, numbers: Collection[int]) -> None:
        """Raise `ValueError` for an unknown hunk number."""
        if missing := sorted(set(numbers) - set(range(1, len(self) + 1))):
            raise ValueError(f"there is no hunk {missing[0]}; the last one is {len(self)}")

    def content_with(self, numbers: Collection[int]) -> bytes:
        """Return the current content with these hunks restored; no numbers give `now`, all give `then`.

        Raises `ValueError` for an unknown hunk number.
        """
        self.check(numbers)
        then, now = _lines(self.then), _lines(self.now)
        kept: list[str] = []
        here = 0
        for number, group in enumerate(self.groups, 1):
            for block in group if number in numbers else ():
                kept += now[here : block.b_start]
                kept += then[block.a_start : block.a_stop]
                here = block.b_stop
        kept += now[here:]
        return "".join(kept).encode("latin-1")

    def diff(self, name: str) -> str:
        """Return the unified diff from `now` to `then`, which shows the effect of restoring everything.

        Invisible characters are made visible, except carriage returns that all lines of both texts end with.
        """
        now, then = (marked_lines(text) for text in _readable(self.now, self.then))
        lines = [f"--- a/{name}", f"+++ b/{name}"]
        for group in self.groups:
            head, *rest = hunk_lines(now, then, [_reverse_block(block) for block in group])
            lines += [head, *(line[0] + reveal(line[1:]) for line in rest)]
        return "\n".join(lines) + "\n"


def divide(now: bytes, then: bytes) -> Hunks:
    """Return the hunks between the current content `now` and the earlier `then`."""
    one, other = then.decode("latin-1"), now.decode("latin-1")
    blocks = changed_blocks(_lines(one), _lines(other))
    return Hunks(one, other, tuple(map(tuple, hunks_of(blocks))) if blocks else ())


def undivided_reason(now: bytes, then: bytes) -> str:
    """Return why two contents cannot be divided into hunks, as the end of “it is …”; empty if they can."""
    for text in (now, then):
        if len(text) > MAX_BYTES:
            return f"larger than {MAX_BYTES // 1_000_000} MB"
        if b"\0" in text:
            return "binary"
        try:
            text.decode()
        except UnicodeDecodeError:
            return "not written in UTF-8"
    return ""


def numbers(text: str) -> frozenset[int]:
    """Return the set of numbers in a text such as `1,3-5`. Raises `ValueError`."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() and len(end) < 8 for end in ends):
            raise ValueError(f"{text} does not name hunks")
        if not 1 <= int(ends[0]) <= int(ends[1]) < int(ends[0]) + _MOST:
            raise ValueError(f"{text} does not name hunks")
        found |= set(range(int(ends[0]), int(ends[1]) + 1))
    return frozenset(found)


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a line feed ends a line."""
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, last] if last else lines


def _readable(*texts: str) -> Iterator[str]:
    r"""Yield the texts decoded as UTF-8, without the carriage returns if every line ends with `\r\n`."""
    dos = all(text.count("\n") == text.count("\r\n") for text in texts)
    for text in texts:
        shown = text.encode("latin-1").decode("utf-8", "replace")
        yield shown.replace("\r\n", "\n") if dos else shown


def _reverse_block(block: ChangedBlock) -> ChangedBlock:
    return ChangedBlock(block.b_start, block.b_stop, block.a_start, block.a_stop)


_MOST = 100_000
"""The largest number of hunks in one range."""
