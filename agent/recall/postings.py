"""Occurrences of the words of a question, read from the index within a bound."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent.recall.question import names_a_day

MOST = 5_000
"""Occurrences that are read for one question: what takes the time of a search."""

MOST_NARROWED = 40_000
"""The same where filters may drop most of them afterwards."""


@dataclass(frozen=True, slots=True)
class Postings:
    """One word: the positions of messages that hold it, and of those of a day called so, ascending."""

    word: str
    own: Sequence[int]
    dated: Sequence[int]
    rarity: float
    """How much it tells (the inverse document frequency of BM25)."""


class _Counted(NamedTuple):
    size: int
    expression: str
    word: str
    is_date: bool


def read(
    connection: sqlite3.Connection,
    words: Iterable[str],
    rows: int,
    *,
    lines: Collection[int] | None = None,
    most: int = MOST,
) -> list[Postings]:
    """The postings of words, rare ones first, at most `most` positions in all.

    A word that is too common for what is left is passed over: it tells least. If all are, the newest places
    of the rarest one are read. `lines` are the only ones that count. Pure but for the connection.
    """
    counted: list[_Counted] = []
    for word in dict.fromkeys(words):
        for column in ("own", "date") if names_a_day(word) else ("own",):
            expression = f'{column} : "{word}"'
            size = _count(connection, expression, most)
            if size:
                counted.append(_Counted(size, expression, word, column == "date"))
    found: dict[str, dict[bool, list[int]]] = {}
    sizes: dict[str, int] = {}
    left = most
    for each in sorted(counted):
        if lines is None and each.size > left and found:
            continue
        positions = _positions(connection, each.expression, lines, max(left, 1))
        left -= len(positions)
        found.setdefault(each.word, {})[each.is_date] = positions
        sizes[each.word] = sizes.get(each.word, 0) if each.is_date and each.word in sizes else each.size
    return [
        Postings(word, parts.get(False, ()), parts.get(True, ()), rarity(sizes[word], rows))
        for word, parts in found.items()
    ]


def rarity(size: int, rows: int) -> float:
    """What a word tells that `size` of `rows` messages hold. Pure."""
    return math.log(1 + (max(rows - size, 0) + 0.5) / (size + 0.5))


def _count(connection: sqlite3.Connection, expression: str, most: int) -> int:
    try:
        (size,) = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)", (expression, most + 1)
        ).fetchone()
    except sqlite3.OperationalError:
        # What SQLite takes apart further than we do would be a phrase, which this index cannot look for.
        return 0
    return size


def _positions(
    connection: sqlite3.Connection, expression: str, lines: Collection[int] | None, most: int
) -> list[int]:
    narrow, values = "", []
    if lines is not None:
        narrow = " AND (rowid >> 20) IN (SELECT value FROM json_each(?))"
        values = [json.dumps(sorted(lines))]
    # As one JSON text: several times as quick as a row each.
    (text,) = connection.execute(
        "SELECT json_group_array(rowid) FROM "
        f"(SELECT rowid FROM words WHERE words MATCH ?{narrow} ORDER BY rowid DESC LIMIT ?)",
        (expression, *values, most),
    ).fetchone()
    return json.loads(text)[::-1]
