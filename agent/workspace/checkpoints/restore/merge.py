"""Three-way merge of texts, line by line.

Changes on one side are accepted. Equal changes on both sides are accepted once. Different changes to the same
lines are both kept between markers, as git writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MAX_LINES = 40_000
"""The total number of lines above which texts are not merged, because comparing takes too long."""

_BINARY_SAMPLE = 8_000
Lines = Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    data: bytes
    overlaps: int
    """The number of places where both sides changed the same lines; each has markers in `data`."""


def merge(
    base: bytes, mine: bytes, theirs: bytes, names: tuple[str, str] = ("yours", "checkpoint")
) -> Merged | None:
    """Merge the changes of `mine` and `theirs` against `base`; None for binary or very long texts.

    `names` label the two sides of a conflict. Line ends are part of a line.
    """
    texts = (base, mine, theirs)
    if any(b"\0" in text[:_BINARY_SAMPLE] for text in texts):
        return None
    lines = tuple(text.splitlines(keepends=True) if b"\r" not in text else _lines(text) for text in texts)
    if sum(map(len, lines)) > MAX_LINES:
        return None
    pieces: list[bytes] = []
    overlaps = 0
    for old, left, right in _regions(*lines):
        if left == right or right == old:
            pieces += left
        elif left == old:
            pieces += right
        else:
            overlaps += 1
            pieces += _marked(left, right, names)
    return Merged(b"".join(pieces), overlaps)


def _lines(text: bytes) -> list[bytes]:
    """Return the lines of a text, which end with a line feed; a lone carriage return does not end one."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _regions(base: Lines, mine: Lines, theirs: Lines) -> Iterator[tuple[Lines, Lines, Lines]]:
    """Yield matching parts of the three texts: alternately those that may differ, and those all share."""
    start = left = right = 0
    for begin, left_at, right_at, size in _shared_runs(base, mine, theirs):
        yield base[start:begin], mine[left:left_at], theirs[right:right_at]
        same = base[begin : begin + size]
        yield same, same, same
        start, left, right = begin + size, left_at + size, right_at + size
    yield base[start:], mine[left:], theirs[right:]


def _shared_runs(base: Lines, mine: Lines, theirs: Lines) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of lines that all three texts share: the start in each, and the number of lines."""
    ours = SequenceMatcher(None, base, mine, autojunk=False).get_matching_blocks()
    others = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    one = other = 0
    while one < len(ours) and other < len(others):
        a, b = ours[one], others[other]
        begin, end = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if begin < end:
            yield begin, a.b + begin - a.a, b.b + begin - b.a, end - begin
        if a.a + a.size < b.a + b.size:
            one += 1
        else:
            other += 1


def _marked(mine: Lines, theirs: Lines, names: tuple[str, str]) -> Iterator[bytes]:
    ending = b"\r\n" if any(line.endswith(b"\r\n") for line in (*mine, *theirs)) else b"\n"
    yield b"<<<<<<< " + names[0].encode() + ending
    yield from _with_line_end(mine, ending)
    yield b"=======" + ending
    yield from _with_line_end(theirs, ending)
    yield b">>>>>>> " + names[1].encode() + ending


def _with_line_end(lines: Lines, ending: bytes) -> Lines:
    """Return the lines with `ending` after a last one that has no line end, so that a marker can follow."""
    if lines and not lines[-1].endswith(b"\n"):
        return [*lines[:-1], lines[-1] + ending]
    return lines
