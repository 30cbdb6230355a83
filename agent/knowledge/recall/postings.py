"""Places of the words of a question, read from the index and remembered until it is built anew."""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from agent.knowledge.recall import bits
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall.index_tables import PLACES, Mark
from agent.knowledge.recall.question import date_term, names_a_day

MOST = 50_000
"""The newest places of a word that are read. One that stands in more messages tells next to nothing."""

_FREQUENT = 200
"""Places from which on a word is remembered: reading fewer takes no time."""

_REMEMBERED = 24 << 20
"""Bytes of all that is remembered; what was not asked for the longest goes first."""


@dataclass(slots=True)
class WordPlaces:
    """The places of one word."""

    masks: array[int]
    """Of each line, by its number."""
    lines: int
    """The lines that hold it, as bits."""
    size: int
    """How many places there are."""

    @classmethod
    def of(cls, positions: Sequence[int], room: int = 0) -> WordPlaces:
        """Those at these positions, with room for lines up to this number."""
        masks = bits.masks_of(positions)
        if masks and room >= len(masks):
            masks.frombytes(bytes(8 * (room + 1 - len(masks))))
        if len(positions) * 8 > len(masks):
            lines = bits.of_any(masks)
        else:
            lines = bits.of_numbers({position >> PLACES for position in positions})
        return cls(masks, lines, len(positions))

    def within(self, chosen: Sequence[int]) -> list[int]:
        """The masks of some lines."""
        masks, end = self.masks, len(self.masks)
        if not end:
            return [0] * len(chosen)
        if len(chosen) > 1 and max(chosen) < end:
            return list(itemgetter(*chosen)(masks))
        return [masks[line] if line < end else 0 for line in chosen]

    def take_in(self, positions: Sequence[int]) -> None:
        """Add places; those that are there already change nothing."""
        for position in positions:
            line, bit = position >> PLACES, 1 << (position & (bits.WIDTH - 1))
            if line >= len(self.masks):
                self.masks.frombytes(bytes(8 * (line + 1 - len(self.masks))))
            if not self.masks[line] & bit:
                self.masks[line] |= bit
                self.size += 1
                self.lines |= 1 << line


_NOWHERE = WordPlaces.of(())


@dataclass(frozen=True, slots=True)
class Postings:
    """One word: the places of messages that hold it, and of those of a day called so."""

    word: str
    own: WordPlaces
    dated: WordPlaces
    rarity: float
    """How much it tells (the inverse document frequency of BM25)."""


@dataclass(slots=True)
class _Kept:
    places: WordPlaces
    additions: int
    """How many of the additions it has."""


class Remembered:
    """Places of frequent words, kept between questions. Used on one thread, for one connection."""

    def __init__(self) -> None:
        self._mark: Mark | None = None
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self._additions: list[tuple[int, int]] = []
        """The lowest and the highest position of each addition to the index."""

    def as_of(self, connection: sqlite3.Connection, mark: Mark) -> None:
        """Make sure that what is remembered is true of the index as it is."""
        before = self._mark
        if before is None or before.removals != mark.removals or before.node > mark.node:
            self._kept.clear()
            self._additions.clear()
            self._bytes = 0
        elif before.changes != mark.changes:
            self._additions.append(tables.added_since(connection, before))
        self._mark = mark

    def places(self, connection: sqlite3.Connection, word: str) -> WordPlaces:
        """Where a word stands."""
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
            kept.places.take_in(_positions(connection, word, between))
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
    """The postings of the words that stand anywhere, the rarest first."""
    known = Remembered() if remembered is None else remembered
    found: list[Postings] = []
    for word in dict.fromkeys(words):
        own = known.places(connection, word)
        dated = known.places(connection, date_term(word)) if names_a_day(word) else _NOWHERE
        if own.size or dated.size:
            found.append(Postings(word, own, dated, rarity(own.size or dated.size, rows)))
    return sorted(found, key=lambda each: -each.rarity)


def rarity(size: int, rows: int) -> float:
    """What a word tells that `size` of `rows` messages hold. Pure."""
    return math.log(1 + (max(rows - size, 0) + 0.5) / (size + 0.5))


def _positions(
    connection: sqlite3.Connection, word: str, between: tuple[int, int] | None = None
) -> list[int]:
    narrow = "" if between is None else " AND rowid BETWEEN ? AND ?"
    values = (f'"{word}"', *(between or ()))
    try:
        # As the index has them, which is quicker than the newest first, where that comes to the same.
        found = _listed(connection, f"SELECT rowid FROM words WHERE words MATCH ?{narrow}", values, MOST + 1)
        if len(found) <= MOST:
            return found
        newest = f"SELECT rowid FROM words WHERE words MATCH ?{narrow} ORDER BY rowid DESC"
        return _listed(connection, newest, values, MOST)
    except sqlite3.OperationalError:
        # What SQLite takes apart further than we do would be a phrase, which this index cannot look for.
        return []


def _listed(
    connection: sqlite3.Connection, statement: str, values: tuple[str | int, ...], most: int
) -> list[int]:
    # As one JSON text: several times as quick as a row each.
    (text,) = connection.execute(
        f"SELECT json_group_array(rowid) FROM ({statement} LIMIT ?)", (*values, most)
    ).fetchone()
    return json.loads(text)
