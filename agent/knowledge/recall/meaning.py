"""Vectors for the meaning of messages and notes, in a separate file, made in the background."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agent.errors import HermesError, StoreError
from agent.knowledge.recall import message_index
from agent.knowledge.recall.embedding import Embedder
from agent.knowledge.recall.message_index import DerivedFile
from tools.kit.threads import close_all

if TYPE_CHECKING:
    from agent.core.store.connection import Database
    from agent.core.store.store import Store
    from agent.knowledge.recall.static_child import Vectors


APPLICATION_ID = 0x48657276
"""`Herv`, at offset 68 of the file."""

VERSION = 1

MOST = 200_000
"""The number of newest messages searched by meaning, which takes 0.4 s of CPU for each 100,000."""

_ROWS_AT_ONCE = 4_096

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
    """The last node that has a vector, the time it was written, and the name of the vector space."""

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
    """Create the tables, or recreate them if their version differs. Must run within a transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version != VERSION or not found.issuperset(_NAMES):
        clear(connection)


def clear(connection: sqlite3.Connection) -> None:
    """Delete all vectors. Must run within a transaction."""
    for name in _NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def begin(connection: sqlite3.Connection, space: str) -> VectorMark:
    """Return the progress for a vector space; delete vectors of others. Must run within a transaction."""
    before = mark(connection)
    if before.space != space:
        clear(connection)
        connection.execute("UPDATE state SET space = ?", (space,))
    return mark(connection)


def mark(connection: sqlite3.Connection) -> VectorMark:
    """Return the progress of making vectors."""
    return VectorMark(*connection.execute("SELECT mark, marked, space FROM state").fetchone())


def add(
    connection: sqlite3.Connection, before: VectorMark, after: tuple[int, float], rows: Iterable[VectorRow]
) -> bool:
    """Add rows and move the mark; return False without a change if another process has added them already."""
    if mark(connection) != before:
        return False
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (node, session, created, vector) VALUES (?, ?, ?, ?)", rows
    )
    connection.execute("UPDATE state SET mark = ?, marked = ?", after)
    return True


def sessions(connection: sqlite3.Connection) -> set[str]:
    """Return the sessions whose messages have vectors."""
    return {session for (session,) in connection.execute("SELECT DISTINCT session FROM vectors")}


def remove(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Delete the vectors of sessions."""
    connection.execute(
        "DELETE FROM vectors WHERE session IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
    )


def likeness(connection: sqlite3.Connection, question: Vectors, nodes: Iterable[int]) -> Mapping[int, float]:
    """Return the cosine similarity to `question` (one vector) of each of these nodes that has a vector."""
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
    """Return the `count` nodes nearest in meaning with their cosine similarities, nearest first.

    Only the sessions in `names`, the time between `since` and `until`, and the `MOST` newest messages count.
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
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        best = heapq.nlargest(count, [*best, *_rated(rows, question, count)], key=lambda each: each[1])
    return best


def _rated(
    rows: Sequence[tuple[int, bytes]], question: Vectors, most: int | None = None
) -> list[tuple[int, float]]:
    import numpy

    size = question.size * 2
    # A damaged row, or one of a model that changed its length, compares with nothing.
    whole = [row for row in rows if len(row[1]) == size]
    if not whole:
        return []
    matrix = numpy.frombuffer(b"".join(vector for _, vector in whole), "<f2").reshape(len(whole), -1)
    cosines = matrix.astype(numpy.float32) @ question.reshape(-1)
    if most is not None and most < len(whole):
        return [(whole[at][0], float(cosines[at])) for at in numpy.argpartition(cosines, -most)[-most:]]
    return [(node, float(cosine)) for (node, _), cosine in zip(whole, cosines, strict=True)]


log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 64
"""The maximum number of texts per request for vectors; they take two milliseconds of another process."""

_QUESTIONS = 64
_TEXTS = 2_000
"""The maximum numbers of questions and of passages whose vectors are cached."""


class Meaning:
    """Search by meaning in one store. One object per process and store."""

    hurried = 0.1
    """The patience of a search, in seconds, below which nothing is sent to a provider."""

    def __init__(self, path: Path, store: Store, embedder: Embedder) -> None:
        self.path = path
        self._store = store
        self._embedder = embedder
        self._file = DerivedFile(path, APPLICATION_ID, prepare, self._check, cache=4_096)
        self._reached = 0
        self._stepping = asyncio.Lock()
        self._asked: dict[str, asyncio.Task[Vectors]] = {}
        self._texts: dict[bytes, Vectors] = {}

    async def close(self) -> None:
        """Close the file for good."""
        asked = list(self._asked.values())
        self._asked.clear()
        for task in asked:
            task.cancel()
        ended = asyncio.gather(*asked, return_exceptions=True)
        await close_all((lambda: ended, self._file.close, self._embedder.aclose))

    # Building

    async def is_up_to_date(self) -> bool:
        """Return whether this process knows that every message has a vector."""
        return bool(self._reached) and (
            await self._store.database.read(message_index.highest_node) == self._reached
        )

    async def catch_up(self, *, seconds: float, rest: float = 0.0) -> bool:
        """Make vectors for new messages for at most `seconds`; return whether none are left. Raises
        `HermesError`.
        """
        if await self.is_up_to_date():
            return True
        give_up = time.monotonic() + seconds
        async with self._stepping:
            while await self._file.run_repairing(self._add_some):
                if time.monotonic() >= give_up:
                    return False
                if rest:
                    await asyncio.sleep(rest)
        return True

    async def _add_some(self, database: Database) -> bool:
        space = self._embedder.space
        before = await database.read(mark)
        if before.space != space:
            before = await database.write(lambda c: begin(c, space))
        messages = await self._store.database.read(lambda c: message_index.nodes_after(c, before.node))
        if not messages:
            self._reached = before.node
            return False
        for start in range(0, len(messages), _AT_ONCE):
            some = messages[start : start + _AT_ONCE]
            told = [each for each in some if each.text]
            vectors = await self._embedder.packed([each.text for each in told]) if told else ()
            rows = [
                VectorRow(each.node, each.session, each.created, vector)
                for each, vector in zip(told, vectors, strict=True)
            ]
            after = (some[-1].node, some[-1].created)
            if not await database.write(lambda c, b=before, a=after, r=rows: add(c, b, a, r)):
                return True
            before = VectorMark(*after, space)
        return True

    async def forget(self, sessions: Sequence[str]) -> None:
        """Delete the vectors of sessions. Raises `StoreError`."""
        if not await asyncio.to_thread(self.path.exists):
            return
        async with self._stepping:
            await self._file.run_repairing(lambda database: database.write(lambda c: remove(c, sessions)))

    async def _check(self, database: Database) -> None:
        """Delete vectors that belong to another store or to deleted sessions."""
        node, created, _space = await database.read(mark)
        source = self._store.database
        newest = await source.read(message_index.highest_node)
        moment = await source.read(lambda c: message_index.written_at(c, node))
        if node > newest or (moment is not None and moment != created):
            await database.write(clear)
            return
        known = await database.read(sessions)
        gone = await source.read(lambda c: message_index.deleted_sessions(c, known))
        if gone:
            await database.write(lambda c: remove(c, gone))

    # Asking

    async def question(self, text: str, patience: float) -> Vectors | None:
        """Return the vector of a question; None if it fails or takes over `patience` seconds."""
        if self._embedder.is_remote and patience < self.hurried:
            return None
        task = self._asked.pop(text, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(self._embedder.embed([text], question=True))
        self._asked[text] = task
        while len(self._asked) > _QUESTIONS:
            self._asked.pop(next(iter(self._asked))).cancel()
        try:
            # Late work continues, for the next search.
            async with asyncio.timeout(max(patience, 0.001)):
                return await asyncio.shield(task)
        except TimeoutError:
            return None
        except HermesError as error:
            log.warning("a question could not be compared by meaning: %s", error)
            return None

    async def likeness(self, question: Vectors, nodes: Sequence[int]) -> Mapping[int, float]:
        """Return the similarity of these nodes to the question; those without a vector are left out."""
        return await self._read(lambda c: likeness(c, question, nodes), {})

    async def nearest(
        self,
        question: Vectors,
        count: int,
        *,
        sessions: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Sequence[tuple[int, float]]:
        """Return the nodes nearest in meaning with their similarity, nearest first."""
        return await self._read(
            lambda c: nearest(c, question, count, names=sessions, since=since, until=until), ()
        )

    async def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        try:
            return await self._file.run_repairing(lambda database: database.read(work))
        except StoreError as error:
            log.warning("the vectors of messages cannot be read: %s", error)
            return otherwise

    async def of_texts(
        self, question: Vectors, texts: Sequence[str], patience: float
    ) -> Sequence[float | None]:
        """Return the similarity of each text to a question; None for one that cannot be computed now."""
        import numpy

        keys = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._texts}
        if new and not (self._embedder.is_remote and patience < self.hurried):
            try:
                vectors = await self._embedder.embed(list(new.values()))
            except HermesError as error:
                log.warning("notes could not be compared by meaning: %s", error)
                vectors = ()
            if len(self._texts) + len(new) > _TEXTS:
                self._texts.clear()
            self._texts.update(zip(new, vectors, strict=False))
        known = [self._texts.get(key) for key in keys]
        size = question.size
        return [
            float(numpy.dot(each, question.reshape(-1))) if each is not None and each.size == size else None
            for each in known
        ]
