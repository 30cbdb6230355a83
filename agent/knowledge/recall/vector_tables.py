"""The tables of `vectors.db`: what the messages of a store mean. Plain functions on a connection."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agent.knowledge.recall.embedding import Vectors

APPLICATION_ID = 0x48657276
"""`Herv`, at offset 68 of the file."""

VERSION = 1

MOST = 200_000
"""The newest messages that are looked through for what means the same: 0.4 s of CPU for each 100,000."""

_AT_ONCE = 4_096

_TABLES = (
    "CREATE TABLE state (mark INTEGER NOT NULL, marked REAL NOT NULL, space TEXT NOT NULL)",
    "INSERT INTO state VALUES (0, 0, '')",
    # 16-bit numbers, one after the other, little end first.
    "CREATE TABLE vectors (node INTEGER PRIMARY KEY, session TEXT NOT NULL, created REAL NOT NULL, "
    "vector BLOB NOT NULL)",
    "CREATE INDEX vectors_by_session ON vectors (session)",
)
_NAMES = ("vectors", "state")


class VectorMark(NamedTuple):
    """Up to which node there are vectors, when that was written, and whose vectors they are."""

    node: int
    created: float
    space: str


class VectorRow(NamedTuple):
    """The vector of one message."""

    node: int
    session: str
    created: float
    vector: bytes


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, or make them anew if they are of another version. In a transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version != VERSION or not found.issuperset(_NAMES):
        clear(connection)


def clear(connection: sqlite3.Connection) -> None:
    """Forget everything. In a transaction."""
    for name in _NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def begin(connection: sqlite3.Connection, space: str) -> VectorMark:
    """How far vectors of this space are made; those of another one are forgotten. In a transaction."""
    before = mark(connection)
    if before.space != space:
        clear(connection)
        connection.execute("UPDATE state SET space = ?", (space,))
    return mark(connection)


def mark(connection: sqlite3.Connection) -> VectorMark:
    """How far vectors are made."""
    return VectorMark(*connection.execute("SELECT mark, marked, space FROM state").fetchone())


def add(
    connection: sqlite3.Connection, before: VectorMark, after: tuple[int, float], rows: Iterable[VectorRow]
) -> bool:
    """Add rows and move the mark. False, and nothing is done, if another process was faster."""
    if mark(connection) != before:
        return False
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (node, session, created, vector) VALUES (?, ?, ?, ?)", rows
    )
    connection.execute("UPDATE state SET mark = ?, marked = ?", after)
    return True


def sessions(connection: sqlite3.Connection) -> set[str]:
    """The sessions that have vectors."""
    return {session for (session,) in connection.execute("SELECT DISTINCT session FROM vectors")}


def remove(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Forget the vectors of sessions."""
    connection.execute(
        "DELETE FROM vectors WHERE session IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
    )


def likeness(connection: sqlite3.Connection, question: Vectors, nodes: Iterable[int]) -> Mapping[int, float]:
    """The cosine of each of these nodes that has a vector. `question` is one row."""
    rows = connection.execute(
        "SELECT node, vector FROM vectors WHERE node IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    ).fetchall()
    return dict(_rated(rows, question))


def nearest(
    connection: sqlite3.Connection,
    question: Vectors,
    count: int,
    *,
    names: Collection[str] | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[tuple[int, float]]:
    """The `count` nodes that mean most nearly the same, with their cosines, the nearest first.

    `names` are the only sessions that count, `since` and `until` the moments between which was written.
    """
    conditions: list[str] = []
    values: list[str | float] = []
    if names is not None:
        conditions.append("session IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(names)))
    if since is not None:
        conditions.append("created >= ?")
        values.append(since)
    if until is not None:
        conditions.append("created <= ?")
        values.append(until)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    cursor = connection.execute(
        f"SELECT node, vector FROM vectors{where} ORDER BY node DESC LIMIT {MOST}", values
    )
    best: list[tuple[int, float]] = []
    while rows := cursor.fetchmany(_AT_ONCE):
        best = heapq.nlargest(count, [*best, *_rated(rows, question, count)], key=lambda each: each[1])
    return best


def _rated(
    rows: Sequence[tuple[int, bytes]], question: Vectors, most: int | None = None
) -> list[tuple[int, float]]:
    import numpy

    size = question.size * 2
    # A torn row, or one of a model that changed its length, compares with nothing.
    whole = [row for row in rows if len(row[1]) == size]
    if not whole:
        return []
    matrix = numpy.frombuffer(b"".join(vector for _, vector in whole), "<f2").reshape(len(whole), -1)
    cosines = matrix.astype(numpy.float32) @ question.reshape(-1)
    if most is not None and most < len(whole):
        return [(whole[at][0], float(cosines[at])) for at in numpy.argpartition(cosines, -most)[-most:]]
    return [(node, float(cosine)) for (node, _), cosine in zip(whole, cosines, strict=True)]
