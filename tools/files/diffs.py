"""Line differences and unified diffs, in near-linear time for files of any size.

Lines that occur once on both sides anchor the comparison (patience diff). The parts between anchors go to
difflib; if that would take too long, parts of equal length are compared line by line and others count as
replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.text.words import plural

CONTEXT_LINES = 3
MAX_DIFF_CHARS = 20_000
"""Length at which a diff in a result is cut."""

_MAX_PAIRS = 1_000_000
"""Pairs of equal lines up to which difflib compares a part; its time grows with them."""


@dataclass(frozen=True, slots=True)
class ChangedBlock:
    """Lines `a_start` to `a_stop` became lines `b_start` to `b_stop`. One side may be empty."""

    a_start: int
    a_stop: int
    b_start: int
    b_stop: int


@dataclass(frozen=True, slots=True)
class TextDiff:
    """A unified diff of one file, with the number of lines it adds and removes."""

    text: str
    added: int
    removed: int


def changed_blocks(a: Sequence[str], b: Sequence[str]) -> list[ChangedBlock]:
    """Return the blocks where `a` and `b` differ, in order; all other lines are equal."""
    blocks: list[ChangedBlock] = []
    stack = [ChangedBlock(0, len(a), 0, len(b))]
    while stack:
        part = _trim(a, b, stack.pop())
        if part.a_start == part.a_stop and part.b_start == part.b_stop:
            continue
        anchors = _anchors(a, b, part)
        if anchors:
            stack.extend(reversed(list(_between(part, anchors))))
        elif _equal_pairs(a, b, part) <= _MAX_PAIRS:
            blocks.extend(_compare(a, b, part))
        elif part.a_stop - part.a_start == part.b_stop - part.b_start:
            blocks.extend(_line_by_line(a, b, part))
        else:
            blocks.append(part)
    return _joined(blocks)


def diff_texts(old: str, new: str, old_name: str, new_name: str) -> TextDiff:
    """Return the unified diff from `old` to `new`. Names are used as given, such as `a/x.py` or
    `/dev/null`.
    """
    a, b = marked_lines(old), marked_lines(new)
    blocks = changed_blocks(a, b)
    if not blocks:
        return TextDiff("", 0, 0)
    lines = [f"--- {old_name}", f"+++ {new_name}"]
    for group in hunks_of(blocks):
        lines.extend(hunk_lines(a, b, group))
    added = sum(block.b_stop - block.b_start for block in blocks)
    removed = sum(block.a_stop - block.a_start for block in blocks)
    return TextDiff("\n".join(lines) + "\n", added, removed)


def shorten_diff(text: str, limit: int = MAX_DIFF_CHARS) -> str:
    """Return `text` cut to whole lines within `limit` characters, with a last line that counts the rest."""
    if len(text) <= limit:
        return text
    cut = text.rfind("\n", 0, limit) + 1
    return f"{text[:cut]}… {plural(text.count(chr(10), cut), 'more line')} of diff\n"


def marked_lines(text: str) -> list[str]:
    """Return the lines of a text; a last line without newline is followed by the usual note of diffs."""
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


def _trim(a: Sequence[str], b: Sequence[str], part: ChangedBlock) -> ChangedBlock:
    a_start, a_stop, b_start, b_stop = part.a_start, part.a_stop, part.b_start, part.b_stop
    while a_start < a_stop and b_start < b_stop and a[a_start] == b[b_start]:
        a_start += 1
        b_start += 1
    while a_start < a_stop and b_start < b_stop and a[a_stop - 1] == b[b_stop - 1]:
        a_stop -= 1
        b_stop -= 1
    return ChangedBlock(a_start, a_stop, b_start, b_stop)


def _anchors(a: Sequence[str], b: Sequence[str], part: ChangedBlock) -> list[tuple[int, int]]:
    """Return pairs of indexes of lines that occur once on each side, in the longest common order."""
    in_a = Counter(a[part.a_start : part.a_stop])
    in_b = Counter(b[part.b_start : part.b_stop])
    place = {
        line: index
        for index, line in enumerate(b[part.b_start : part.b_stop], part.b_start)
        if in_b[line] == 1 and in_a[line] == 1
    }
    pairs = [
        (index, place[line])
        for index, line in enumerate(a[part.a_start : part.a_stop], part.a_start)
        if line in place
    ]
    return _longest_rising(pairs)


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence whose second members rise."""
    tops: list[int] = []
    top_index: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        pile = bisect_left(tops, value)
        before.append(top_index[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(value)
            top_index.append(index)
        else:
            tops[pile] = value
            top_index[pile] = index
    chain: list[tuple[int, int]] = []
    index = top_index[-1] if top_index else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _between(part: ChangedBlock, anchors: list[tuple[int, int]]) -> Iterator[ChangedBlock]:
    a_from, b_from = part.a_start, part.b_start
    for a_index, b_index in anchors:
        yield ChangedBlock(a_from, a_index, b_from, b_index)
        a_from, b_from = a_index + 1, b_index + 1
    yield ChangedBlock(a_from, part.a_stop, b_from, part.b_stop)


def _equal_pairs(a: Sequence[str], b: Sequence[str], part: ChangedBlock) -> int:
    in_a = Counter(a[part.a_start : part.a_stop])
    in_b = Counter(b[part.b_start : part.b_stop])
    return sum(count * in_b[line] for line, count in in_a.items())


def _line_by_line(a: Sequence[str], b: Sequence[str], part: ChangedBlock) -> Iterator[ChangedBlock]:
    shift = part.b_start - part.a_start
    for index in range(part.a_start, part.a_stop):
        if a[index] != b[index + shift]:
            yield ChangedBlock(index, index + 1, index + shift, index + shift + 1)


def _compare(a: Sequence[str], b: Sequence[str], part: ChangedBlock) -> Iterator[ChangedBlock]:
    matcher = SequenceMatcher(
        None, a[part.a_start : part.a_stop], b[part.b_start : part.b_stop], autojunk=False
    )
    for tag, a_start, a_stop, b_start, b_stop in matcher.get_opcodes():
        if tag != "equal":
            yield ChangedBlock(
                part.a_start + a_start, part.a_start + a_stop, part.b_start + b_start, part.b_start + b_stop
            )


def _joined(blocks: list[ChangedBlock]) -> list[ChangedBlock]:
    """Return the blocks with adjacent ones joined."""
    joined: list[ChangedBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and last.a_stop == block.a_start and last.b_stop == block.b_start:
            joined[-1] = ChangedBlock(last.a_start, block.a_stop, last.b_start, block.b_stop)
        else:
            joined.append(block)
    return joined


def hunks_of(blocks: list[ChangedBlock]) -> Iterator[list[ChangedBlock]]:
    """Yield groups of blocks that are near enough to share one hunk."""
    group: list[ChangedBlock] = []
    for block in blocks:
        if group and block.a_start - group[-1].a_stop > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(block)
    yield group


def hunk_lines(a: Sequence[str], b: Sequence[str], group: Sequence[ChangedBlock]) -> Iterator[str]:
    """Yield the lines of one hunk, its header first."""
    first, last = group[0], group[-1]
    lead = min(CONTEXT_LINES, first.a_start)
    tail = min(CONTEXT_LINES, len(a) - last.a_stop)
    a_range = _range(first.a_start - lead, last.a_stop + tail)
    b_range = _range(first.b_start - lead, last.b_stop + tail)
    yield f"@@ -{a_range} +{b_range} @@"
    here = first.a_start - lead
    for block in group:
        yield from (" " + line for line in a[here : block.a_start])
        yield from ("-" + line for line in a[block.a_start : block.a_stop])
        yield from ("+" + line for line in b[block.b_start : block.b_stop])
        here = block.a_stop
    yield from (" " + line for line in a[here : here + tail])


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
