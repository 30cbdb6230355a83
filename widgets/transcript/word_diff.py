"""Finds the words that differ in changed lines of a diff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from widgets.transcript.diff_reader import DiffLine

Spans = list[tuple[int, int]]
"""Ranges of characters, in order, apart from one another."""

COMPARED_CHARS = 1_000
"""A line of more characters is not compared."""
ALIKE = 0.5
"""Share of two lines that must be the same for their differences to be worth a mark."""
PAIR_COST = 2_500
"""Words of one line times words of the other that are compared in full; above it only the ends are."""
HUNK_COST = 100_000
"""The same for all lines of a hunk together."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def changed_words(lines: Sequence[DiffLine]) -> dict[int, Spans]:
    """Where the words of changed lines differ, by the index of the line."""
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
    """Removed and added lines that stand for one another: runs of both, side by side."""
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
    """The parts of two lines that differ, None where they have too little in common; and what it cost."""
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
    """How many words two lines begin with in common."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))


def _spans(words: list[str], ranges: list[tuple[int, int]]) -> Spans:
    """Ranges of words as ranges of characters; those with only blanks between them become one."""
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
