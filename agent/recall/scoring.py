"""Scores of places for a question: own words, those beside them, their stretch, and their date. Pure.

Each word adds its rarity, damped where it occurs several times in and around a message (the saturation of
BM25). Neighbours on the same path count a part, so that an answer is found by the words of its question;
so does the stretch of conversation around them. What covers more of the question counts for more.
The constants were chosen on all ten conversations of LoCoMo, so its figures flatter them a little.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.recall.postings import Postings, rarity

NEIGHBOURS = ((0, 1.0), (1, 0.3), (-1, 0.3), (2, 0.15), (-2, 0.15))
"""What a word counts for messages at this distance from the one that holds it."""

DATE = 0.3
"""What a word counts that names the day."""

_SATURATION = 0.5
_STRETCH, _STRETCH_SATURATION = 0.6, 2.0
STRETCH_BITS = 6
"""64 messages are a stretch."""
_COVER = 0.3
_WINDOW_BITS = 3
_RARE = 2_000
"""Places of rare words from which windows of eight places are chosen."""
_WINDOWS, _WINDOWS_NARROWED = 60, 5_000
"""Windows that are looked at closely; more where filters drop most of what is found in them."""
_MANY = 400
"""Windows that common words are looked up in."""

_KIND = {"tool": 0.85, "notice": 0.9}
_LONG = 1_000.0
"""Characters from which on a message has words by chance."""
_FRESH, _MONTH = 0.1, 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Scored:
    """A place, and which words led there."""

    position: int
    score: float
    own: int
    """Words of the question in the message itself."""
    nearby: int
    """Words that only its neighbours hold."""
    dated: int
    """Words that name its day."""


def scored(
    postings: Sequence[Postings], stretched: int, most: int, *, missing: float = 0.0, narrowed: bool = False
) -> list[Scored]:
    """The `most` best places, best first. Positions where no message stands may be among them.

    `stretched` is how many stretches there are in all, `missing` what further words of the question tell.
    `narrowed` says that filters will drop some of the places.
    """
    windows = _windows(postings, _WINDOWS_NARROWED if narrowed else _WINDOWS)
    total = missing + sum(each.rarity for each in postings)
    score: dict[int, float] = {}
    covered: dict[int, float] = {}
    stretches = dict.fromkeys((window << _WINDOW_BITS >> STRETCH_BITS for window in windows), 0.0)
    ranges = _ranges(windows)
    for each in postings:
        counts: dict[int, float] = {}
        for place in _within(each.own, ranges):
            for offset, weight in NEIGHBOURS:
                counts[place + offset] = counts.get(place + offset, 0.0) + weight
        for place in _within(each.dated, ranges):
            counts[place] = counts.get(place, 0.0) + DATE
        for place, count in counts.items():
            gain = each.rarity * count * (1 + _SATURATION) / (count + _SATURATION)
            score[place] = score.get(place, 0.0) + gain
            covered[place] = covered.get(place, 0.0) + each.rarity
        tells = rarity(len({place >> STRETCH_BITS for place in each.own}), stretched)
        for stretch in stretches:
            count = _count(each.own, stretch << STRETCH_BITS, (stretch + 1) << STRETCH_BITS)
            if count:
                gain = tells * count * (1 + _STRETCH_SATURATION) / (count + _STRETCH_SATURATION)
                stretches[stretch] += gain
    for place, value in score.items():
        around = _STRETCH * stretches.get(place >> STRETCH_BITS, 0.0)
        score[place] = (value + around) * (1 - _COVER + _COVER * covered[place] / total)
    best = heapq.nlargest(most, score, key=score.__getitem__)
    return [_explained(place, score[place], postings) for place in best]


def _explained(place: int, score: float, postings: Sequence[Postings]) -> Scored:
    own = nearby = dated = 0
    for each in postings:
        if _count(each.own, place, place + 1):
            own += 1
        elif _count(each.dated, place, place + 1):
            dated += 1
        elif _count(each.own, place - 2, place + 3):
            nearby += 1
    return Scored(place, score, own, nearby, dated)


def _windows(postings: Sequence[Postings], most: int) -> list[int]:
    """The windows that hold the rarest and most words: those of rare words, and what common ones add."""
    worth: dict[int, float] = {}
    read = 0
    for each in sorted(postings, key=lambda each: -each.rarity):
        if read < _RARE or len(worth) <= most:
            for places, part in ((each.own, 1.0), (each.dated, DATE)):
                for window in {place >> _WINDOW_BITS for place in places}:
                    worth[window] = worth.get(window, 0.0) + each.rarity * part
            read += len(each.own) + len(each.dated)
            continue
        if len(worth) > max(most, _MANY):
            worth = {window: worth[window] for window in _largest(worth, max(most, _MANY))}
        for window in worth:
            if _count(each.own, window << _WINDOW_BITS, (window + 1) << _WINDOW_BITS):
                worth[window] += each.rarity
    return _largest(worth, most)


def _largest(worth: Mapping[int, float], most: int) -> list[int]:
    """The windows worth most, of equal ones the newest."""
    if len(worth) <= most:
        return list(worth)
    return [
        window for _, window in heapq.nlargest(most, [(value, window) for window, value in worth.items()])
    ]


def _ranges(windows: Sequence[int]) -> list[tuple[int, int]]:
    """The places of windows and of those beside them, as ranges that do not overlap."""
    found: list[tuple[int, int]] = []
    for window in sorted(windows):
        low, high = (window - 1) << _WINDOW_BITS, (window + 2) << _WINDOW_BITS
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def _within(places: Sequence[int], ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    for low, high in ranges:
        yield from places[bisect_left(places, low) : bisect_left(places, high)]


def _count(places: Sequence[int], low: int, high: int) -> int:
    if not places:
        return 0
    first = bisect_left(places, low)
    return bisect_left(places, high, first) - first


def with_score(found: Scored, score: float) -> Scored:
    """The same place with another score."""
    return replace(found, score=score)


def weighed(score: float, kind: str, size: int, age: float) -> float:
    """The score of a place with its message's kind, characters and age in seconds."""
    length = 1 / (1 + 0.08 * math.log2(max(size / _LONG, 1.0)))
    fresh = 1 - _FRESH + _FRESH * 0.5 ** (max(age, 0.0) / _MONTH)
    return score * _KIND.get(kind, 1.0) * length * fresh


def sources(scored: Scored, words: int) -> tuple[str, ...]:
    """How a hit was found, for a person. Pure."""
    ways = []
    if scored.own:
        ways.append("words" if scored.own >= words else "some words")
    if scored.nearby:
        ways.append("nearby")
    if scored.dated:
        ways.append("date")
    return tuple(ways)


Known = Mapping[int, tuple[int, str, float, int]]
"""Node, kind, moment and characters by position."""
