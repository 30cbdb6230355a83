"""Scores of places for a question: words there, words nearby, the line around, and the date. Pure.

Each word adds its rarity, damped if it occurs several times in and around a message (the saturation of BM25).
Neighbours on the same path count in part, so that an answer is found by the words of its question. The rest
of their line in the index counts a little. A place that covers more of the question counts more.

Exact scores are computed for few places. First the lines with most of the question are chosen, then places in
these lines, both with rough integers for all at once.

The constants were chosen on every second conversation of LoCoMo; `benchmarks/recall_locomo.py` shows the
results on the others separately.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import itemgetter
from typing import NamedTuple

from agent.core.store.nodes import fold, storable
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall.index_tables import LONGEST_LINE, PLACES, Mark, PathLine, Row
from tools.kit.lazy_pattern import lazy_pattern

WIDTH = 1 << PLACES
"""The number of places in a line."""

_ALL_BITS = (1 << WIDTH) - 1

_DENSE = 32
"""The number of places per set place below which a set counts as dense."""


def joined(masks: Iterable[int]) -> int:
    """Return the masks of several lines as one number, with the first line in the lowest bits."""
    return int.from_bytes(array("Q", masks).tobytes(), "little")


def move_places(places: int, by: int, lines: int) -> int:
    """Return the set bits, each shifted by `by` within its line; those that leave their line are dropped."""
    if by > 0:
        return (places & _move_mask(lines, by)) << by
    return (places & _move_mask(lines, by)) >> -by


@cache
def _move_mask(lines: int, by: int) -> int:
    """Return the mask of the bits that remain in their line, one of `lines`, when shifted by `by`."""
    mask = _ALL_BITS >> by if by > 0 else _ALL_BITS & ~((1 << -by) - 1)
    return joined([mask] * lines)


class BitCounters:
    """One sum of small integers for each bit position, all computed at once."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, bits: int, value: int) -> None:
        """Add `value` to the sum of each bit that is set in `bits`."""
        at = 0
        while value:
            if value & 1:
                self._carry(bits, at)
            value >>= 1
            at += 1

    def _carry(self, bits: int, at: int) -> None:
        planes = self._planes
        while len(planes) <= at:
            planes.append(0)
        while bits:
            if at == len(planes):
                planes.append(bits)
                return
            bits, planes[at] = planes[at] & bits, planes[at] ^ bits
            at += 1

    def largest(self, most: int, among: int) -> int:
        """Return the `most` bits of `among` with the largest sums; of equal ones the highest bits."""
        sure = 0
        for plane in reversed(self._planes):
            higher = among & plane
            if (sure | higher).bit_count() <= most:
                sure |= higher
                among &= ~plane
            else:
                among = higher
        return sure | highest(among, most - sure.bit_count())


def highest(bits: int, most: int) -> int:
    """Return `bits` with only the `most` highest of the set bits."""
    spare = bits.bit_count() - most
    if spare <= 0:
        return bits
    low, high = 0, bits.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (bits >> middle).bit_count() > most:
            low = middle + 1
        else:
            high = middle
    return bits >> low << low


def numbers(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, ascending."""
    size = (bits.bit_length() + 63) // 64
    for at, word in enumerate(array("Q", bits.to_bytes(size * 8, "little"))):
        while word:
            low = word & -word
            yield (at << 6) + low.bit_length() - 1
            word ^= low


def of_numbers(values: Iterable[int]) -> int:
    """Return the number in which these bits are set."""
    listed = values if isinstance(values, (list, set, frozenset, tuple)) else list(values)
    if not listed:
        return 0
    size = max(listed) + 1
    if len(listed) * _DENSE < size:
        packed = bytearray((size + 7) // 8)
        for value in listed:
            packed[value >> 3] |= 1 << (value & 7)
        return int.from_bytes(packed, "little")
    # One digit a place, read as a number of the base two: a third of the work where many are set.
    digits = bytearray(b"0" * size)
    for value in listed:
        digits[-1 - value] = 49
    return int(digits, 2)


def masks_of(positions: Iterable[int]) -> array[int]:
    """Return the mask of each line, in the order of line numbers, up to the last non-empty one."""
    bits = of_numbers(positions)
    size = (bits.bit_length() + WIDTH - 1) // WIDTH
    return array("Q", bits.to_bytes(size * (WIDTH // 8), "little"))


def of_any(masks: Sequence[int]) -> int:
    """Return a number in which bit n is set if the mask of line n is not empty."""
    return int("".join(["1" if mask else "0" for mask in reversed(masks)]) or "0", 2)


MAX_CHARS = 2_000
MAX_WORDS = 24

_WORD = lazy_pattern(r"[^\W_]+")
_FUNCTION_WORDS = frozenset(
    """
    a about am an and any are as at be been being but by can could d did do does doing for from had has have
    having he her him his how i if in into is it its ll m may me might must my no not of on or our s shall she
    should so such t than that the their them then there these they this those to ve was we were what when
    where which while who whom whose why will with would you your
    """.split()  # noqa: SIM905 - a list of words is read as one
)
"""English function words; those of other languages are rated by frequency."""


def words_of(text: str) -> tuple[str, ...]:
    """Return up to `MAX_WORDS` search words of a text, normalised, in lower case and without repeats. Pure.

    Function words such as "the" are left out, unless the text has no other words.
    """
    folded = fold(storable(text[:MAX_CHARS])).lower()
    words = list(dict.fromkeys(_WORD.findall(folded)))
    telling = [word for word in words if word not in _FUNCTION_WORDS]
    return tuple((telling or words)[:MAX_WORDS])


def common_words(texts: Iterable[str], least: int) -> list[str]:
    """Return the words in at least `least` of the texts, the most common first. No function words. Pure."""
    counts = Counter(word for text in texts for word in {*_WORD.findall(fold(text).lower())})
    return [word for word, count in counts.most_common() if count >= least and word not in _FUNCTION_WORDS]


_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE_NAMES = frozenset((*_MONTHS, *_DAYS))


def date_words(created: float) -> str:
    """Return the local date of a time in the words of a question, `2023 may 8 monday`; empty if invalid."""
    try:
        day = time.localtime(created)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{day.tm_year} {_MONTHS[day.tm_mon - 1]} {day.tm_mday} {_DAYS[day.tm_wday]}"


_ON = "ondate"


def indexed_text(text: str, created: float) -> str:
    """Return the text to index for a message. Words for its date are added in a form that no message
    contains.
    """
    return " ".join((text, *map(date_term, date_words(created).split())))


def date_term(word: str) -> str:
    """Return the index term for a word of a date. Pure."""
    return _ON + word


def names_a_day(word: str) -> bool:
    """Return whether `date_words` may contain this word. Pure."""
    return word in _DATE_NAMES or (word.isascii() and word.isdigit() and len(word) in (1, 2, 4))


MOST = 50_000
"""The maximum number of newest places read for a word. A word in more messages is worth almost nothing."""

_FREQUENT = 200
"""The number of places from which a word is cached, because fewer are read quickly."""

_REMEMBERED = 24 << 20
"""The size of the cache in bytes; the least recently used words are dropped first."""


@dataclass(slots=True)
class WordPlaces:
    """The positions of one word."""

    masks: array[int]
    """The mask of each line, by its number."""
    lines: int
    """The lines that contain it, as bits."""
    size: int
    """The number of places."""

    @classmethod
    def of(cls, positions: Sequence[int], room: int = 0) -> WordPlaces:
        """Return these positions, with masks for at least `room` lines."""
        masks = masks_of(positions)
        if masks and room >= len(masks):
            masks.frombytes(bytes(8 * (room + 1 - len(masks))))
        if len(positions) * 8 > len(masks):
            lines = of_any(masks)
        else:
            lines = of_numbers({position >> PLACES for position in positions})
        return cls(masks, lines, len(positions))

    def within(self, chosen: Sequence[int]) -> list[int]:
        """Return the masks of the chosen lines."""
        masks, end = self.masks, len(self.masks)
        if not end:
            return [0] * len(chosen)
        if len(chosen) > 1 and max(chosen) < end:
            return list(itemgetter(*chosen)(masks))
        return [masks[line] if line < end else 0 for line in chosen]

    def add(self, positions: Sequence[int]) -> None:
        """Add positions; those that are already included have no effect."""
        for position in positions:
            line, bit = position >> PLACES, 1 << (position & (WIDTH - 1))
            if line >= len(self.masks):
                self.masks.frombytes(bytes(8 * (line + 1 - len(self.masks))))
            if not self.masks[line] & bit:
                self.masks[line] |= bit
                self.size += 1
                self.lines |= 1 << line


_NOWHERE = WordPlaces.of(())


@dataclass(frozen=True, slots=True)
class Postings:
    """The positions of messages that contain a word, and of those written on a day with that name."""

    word: str
    own: WordPlaces
    dated: WordPlaces
    rarity: float
    """Its weight (the inverse document frequency of BM25)."""


@dataclass(slots=True)
class _Kept:
    places: WordPlaces
    additions: int
    """The number of additions it includes."""


class Remembered:
    """Cached positions of frequent words. Used on one thread, for one connection."""

    def __init__(self) -> None:
        self._mark: Mark | None = None
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self._additions: list[tuple[int, int]] = []
        """The lowest and the highest position of each addition to the index."""

    def as_of(self, connection: sqlite3.Connection, mark: Mark) -> None:
        """Update the cache to the index's current state."""
        before = self._mark
        if before is None or before.removals != mark.removals or before.node > mark.node:
            self._kept.clear()
            self._additions.clear()
            self._bytes = 0
        elif before.changes != mark.changes:
            self._additions.append(tables.added_since(connection, before))
        self._mark = mark

    def places(self, connection: sqlite3.Connection, word: str) -> WordPlaces:
        """Return the positions of a word."""
        kept = self._kept.pop(word, None)
        if kept is None:
            room = 0 if self._mark is None else self._mark.lines
            kept = _Kept(WordPlaces.of(_positions(connection, word), room), len(self._additions))
            if kept.places.size < _FREQUENT:
                return kept.places
            self._bytes += _size(kept.places)
        elif kept.additions < len(self._additions):
            self._bytes -= _size(kept.places)
            new = self._additions[kept.additions :]
            between = (min(low for low, _ in new), max(high for _, high in new))
            kept.places.add(_positions(connection, word, between))
            kept.additions = len(self._additions)
            self._bytes += _size(kept.places)
        self._kept[word] = kept
        while self._bytes > _REMEMBERED and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._bytes -= _size(self._kept.pop(oldest).places)
        return kept.places


def _size(places: WordPlaces) -> int:
    return 8 * len(places.masks)


def read(
    connection: sqlite3.Connection, words: Iterable[str], rows: int, remembered: Remembered | None = None
) -> list[Postings]:
    """Return the positions of each word that occurs, the rarest word first."""
    known = Remembered() if remembered is None else remembered
    found: list[Postings] = []
    for word in dict.fromkeys(words):
        own = known.places(connection, word)
        dated = known.places(connection, date_term(word)) if names_a_day(word) else _NOWHERE
        if own.size or dated.size:
            found.append(Postings(word, own, dated, rarity(own.size or dated.size, rows)))
    return sorted(found, key=lambda each: -each.rarity)


def rarity(size: int, rows: int) -> float:
    """Return the weight of a word that occurs in `size` of `rows` messages. Pure."""
    return math.log(1 + (max(rows - size, 0) + 0.5) / (size + 0.5))


def _positions(
    connection: sqlite3.Connection, word: str, between: tuple[int, int] | None = None
) -> list[int]:
    narrow = "" if between is None else " AND rowid BETWEEN ? AND ?"
    values = (f'"{word}"', *(between or ()))
    try:
        # As the index has them, which is quicker than the newest first, where that comes to the same.
        found = _row_ids(connection, f"SELECT rowid FROM words WHERE words MATCH ?{narrow}", values, MOST + 1)
        if len(found) <= MOST:
            return found
        newest = f"SELECT rowid FROM words WHERE words MATCH ?{narrow} ORDER BY rowid DESC"
        return _row_ids(connection, newest, values, MOST)
    except sqlite3.OperationalError:
        # What SQLite takes apart further than we do would be a phrase, which this index cannot look for.
        return []


def _row_ids(
    connection: sqlite3.Connection, statement: str, values: tuple[str | int, ...], most: int
) -> list[int]:
    # As one JSON text: several times as quick as a row each.
    (text,) = connection.execute(
        f"SELECT json_group_array(rowid) FROM ({statement} LIMIT ?)", (*values, most)
    ).fetchone()
    return json.loads(text)


NEIGHBOURS = ((0, 1.0), (1, 0.25), (-1, 0.2), (2, 0.15), (-2, 0.1))
"""The weight of a word for messages at this distance after the one that contains it."""

_REACH = 2
"""The largest distance in `NEIGHBOURS`."""

DATE = 1.0
"""The weight of a word that names the day."""

_EVENNESS = 0.7
"""The exponent applied to a rarity, so that one rare word does not outweigh all others."""
_SATURATION = 0.8
_STRETCH, _STRETCH_SATURATION = 0.4, 4.0
_COVER = 0.15

_LINES, _LINES_NARROWED = 300, 20_000
"""The numbers of lines examined closely: normally, and if filters drop most of their messages."""
_STEPS = 24
"""The integer for the rarest word's weight when places are chosen."""

_KIND = {"tool": 0.85, "notice": 0.9}
_SHORT, _USUAL, _FULL, _LONG = 20, 100, 400, 1_000.0
"""Message lengths in characters: short, usual, fully informative, and long enough to match words by
chance.
"""
_WORTH = 0.05
_FRESH, _MONTH = 0.1, 30 * 86_400.0

_FURTHER, _COUNTED = 0.3, 4
"""The weight of each further hit of a session relative to the previous one, and the number counted."""


class Scored(NamedTuple):
    """A position, its score, and how many words matched there."""

    position: int
    score: float
    own: int
    """The number of matching words in the message."""
    nearby: int
    """The number of matching words that are only in its neighbours."""
    dated: int
    """The number of words that name its day."""


class _Rated(NamedTuple):
    """The positions of one word in the chosen lines, with its weight."""

    own: list[int]
    """Its mask in each line."""
    dated: list[int]
    rarity: float
    gain: float
    """Its largest contribution to a place."""
    tells: float
    """Its weight for a line."""


def score_places(
    postings: Sequence[Postings],
    lines: int,
    most: int,
    *,
    within: int | None = None,
    missing: float = 0.0,
    narrowed: bool = False,
    alone: bool = False,
) -> list[Scored]:
    """Return the `most` best places, best first. Positions without a message may be among them.

    `lines` is the number of lines, `within` (as bits) those that are searched, and `missing` the weight of
    further words of the question. `narrowed` means that filters will drop some places; `alone`, that places
    have no neighbours.
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
    places = list(numbers(_places(rated, len(chosen), most, alone)))
    total = max(missing + sum(each.rarity for each in rated), 1e-9)
    around = {line: _around(rated, line) for line in {place >> PLACES for place in places}}
    found = [_score(rated, chosen, place, around[place >> PLACES], total) for place in places]
    return sorted(found, key=lambda each: -each.score)


def _lines(told: Sequence[tuple[Postings, float, float]], most: int, within: int | None) -> list[int]:
    """Return up to `most` lines that contain most of a question; of equal ones the newest."""
    sums = BitCounters()
    held = 0
    weights = _whole([gain + _STRETCH * tells for _, gain, tells in told])
    for (each, _, _), weight in zip(told, weights, strict=True):
        anywhere = each.own.lines | each.dated.lines
        sums.add(anywhere, weight)
        held |= anywhere
    return list(numbers(sums.largest(most, held if within is None else held & within)))


def _places(rated: Sequence[_Rated], lines: int, most: int, alone: bool) -> int:
    """Return, as bits, the places in the chosen lines that should be scored exactly."""
    sums = BitCounters()
    reached = 0
    gains = _whole([each.gain for each in rated])
    lasting = _whole([_STRETCH * each.tells for each in rated], max(each.gain for each in rated))
    for each, gain, line in zip(rated, gains, lasting, strict=True):
        own, dated = joined(each.own), joined(each.dated)
        here = own | dated
        if alone:
            sums.add(here, gain)
        else:
            beside = here | move_places(own, 1, lines) | move_places(own, -1, lines)
            near = beside | move_places(own, _REACH, lines) | move_places(own, -_REACH, lines)
            # Approximate saturated weights of a word here, next to it, and one further.
            sums.add(here, gain - gain // 2)
            sums.add(beside, gain // 4)
            sums.add(near, gain // 4)
            sums.add(joined([(1 << WIDTH) - 1 if mask else 0 for mask in each.own]), line)
            here = near
        reached |= here
    return sums.largest(most, reached)


def _whole(values: Sequence[float], largest: float = 0.0) -> list[int]:
    """Return integers that are proportional to the values."""
    unit = max(largest or max(values, default=0.0), 1e-9) / _STEPS
    return [max(round(value / unit), 1) for value in values]


def _around(rated: Sequence[_Rated], at: int) -> float:
    """Return the score that the rest of a line adds to each of its places."""
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
    """Return the factor for a word's weight by the pattern of neighbouring places with the word.

    The second tuple is for places whose date matches as well.
    """
    counts = [
        sum(weight for offset, weight in NEIGHBOURS if pattern >> (_REACH - offset) & 1)
        for pattern in range(_PATTERN + 1)
    ]
    return (
        tuple(count / (count + _SATURATION) for count in counts),
        tuple((count + DATE) / (count + DATE + _SATURATION) for count in counts),
    )


def possible(words: Sequence[str], rarities: Mapping[str, float], rows: int) -> float:
    """Return the score of a message of usual length that contains all words and has no neighbours. Pure."""
    rarest = rarity(0, rows)
    return sum(rarities.get(word, rarest) ** _EVENNESS for word in words)


def weighted_score(score: float, kind: str, size: int, age: float) -> float:
    """Return the score adjusted by the message's kind, its length in characters and its age in seconds."""
    fresh = 1 - _FRESH + _FRESH * 0.5 ** (max(age, 0.0) / _MONTH)
    return score * _KIND.get(kind, 1.0) * _length(size) * fresh


@lru_cache(4_096)
def _length(size: int) -> float:
    """Return the factor by which the score of a message with this many characters is multiplied."""
    weight = 1 + _WORTH * math.log(min(max(size, _SHORT), _FULL) / _USUAL)
    return weight / (1 + 0.08 * math.log2(max(size / _LONG, 1.0)))


def of_session(scores: Sequence[float]) -> float:
    """Return the score of a session, computed from the scores of its hits, best first. Pure."""
    return sum(score * _FURTHER**at for at, score in enumerate(scores[:_COUNTED]))


def sources(scored: Scored, words: int) -> tuple[str, ...]:
    """Return labels for the ways in which a hit was found, for the user. Pure."""
    ways = []
    if scored.own:
        ways.append("words" if scored.own >= words else "some words")
    if scored.nearby:
        ways.append("nearby")
    if scored.dated:
        ways.append("date")
    return tuple(ways)


Known = Mapping[int, tuple[int, str, float, int]]
"""Node id, kind, time and number of characters by position."""


class IndexedMessage(NamedTuple):
    """A node with the data that the index needs."""

    node: int
    session: str
    before: int | None
    """The id of the nearest earlier searchable message on its path; None if there is none."""
    kind: str
    created: float
    size: int
    text: str
    """The indexed text; empty: it is not searched."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to add, and the lines after adding them."""

    rows: tuple[Row, ...]
    lines: tuple[PathLine, ...]


def waited_for(messages: Sequence[IndexedMessage], ends: Mapping[int, PathLine]) -> list[int]:
    """Return earlier nodes after which a new line may begin; the last messages up to them must be read
    again.
    """
    open_at = {node for node, line in ends.items() if line.next + len(messages) < LONGEST_LINE}
    found: dict[int, None] = {}
    for message in messages:
        if not message.text:
            continue
        if message.before is not None:
            if message.before in open_at:
                open_at.discard(message.before)
            elif message.before < messages[0].node:
                found[message.before] = None
        open_at.add(message.node)
    return list(found)


def plan_positions(
    messages: Sequence[IndexedMessage],
    ends: Mapping[int, PathLine],
    last: int,
    earlier: Mapping[int, Sequence[IndexedMessage]],
) -> Plan:
    """Return a plan that assigns positions to messages in the order of their ids.

    `ends` are lines by their last node, `last` is the highest line number. `earlier` holds the last two
    messages up to each node of `waited_for`.
    """
    tips = {node: replace(line) for node, line in ends.items()}
    lines: dict[int, PathLine] = {}
    rows: list[Row] = []
    tails = {node: tuple(found) for node, found in earlier.items()}

    def place_message(line: PathLine, message: IndexedMessage) -> None:
        position = (line.line << PLACES) + line.next
        text = indexed_text(message.text, message.created)
        rows.append(Row(position, message.node, message.kind, message.created, message.size, text))
        line.next += 1
        line.tip = message.node
        line.first, line.last = min(line.first, message.created), max(line.last, message.created)

    for message in messages:
        if not message.text:
            continue
        tail = tails.get(message.before, ()) if message.before is not None else ()
        line = tips.pop(message.before, None) if message.before is not None else None
        if line is None or line.next >= LONGEST_LINE:
            last += 1
            line = PathLine(last, message.session, message.node, 0, message.created, message.created)
            for copied in tail:
                place_message(line, copied)
        place_message(line, message)
        tips[message.node] = line
        tails[message.node] = (*tail[-1:], message)
        lines[line.line] = line
    return Plan(tuple(rows), tuple(lines.values()))
