"""The tables of `recall.db`: positions of messages, and their words. Plain functions on a connection.

Messages that follow each other on a path have consecutive positions, so the neighbours of a message can be
found without text. A position consists of a line number and a place in that line:

- a line is a section of one path with at most 64 places; a new line begins when one is full, and at a fork,
- a new line begins with copies of the last two messages before it, so that all have their neighbours.

The file holds only words, no running text. All of it can be rebuilt from the session store.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

APPLICATION_ID = 0x4865_7272
"""`Herr`, at offset 68 of the file."""

VERSION = 2

PLACES = 6
"""The number of low bits of a position that hold its place in the line."""

LONGEST_LINE = 1 << PLACES

WORDS = (
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0, detail=none, "
    "tokenize='porter unicode61 remove_diacritics 2')"
)

_TABLES = (
    # Up to which node all is indexed, how often the file was changed and how often something was removed,
    # how many rows it has, and the highest number of a line.
    "CREATE TABLE state (mark INTEGER NOT NULL, marked REAL NOT NULL, changes INTEGER NOT NULL, "
    "rows INTEGER NOT NULL, removals INTEGER NOT NULL, lines INTEGER NOT NULL)",
    "INSERT INTO state VALUES (0, 0, 0, 0, 0, 0)",
    "CREATE TABLE lines (line INTEGER PRIMARY KEY, session TEXT NOT NULL, "
    "tip INTEGER NOT NULL, next INTEGER NOT NULL, first REAL NOT NULL, last REAL NOT NULL)",
    "CREATE INDEX lines_by_tip ON lines (tip)",
    "CREATE INDEX lines_by_session ON lines (session)",
    "CREATE TABLE places (position INTEGER PRIMARY KEY, node INTEGER NOT NULL, kind TEXT NOT NULL, "
    "created REAL NOT NULL, size INTEGER NOT NULL)",
    "CREATE INDEX places_by_node ON places (node)",
    WORDS,
)
_NAMES = ("words", "places", "lines", "state")


class Mark(NamedTuple):
    """The progress of the index.

    A writer passes the mark from which it continues, and so notices if another process has written since.
    """

    node: int
    changes: int
    rows: int
    removals: int
    lines: int
    """The highest number any line ever had."""


class Row(NamedTuple):
    """One message at one position."""

    position: int
    node: int
    kind: str
    created: float
    size: int
    """The length of the message in characters."""
    text: str
    """The indexed text, including the words of its date."""


@dataclass(slots=True)
class PathLine:
    """A line of the index to which messages can still be added."""

    line: int
    session: str
    tip: int
    """The id of the last node."""
    next: int
    """The next free place."""
    first: float
    last: float
    """The time of its newest message."""


def line_of(position: int) -> int:
    """Return the number of the line that a position belongs to."""
    return position >> PLACES


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables, or recreate them if their version differs. Must run within a transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION or not _is_whole(connection):
        clear(connection)


def _is_whole(connection: sqlite3.Connection) -> bool:
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return found.issuperset(_NAMES)


def clear(connection: sqlite3.Connection) -> None:
    """Delete all rows, so that the index is built again. Must run within a transaction."""
    changes, removals = _changes(connection)
    for name in _NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _TABLES:
        connection.execute(statement)
    # What another process has planned on the old tables must not fit the new ones.
    connection.execute("UPDATE state SET changes = ?, removals = ?", (changes + 1, removals + 1))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _changes(connection: sqlite3.Connection) -> tuple[int, int]:
    try:
        changes, removals = connection.execute("SELECT changes, removals FROM state").fetchone()
        return int(changes), int(removals)
    except (sqlite3.Error, TypeError, ValueError):
        return 0, 0


def mark(connection: sqlite3.Connection) -> Mark:
    """Return the progress of the index."""
    return Mark(*connection.execute("SELECT mark, changes, rows, removals, lines FROM state").fetchone())


def marked(connection: sqlite3.Connection) -> tuple[int, float]:
    """Return the id of the last indexed node and the time it was written; zeros for an empty index."""
    return connection.execute("SELECT mark, marked FROM state").fetchone()


def added_since(connection: sqlite3.Connection, before: Mark) -> tuple[int, int]:
    """Return the lowest and the highest position that may have been added since `before`.

    If none was added, both are the first position of the next line.
    """
    low, high = connection.execute(
        "SELECT min(position), max(position) FROM places WHERE node > ?", (before.node,)
    ).fetchone()
    # New lines begin with copies of older messages.
    first = (before.lines + 1) << PLACES
    return (first if low is None else min(low, first)), (first if high is None else max(high, first))


def lines_ending(connection: sqlite3.Connection, nodes: Iterable[int]) -> dict[int, PathLine]:
    """Return the lines whose last message is one of these nodes, by node."""
    rows = connection.execute(
        "SELECT line, session, tip, next, first, last FROM lines "
        "WHERE tip IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return {row[2]: PathLine(*row) for row in rows}


def add(
    connection: sqlite3.Connection,
    before: Mark,
    after: tuple[int, float],
    rows: Sequence[Row],
    lines: Sequence[PathLine],
) -> bool:
    """Add rows and move the mark to `after`; return False without a change if `before` is outdated."""
    if mark(connection) != before:
        return False
    connection.executemany(
        "INSERT INTO places (position, node, kind, created, size) VALUES (?, ?, ?, ?, ?)",
        [row[:5] for row in rows],
    )
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        [(row.position, row.text) for row in rows],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO lines (line, session, tip, next, first, last) VALUES (?, ?, ?, ?, ?, ?)",
        [(each.line, each.session, each.tip, each.next, each.first, each.last) for each in lines],
    )
    connection.execute(
        "UPDATE state SET mark = ?, marked = ?, changes = changes + 1, rows = rows + ?, "
        "lines = max(lines, ?)",
        (*after, len(rows), max((each.line for each in lines), default=0)),
    )
    return True


def sessions(connection: sqlite3.Connection) -> set[str]:
    """Return the sessions that have lines in the index."""
    return {session for (session,) in connection.execute("SELECT DISTINCT session FROM lines")}


def places_of(
    connection: sqlite3.Connection, names: Sequence[str], limit: int
) -> list[tuple[int, int, float]]:
    """Return up to `limit` places of these sessions: position, node and time of writing."""
    lines = connection.execute(
        "SELECT line FROM lines WHERE session IN (SELECT value FROM json_each(?)) ORDER BY line",
        (json.dumps(list(names)),),
    ).fetchall()
    found: list[tuple[int, int, float]] = []
    for (line,) in lines:
        found += connection.execute(
            "SELECT position, node, created FROM places WHERE position >= ? AND position < ? LIMIT ?",
            (line << PLACES, (line + 1) << PLACES, limit - len(found)),
        )
        if len(found) >= limit:
            break
    return found


def remove(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Delete rows, each given as position and indexed text."""
    count = 0
    for position, text in rows:
        connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (position, text))
        connection.execute("DELETE FROM places WHERE position = ?", (position,))
        count += 1
    connection.execute(
        "UPDATE state SET changes = changes + 1, removals = removals + 1, rows = rows - ?", (count,)
    )


def drop_lines(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Delete the lines of sessions whose places were removed."""
    connection.execute(
        "DELETE FROM lines WHERE session IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
    )
    connection.execute("UPDATE state SET changes = changes + 1")


def merge(connection: sqlite3.Connection, *, first: bool, pages: int = 200) -> bool:
    """Merge some pages of the index, so that removed words leave the file; `first` begins the merge.

    Returns False when nothing is left to merge.
    """
    before = connection.total_changes
    connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-pages if first else pages,))
    return connection.total_changes - before >= 2


def lines_within(
    connection: sqlite3.Connection, names: Collection[str] | None, since: float | None, until: float | None
) -> set[int]:
    """Return the numbers of the lines of these sessions with messages in this period; None means no limit."""
    conditions, values = [], []
    if names is not None:
        conditions.append("session IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(names)))
    if since is not None:
        conditions.append("last >= ?")
        values.append(since)
    if until is not None:
        conditions.append("first <= ?")
        values.append(until)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return {line for (line,) in connection.execute(f"SELECT line FROM lines{where}", values)}


def places_at(
    connection: sqlite3.Connection, positions: Iterable[int]
) -> Mapping[int, tuple[int, str, float, int]]:
    """Return node, kind, time and size by position; empty positions are left out."""
    rows = connection.execute(
        "SELECT position, node, kind, created, size FROM places "
        "WHERE position IN (SELECT value FROM json_each(?))",
        (json.dumps(list(positions)),),
    )
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}
