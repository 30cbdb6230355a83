"""Blocks of lines that resemble a given block, found without comparing everything with everything.

Rare words point to candidates; only those are compared letter by letter. All
positions are windows `(first, stop)` of line numbers from 0.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

Window = tuple[int, int]

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")

_ONE_CANDIDATE, _SEVERAL_CANDIDATES = 0.50, 0.70
_MAX_ANCHOR_CANDIDATES = 40
_MAX_COMPARED_CHARS = 1_500
_MAX_COMPARED_TOKENS = 5_000

_SIMILAR_LINE = 0.80
_SIMILAR_SHARE = 0.50
_FEWEST_LINES = 3
_MAX_QUERY_LINES = 400
_CANDIDATES = 12
_RARE = 100
"""Lines a word may stand in to count as a pointer."""
_MAX_LINE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Closest:
    """A window and how much it resembles what was sought, from 0 to 1."""

    window: Window
    likeness: float


def block_anchor_windows(lines: Sequence[str], query: Sequence[str]) -> list[Window]:
    """Windows whose first and last line equal the query's and whose middle resembles its middle.

    A single candidate needs a likeness of 0.5, one of several 0.7.
    """
    wanted = [line.strip() for line in query]
    if len(wanted) < _FEWEST_LINES or not wanted[0] or not wanted[-1]:
        return []
    candidates = _anchored(lines, wanted)
    if len(candidates) > _MAX_ANCHOR_CANDIDATES:
        return []
    needed = _ONE_CANDIDATE if len(candidates) == 1 else _SEVERAL_CANDIDATES
    middle = wanted[1:-1]
    return [
        (first, stop)
        for first, stop in candidates
        if _likeness([line.strip() for line in lines[first + 1 : stop - 1]], middle) >= needed
    ]


def similar_windows(lines: Sequence[str], query: Sequence[str]) -> list[Window]:
    """Windows as long as the query in which at least half of its lines are at least 80 % alike.

    Of windows that overlap only the best remains. Queries of fewer than three
    lines with content are too little evidence.
    """
    solid = sum(1 for line in query if line.strip())
    if solid < _FEWEST_LINES or len(query) > _MAX_QUERY_LINES or len(query) > len(lines):
        return []
    rated: list[tuple[float, Window]] = []
    for first in _likely_starts(lines, query):
        if 0 <= first <= len(lines) - len(query):
            share = _similar_share(lines[first : first + len(query)], query, solid)
            if share >= _SIMILAR_SHARE:
                rated.append((share, (first, first + len(query))))
    return _best_apart(rated)


def closest_windows(lines: Sequence[str], query: Sequence[str], count: int = 3) -> list[Closest]:
    """The windows that resemble `query` most, best first, for an error message."""
    query = query[:_MAX_QUERY_LINES]
    solid = sum(1 for line in query if line.strip())
    if not solid:
        return []
    rated: list[tuple[float, Window]] = []
    for first in _likely_starts(lines, query):
        start = max(first, 0)
        window = (start, min(start + len(query), len(lines)))
        likeness = _likeness(
            [line.strip() for line in lines[window[0] : window[1]]], [line.strip() for line in query]
        )
        rated.append((likeness, window))
    rated.sort(key=lambda item: (-item[0], item[1]))
    apart = _best_apart(rated)
    likeness = {window: value for value, window in rated}
    best = sorted((Closest(window, likeness[window]) for window in apart), key=lambda c: -c.likeness)
    return best[:count]


def is_similar(line: str, wanted: str) -> bool:
    """Whether two lines are at least 80 % alike, blanks around them aside."""
    line, wanted = line.strip(), wanted.strip()
    if line == wanted:
        return True
    if max(len(line), len(wanted)) > _MAX_LINE_CHARS:
        return False
    matcher = SequenceMatcher(None, line, wanted, autojunk=False)
    return (
        matcher.real_quick_ratio() >= _SIMILAR_LINE
        and matcher.quick_ratio() >= _SIMILAR_LINE
        and matcher.ratio() >= _SIMILAR_LINE
    )


def _anchored(lines: Sequence[str], wanted: Sequence[str]) -> list[Window]:
    """For each first line the last line that makes a block nearest to the wanted length."""
    firsts: list[int] = []
    lasts: list[int] = []
    for index, line in enumerate(lines):
        stripped = line.strip()
        if stripped == wanted[0]:
            firsts.append(index)
        if stripped == wanted[-1]:
            lasts.append(index)
    if len(firsts) > _MAX_ANCHOR_CANDIDATES:
        return [(first, first + 1) for first in firsts]
    reach = 2 * len(wanted) + 10
    windows: list[Window] = []
    for first in firsts:
        ideal = first + len(wanted) - 1
        within = [last for last in lasts if first + 1 < last <= first + reach]
        if within:
            last = min(within, key=lambda last: (abs(last - ideal), last))
            windows.append((first, last + 1))
    return windows


def _likeness(a: Sequence[str], b: Sequence[str]) -> float:
    """How alike two blocks are, from 0 to 1: by letters if they are short, else by words."""
    text_a, text_b = "\n".join(a), "\n".join(b)
    if text_a == text_b:
        return 1.0
    if max(len(text_a), len(text_b)) <= _MAX_COMPARED_CHARS:
        return SequenceMatcher(None, text_a, text_b, autojunk=False).ratio()
    tokens_a = _TOKEN.findall(text_a)[:_MAX_COMPARED_TOKENS]
    tokens_b = _TOKEN.findall(text_b)[:_MAX_COMPARED_TOKENS]
    return SequenceMatcher(None, tokens_a, tokens_b, autojunk=True).ratio()


def _likely_starts(lines: Sequence[str], query: Sequence[str]) -> list[int]:
    """Lines at which the query could begin, by votes of the rare words both have; best first."""
    words_of = [set(_WORD.findall(line[:_MAX_LINE_CHARS])) for line in query]
    vocabulary = set().union(*words_of)
    standing: dict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        for word in vocabulary.intersection(_WORD.findall(line[:_MAX_LINE_CHARS])):
            if len(standing[word]) <= _RARE:
                standing[word].append(index)
    votes: Counter[int] = Counter()
    for offset, words in enumerate(words_of):
        for word in words:
            places = standing.get(word, ())
            if len(places) <= _RARE:
                for index in places:
                    votes[index - offset] += 1
    best = sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:_CANDIDATES]
    return [start for start, _ in best]


def _similar_share(window: Sequence[str], query: Sequence[str], solid: int) -> float:
    similar = 0.0
    for line, wanted in zip(window, query, strict=True):
        if wanted.strip() and is_similar(line, wanted):
            similar += 1
    return similar / solid


def _best_apart(rated: list[tuple[float, Window]]) -> list[Window]:
    """The windows left when each takes the place of worse ones that overlap it, in order of place."""
    kept: list[Window] = []
    for _, (first, stop) in sorted(rated, key=lambda item: (-item[0], item[1])):
        if all(stop <= other_first or first >= other_stop for other_first, other_stop in kept):
            kept.append((first, stop))
    return sorted(kept)
