"""The index of all messages of a store: updated in the background, searched within milliseconds.

It is a separate file that may be deleted at any time. Each step of building it is one short transaction that
continues after the last one. So a killed process loses at most one step, and two processes share the work.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent.core.store.connection import DamagedStore, Database, address
from agent.core.store.query_line import Filters, conditions_of
from agent.core.store.store import Store
from agent.errors import StoreError
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall import scoring
from agent.knowledge.recall.scoring import IndexedMessage, Known, Scored, common_words, indexed_text
from tools.kit.files import create_file

INDEXED_CHARS = 20_000
"""The number of characters indexed of one message."""

_CHARS_AT_ONCE = 200_000
_NODES_AT_ONCE = 400
_STEPS_UP = 64
"""The maximum number of nodes without text that are skipped between two messages."""

_COLUMNS = (
    "id, session, parent, kind, nodes.created, size, "
    f"CASE WHEN body IS '' THEN '' ELSE substr(coalesce(body, content), 1, {INDEXED_CHARS}) END"
)


def nodes_after(connection: sqlite3.Connection, node: int) -> list[IndexedMessage]:
    """Return a limited number of the nodes after `node`, in writing order; empty if there are none."""
    gone = {name for (name,) in connection.execute("SELECT session FROM discarded")}
    found: list[IndexedMessage] = []
    spoken: dict[int | None, int | None] = {}
    chars = 0
    cursor = connection.execute(
        f"SELECT {_COLUMNS} FROM nodes WHERE id > ? ORDER BY id LIMIT ?", (node, _NODES_AT_ONCE)
    )
    for each, session, parent, kind, created, size, text in cursor.fetchall():
        if parent is not None and parent not in spoken:
            spoken[parent] = _searchable_node(connection, parent)
        before = spoken.get(parent)
        if session in gone:
            text = ""
        spoken[each] = each if text else before
        found.append(IndexedMessage(each, session, before, kind, created, size, text))
        chars += len(text)
        if chars >= _CHARS_AT_ONCE:
            break
    return found


def newest_texts(
    connection: sqlite3.Connection, before: int, count: int, chars: int
) -> list[tuple[int, str]]:
    """Return id and beginning of the `count` newest messages older than `before`, newest first."""
    return connection.execute(
        "SELECT id, substr(coalesce(body, content), 1, ?) FROM nodes "
        "WHERE id < ? AND body IS NOT '' ORDER BY id DESC LIMIT ?",
        (chars, before, count),
    ).fetchall()


def _searchable_node(connection: sqlite3.Connection, node: int | None) -> int | None:
    """Return the node itself if it can be searched, or the nearest earlier one on its path, or None."""
    for _ in range(_STEPS_UP):
        row = connection.execute("SELECT parent, body IS '' FROM nodes WHERE id = ?", (node,)).fetchone()
        if row is None:
            return None
        if not row[1]:
            return node
        node = row[0]
    return None


def last_messages(connection: sqlite3.Connection, node: int) -> list[IndexedMessage]:
    """Return the last two messages of a path up to and including `node`, oldest first."""
    found: list[IndexedMessage] = []
    at: int | None = _searchable_node(connection, node)
    while at is not None and len(found) < 2:
        row = connection.execute(f"SELECT {_COLUMNS} FROM nodes WHERE id = ?", (at,)).fetchone()
        before = None if row[2] is None else _searchable_node(connection, row[2])
        found.append(IndexedMessage(row[0], row[1], before, *row[3:]))
        at = before
    return found[::-1]


def indexed_texts(
    connection: sqlite3.Connection, places: Sequence[tuple[int, int, float]]
) -> list[tuple[int, str]] | None:
    """Return position and text of what was indexed at these places (position, node, time); None if a node is
    gone.
    """
    nodes = json.dumps([node for _, node, _ in places])
    texts = {
        row[0]: row[6]
        for row in connection.execute(
            f"SELECT {_COLUMNS} FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (nodes,)
        )
    }
    if any(node not in texts for _, node, _ in places):
        return None
    return [(position, indexed_text(texts[node], created)) for position, node, created in places]


def highest_node(connection: sqlite3.Connection) -> int:
    """Return the highest node id ever used."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'nodes'").fetchone()
    return row[0] if row else 0


def written_at(connection: sqlite3.Connection, node: int) -> float | None:
    """Return the time when a node was written; None if it does not exist."""
    row = connection.execute("SELECT created FROM nodes WHERE id = ?", (node,)).fetchone()
    return row[0] if row else None


def deleted_sessions(connection: sqlite3.Connection, names: Iterable[str]) -> list[str]:
    """Return the sessions among `names` that no longer exist."""
    there = {name for (name,) in connection.execute("SELECT id FROM sessions")}
    return [name for name in names if name not in there]


def _session_filters(filters: Filters) -> Filters:
    return Filters(
        session=filters.session,
        session_begins=filters.session_begins,
        project=filters.project,
        branch=filters.branch,
    )


def narrows_sessions(filters: Filters) -> bool:
    """Return whether filters exclude whole sessions. Pure."""
    return bool(_session_filters(filters))


def sessions_within(connection: sqlite3.Connection, filters: Filters) -> list[str]:
    """Return the sessions that pass the filters."""
    conditions, values = conditions_of(_session_filters(filters))
    where = " AND ".join(condition.replace("nodes.session", "sessions.id") for condition in conditions)
    return [name for (name,) in connection.execute(f"SELECT id FROM sessions WHERE {where}", values)]


def matching_nodes(connection: sqlite3.Connection, filters: Filters, nodes: Sequence[int]) -> dict[int, str]:
    """Return the session of each node that passes the filters and whose session exists."""
    conditions, values = conditions_of(filters)
    where = "".join(f" AND {condition}" for condition in conditions)
    statement = (
        "SELECT nodes.id, nodes.session FROM nodes JOIN sessions ON sessions.id = nodes.session "
        f"WHERE nodes.id IN (SELECT value FROM json_each(?)){where}"
    )
    given: list[Any] = [json.dumps(list(nodes)), *values]
    return dict(connection.execute(statement, given).fetchall())


def sessions_of(connection: sqlite3.Connection, nodes: Sequence[int]) -> dict[int, str]:
    """Return the session of each node."""
    rows = connection.execute(
        "SELECT id, session FROM nodes WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(nodes)),),
    )
    return dict(rows.fetchall())


log = logging.getLogger(__name__)

T = TypeVar("T")


class DerivedFile:
    """This process's only connection to a file that can be rebuilt, opened on first use."""

    def __init__(
        self,
        path: Path,
        application: int,
        prepare: Callable[[sqlite3.Connection], None],
        check: Callable[[Database], Awaitable[None]],
        cache: int = 16_384,
    ) -> None:
        """Set up the file without opening it.

        `prepare` creates the tables, in a transaction; `check` removes the rows that the store no longer has.

        `application` is the id at offset 68 of the file. `cache` is the size of its memory cache in KiB.
        """
        self.path = path
        self._application = application
        self._prepare = prepare
        self._check = check
        self._cache = cache
        self._database: Database | None = None
        self._inode = 0
        self._opening = asyncio.Lock()
        self._is_closed = False

    async def run_repairing(self, work: Callable[[Database], Awaitable[T]]) -> T:
        """Return the result of `work`. If the file is damaged or deleted, run it again on a new file.

        Raises `StoreError`.
        """
        try:
            return await work(await self._open())
        except DamagedStore:
            await self._let_go()
            await asyncio.to_thread(_discard, self.path)
        except StoreError:
            if await asyncio.to_thread(self._is_there):
                raise
            await self._let_go()
        return await work(await self._open())

    async def close(self) -> None:
        """Close the file for good."""
        self._is_closed = True
        await self._let_go()

    async def _let_go(self) -> None:
        # What an opening under way opens, nobody else would close.
        async with self._opening:
            if self._database is not None:
                await self._database.close()
                self._database = None

    def _is_there(self) -> bool:
        """Return whether the path still leads to the open file."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    async def _open(self) -> Database:
        async with self._opening:
            if self._is_closed:
                raise StoreError(f"{self.path} was closed; open the search again.")
            if self._database is None:
                self._database = await self._connect()
            return self._database

    async def _connect(self) -> Database:
        await asyncio.to_thread(_prepare_file, self.path, self._application)
        database = await Database.connect(self.path)
        try:
            await database.bare(self._configure)
            await database.write(self._prepare)
            await self._check(database)
            self._inode = (await asyncio.to_thread(self.path.stat)).st_ino
        except BaseException:
            await database.close()
            raise
        return database

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{self._cache}")
        connection.execute("PRAGMA trusted_schema = OFF")


def _prepare_file(path: Path, expected: int) -> None:
    """Create the file if it is missing; raise `StoreError` if it cannot be used or is another program's."""
    try:
        try:
            os.close(create_file(path))
        except FileExistsError:
            # Opening and closing it here would drop the locks this process holds on it.
            pass
        if path.stat().st_size == 0:
            return
        with closing(sqlite3.connect(address(path, "mode=ro&immutable=1"), uri=True)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        # Damaged or foreign: the code that opens it says which.
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"Cannot use {path}: {reason}; free it or delete it, it is built again.") from error
    if application not in (0, expected):
        raise StoreError(f"{path} belongs to another program; move it away, Hermes builds its own.")


def _discard(path: Path) -> None:
    log.warning("the index %s was damaged and is built again", path)
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)


_CLOSE, _CLOSE_NARROWED = 120, 20_000
"""The numbers of places scored with details of their messages: without filters, and with some."""

_REMOVED_AT_ONCE = 200

_MANY = 10_000
"""The number of messages from which reading a common word's places slows a search noticeably."""
_LATELY, _BEGINNING = 2_000, 1_000
"""The number of newest messages whose words are counted, and the characters counted of each."""
_COMMON, _WARMED = 0.02, 200
"""The share of messages that makes a word common, and how many such words are read in advance."""


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """The nodes found for a question, best first, and the weight of each of its words."""

    hits: Sequence[tuple[int, Scored]]
    rarities: Mapping[str, float]
    possible: float = 0.0
    """The score of a message with all the words."""


class MessageIndex:
    """The index of the words of all messages. There is one object per process and store."""

    def __init__(self, path: Path, store: Store) -> None:
        self.path = path
        self._store = store
        self._file = DerivedFile(path, tables.APPLICATION_ID, tables.prepare, self._check)
        self._remembered = scoring.Remembered()
        self._reached = 0
        """The id of the node up to which everything is known to be indexed."""
        self._stepping = asyncio.Lock()
        self._is_warm = False

    async def close(self) -> None:
        """Close the file for good."""
        await self._file.close()

    # Building

    async def catch_up(self, *, seconds: float, rest: float = 0.0) -> bool:
        """Index new messages for at most `seconds`; return whether none are left. Raises `StoreError`."""
        if self._reached and await self._store.database.read(highest_node) == self._reached:
            return True
        give_up = time.monotonic() + seconds
        while await self._step():
            if time.monotonic() >= give_up:
                return False
            if rest:
                await asyncio.sleep(rest)
        return True

    async def warm_up(self, *, rest: float = 0.0) -> None:
        """Load the positions of common words, so that the first questions are fast. Raises `StoreError`."""
        if self._is_warm:
            return
        self._is_warm = True
        mark = await self._file.run_repairing(lambda database: database.read(tables.mark))
        if mark.rows < _MANY:
            return
        texts: list[str] = []
        before = mark.node + 1
        while len(texts) < _LATELY:
            some = await self._store.database.read(
                lambda c, before=before: newest_texts(c, before, _LATELY // 10, _BEGINNING)
            )
            if not some:
                break
            texts += [text for _, text in some]
            before = some[-1][0]
            await asyncio.sleep(rest)
        least = max(int(len(texts) * _COMMON), 2)
        for word in (await asyncio.to_thread(common_words, texts, least))[:_WARMED]:
            await self._file.run_repairing(
                lambda database, word=word: database.read(lambda c: self._load_word(c, word))
            )
            await asyncio.sleep(rest)

    def _load_word(self, connection: sqlite3.Connection, word: str) -> None:
        self._remembered.as_of(connection, tables.mark(connection))
        self._remembered.places(connection, word)

    async def progress(self) -> tuple[int, int]:
        """Return the ids of the last indexed node and of the newest node."""
        mark = await self._file.run_repairing(lambda database: database.read(tables.mark))
        return mark.node, await self._store.database.read(highest_node)

    async def _step(self) -> bool:
        """Index some messages; return False when none are left."""
        async with self._stepping:
            return await self._file.run_repairing(self._add_some)

    async def _add_some(self, database: Database) -> bool:
        before = await database.read(tables.mark)
        source = self._store.database
        messages = await source.read(lambda c: nodes_after(c, before.node))
        if not messages:
            self._reached = before.node
            return False
        waited = {each.before for each in messages if each.before is not None}
        ends = await database.read(lambda c: tables.lines_ending(c, waited))
        starts = scoring.waited_for(messages, ends)
        earlier = {node: await source.read(lambda c, node=node: last_messages(c, node)) for node in starts}
        plan = await asyncio.to_thread(scoring.plan_positions, messages, ends, before.lines, earlier)
        reached = (messages[-1].node, messages[-1].created)
        await database.write(lambda c: tables.add(c, before, reached, plan.rows, plan.lines))
        return True

    # Removing

    async def remove(self, sessions: Sequence[str]) -> None:
        """Remove sessions from the index while the store still has their messages.

        If a message is already gone, the whole index is rebuilt.
        """
        if not self.path.exists():
            return
        async with self._stepping:
            await self._file.run_repairing(lambda database: self._remove(database, sessions))

    async def _remove(self, database: Database, sessions: Sequence[str]) -> None:
        self._reached = 0
        while places := await database.read(lambda c: tables.places_of(c, sessions, _REMOVED_AT_ONCE)):
            rows = await self._store.database.read(lambda c, p=places: indexed_texts(c, p))
            if rows is None:
                await database.write(tables.clear)
                return
            await database.write(lambda c, rows=rows: tables.remove(c, rows))
        await database.write(lambda c: tables.drop_lines(c, sessions))
        first = True
        while await database.write(lambda c, first=first: tables.merge(c, first=first)):
            first = False

    # Searching

    async def find(
        self,
        words: Sequence[str],
        *,
        sessions: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        narrowed: bool = False,
        now: float | None = None,
    ) -> FoundMessages:
        """Return the best messages for these words, best first, with their scores.

        Only `sessions` count (None: all), and only messages written between `since` and `until`. `narrowed`
        means that the caller will filter the result further.
        """
        moment = time.time() if now is None else now

        def search(connection: sqlite3.Connection) -> FoundMessages:
            within = None
            if sessions is not None or since is not None or until is not None:
                within = scoring.of_numbers(tables.lines_within(connection, sessions, since, until))
                if not within:
                    return FoundMessages((), {}, scoring.possible(words, {}, 1))
            mark = tables.mark(connection)
            self._remembered.as_of(connection, mark)
            read = scoring.read(connection, words, mark.rows, self._remembered)
            most = _CLOSE_NARROWED if narrowed else _CLOSE
            close = scoring.score_places(read, mark.lines, most, within=within, narrowed=narrowed)
            known = tables.places_at(connection, [each.position for each in close])
            rarities = {each.word: each.rarity for each in read}
            possible = scoring.possible(words, rarities, mark.rows)
            return FoundMessages(_best_by_node(close, known, moment), rarities, possible)

        return await self._file.run_repairing(lambda database: database.read(search))

    # The file

    async def _check(self, database: Database) -> None:
        """Clear the index if it belongs to another store, or remove deleted sessions from it."""
        node, created = await database.read(tables.marked)
        source = self._store.database
        last = await source.read(highest_node)
        moment = await source.read(lambda c: written_at(c, node))
        if node > last or (moment is not None and moment != created):
            await database.write(tables.clear)
            return
        known = await database.read(tables.sessions)
        gone = await source.read(lambda c: deleted_sessions(c, known))
        if gone:
            await self._remove(database, gone)


def _best_by_node(found: Sequence[Scored], known: Known, now: float) -> Sequence[tuple[int, Scored]]:
    """Return each message once, at its best position, best first."""
    best: dict[int, tuple[float, Scored]] = {}
    for each in found:
        row = known.get(each.position)
        if row is None:
            continue
        node, kind, created, size = row
        score = scoring.weighted_score(each.score, kind, size, now - created)
        if node not in best or best[node][0] < score:
            best[node] = (score, each)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], -item[0]))
    return [
        (node, Scored(each.position, score, each.own, each.nearby, each.dated))
        for node, (score, each) in ranked
    ]
