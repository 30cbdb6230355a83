"""Scores of places for a question: own words, those beside them, their stretch, and their date. Pure.

Each word adds its rarity, damped where it occurs several times in and around a message (the saturation of
BM25). Neighbours on the same path count a part, so that an answer is found by the words of its question;
so does the line of the index around them. What covers more of the question counts for more.

That is reckoned for few places only. First the lines are chosen that hold most of the question, then the
places in them, both with rough whole numbers for all at once (`agent.knowledge.recall.bits`); what is left
is rated.

The constants were chosen on every second conversation of LoCoMo; `benchmarks/recall_locomo.py` shows the
others by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from agent.knowledge.recall import bits
from agent.knowledge.recall.bits import WIDTH
from agent.knowledge.recall.index_tables import PLACES
from agent.knowledge.recall.postings import Postings, rarity

NEIGHBOURS = ((0, 1.0), (1, 0.25), (-1, 0.2), (2, 0.15), (-2, 0.1))
"""What a word counts for messages at this distance after the one that holds it."""

_REACH = 2
"""The largest distance among them."""

DATE = 1.0
"""What a word counts that names the day."""

_EVENNESS = 0.7
"""The power of a rarity with which it counts, so that one rare word does not outweigh all others."""
_SATURATION = 0.8
_STRETCH, _STRETCH_SATURATION = 0.4, 4.0
_COVER = 0.15

_LINES, _LINES_NARROWED = 300, 20_000
"""Lines that are looked at closely; more where filters drop most of what is found in them."""
_STEPS = 24
"""The whole number that stands for what the rarest word tells where places are chosen."""

_KIND = {"tool": 0.85, "notice": 0.9}
_SHORT, _USUAL, _FULL, _LONG = 20, 100, 400, 1_000.0
"""Characters of a message that says little, of one of usual length, of one that says all one may expect,
and from which on it has words by chance."""
_WORTH = 0.05
_FRESH, _MONTH = 0.1, 30 * 86_400.0

_FURTHER, _COUNTED = 0.3, 4
"""What each further hit of a session counts of the one before it, and how many do."""


class Scored(NamedTuple):
    """A place, and which words led there."""

    position: int
    score: float
    own: int
    """Words of the question in the message itself."""
    nearby: int
    """Words that only its neighbours hold."""
    dated: int
    """Words that name its day."""


class _Rated(NamedTuple):
    """One word in the lines that were chosen."""

    own: list[int]
    """Its mask in each."""
    dated: list[int]
    rarity: float
    gain: float
    """What it adds to a place where it counts without end."""
    tells: float
    """What it tells about a line."""


def scored(
    postings: Sequence[Postings],
    lines: int,
    most: int,
    *,
    within: int | None = None,
    missing: float = 0.0,
    narrowed: bool = False,
    alone: bool = False,
) -> list[Scored]:
    """The `most` best places, best first. Positions where no message stands may be among them.

    `lines` says how many lines there are in all, `within` (as bits) which of them count, and `missing` what
    further words of the question tell. `narrowed` says that filters will drop some of the places; `alone`,
    that no place is beside another.
    """
    told = [
        (
            each,
            each.rarity**_EVENNESS * (1 + _SATURATION),
            rarity(max(each.own.lines.bit_count(), each.dated.lines.bit_count() and 1), lines),
        )
        for each in postings
    ]
    chosen = _lines(told, _LINES_NARROWED if narrowed else _LINES, within)
    if not chosen:
        return []
    rated = [
        _Rated(each.own.within(chosen), each.dated.within(chosen), each.rarity, gain, tells)
        for each, gain, tells in told
    ]
    places = list(bits.numbers(_places(rated, len(chosen), most, alone)))
    total = max(missing + sum(each.rarity for each in rated), 1e-9)
    around = {line: _around(rated, line) for line in {place >> PLACES for place in places}}
    found = [_score(rated, chosen, place, around[place >> PLACES], total) for place in places]
    return sorted(found, key=lambda each: -each.score)


def _lines(told: Sequence[tuple[Postings, float, float]], most: int, within: int | None) -> list[int]:
    """The lines that hold most of a question; of equal ones the newest."""
    sums = bits.Sums()
    held = 0
    weights = _whole([gain + _STRETCH * tells for _, gain, tells in told])
    for (each, _, _), weight in zip(told, weights, strict=True):
        anywhere = each.own.lines | each.dated.lines
        sums.add(anywhere, weight)
        held |= anywhere
    return list(bits.numbers(sums.largest(most, held if within is None else held & within)))


def _places(rated: Sequence[_Rated], lines: int, most: int, alone: bool) -> int:
    """The places in the chosen lines that are worth a closer look."""
    sums = bits.Sums()
    reached = 0
    gains = _whole([each.gain for each in rated])
    lasting = _whole([_STRETCH * each.tells for each in rated], max(each.gain for each in rated))
    for each, gain, line in zip(rated, gains, lasting, strict=True):
        own, dated = bits.joined(each.own), bits.joined(each.dated)
        here = own | dated
        if alone:
            sums.add(here, gain)
        else:
            beside = here | bits.moved(own, 1, lines) | bits.moved(own, -1, lines)
            near = beside | bits.moved(own, _REACH, lines) | bits.moved(own, -_REACH, lines)
            # About what saturation makes of a word here, beside, and one further.
            sums.add(here, gain - gain // 2)
            sums.add(beside, gain // 4)
            sums.add(near, gain // 4)
            sums.add(bits.joined([(1 << WIDTH) - 1 if mask else 0 for mask in each.own]), line)
            here = near
        reached |= here
    return sums.largest(most, reached)


def _whole(values: Sequence[float], largest: float = 0.0) -> list[int]:
    """Whole numbers in the proportion of the values."""
    unit = max(largest or max(values, default=0.0), 1e-9) / _STEPS
    return [max(round(value / unit), 1) for value in values]


def _around(rated: Sequence[_Rated], at: int) -> float:
    """What a line adds to each of its places."""
    found = 0.0
    for each in rated:
        if count := each.own[at].bit_count():
            found += each.tells * count * (1 + _STRETCH_SATURATION) / (count + _STRETCH_SATURATION)
    return _STRETCH * found


def _score(rated: Sequence[_Rated], chosen: Sequence[int], place: int, around: float, total: float) -> Scored:
    line, at = place >> PLACES, place & (WIDTH - 1)
    plain, of_day = _shares()
    score = covered = 0.0
    own = nearby = dated = 0
    for owns, dates, rare, gain, _ in rated:
        near = (owns[line] << _REACH >> at) & _PATTERN
        if dates[line] >> at & 1:
            score += gain * of_day[near]
            if not near & _HERE:
                dated += 1
        elif near:
            score += gain * plain[near]
            if not near & _HERE:
                nearby += 1
        else:
            continue
        covered += rare
        if near & _HERE:
            own += 1
    score = (score + around) * (1 - _COVER + _COVER * covered / total)
    return Scored((chosen[line] << PLACES) + at, score, own, nearby, dated)


_PATTERN = (1 << (2 * _REACH + 1)) - 1
_HERE = 1 << _REACH


@cache
def _shares() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The share of its gain that a word adds, by whether it is a date and the places around that hold it."""
    counts = [
        sum(weight for offset, weight in NEIGHBOURS if pattern >> (_REACH - offset) & 1)
        for pattern in range(_PATTERN + 1)
    ]
    return (
        tuple(count / (count + _SATURATION) for count in counts),
        tuple((count + DATE) / (count + DATE + _SATURATION) for count in counts),
    )


def possible(words: Sequence[str], rarities: Mapping[str, float], rows: int) -> float:
    """The score of a message of usual length that holds each of the words, and nobody around it one. Pure."""
    rarest = rarity(0, rows)
    return sum(rarities.get(word, rarest) ** _EVENNESS for word in words)


def weighed(score: float, kind: str, size: int, age: float) -> float:
    """The score of a place with its message's kind, characters and age in seconds."""
    fresh = 1 - _FRESH + _FRESH * 0.5 ** (max(age, 0.0) / _MONTH)
    return score * _KIND.get(kind, 1.0) * _length(size) * fresh


@lru_cache(4_096)
def _length(size: int) -> float:
    """What a message of so many characters counts."""
    weight = 1 + _WORTH * math.log(min(max(size, _SHORT), _FULL) / _USUAL)
    return weight / (1 + 0.08 * math.log2(max(size / _LONG, 1.0)))


def of_session(scores: Sequence[float]) -> float:
    """The score of a session by those of its hits, best first. Pure."""
    return sum(score * _FURTHER**at for at, score in enumerate(scores[:_COUNTED]))


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
