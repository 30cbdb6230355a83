"""The index of all messages of a store: updated in the background, searched within milliseconds.

It is a separate file that may be deleted at any time. Each step of building it is one short transaction that
continues after the last one. So a killed process loses at most one step, and two processes share the work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent.core.store.connection import DamagedStore, Database, address
from agent.core.store.store import Store
from agent.errors import StoreError
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall import scoring, stored_messages
from agent.knowledge.recall.scoring import Known, Scored, common_words
from tools.kit.files import create_file

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
    """Check that the file is an index of Hermes or new, and private to its owner. Raises `StoreError`."""
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
"""Places scored with details of their messages; more if filters drop some of them."""

_REMOVED_AT_ONCE = 200

_MANY = 10_000
"""The number of messages from which reading a common word's places slows a search noticeably."""
_LATELY, _BEGINNING = 2_000, 1_000
"""The newest messages whose words are counted, and the characters counted of each."""
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
    """The index of the words of all messages. One object per process and store."""

    def __init__(self, path: Path, store: Store) -> None:
        self.path = path
        self._store = store
        self._file = DerivedFile(path, tables.APPLICATION_ID, tables.prepare, self._check)
        self._remembered = scoring.Remembered()
        self._reached = 0
        """The node up to which this process knows everything to be indexed."""
        self._stepping = asyncio.Lock()
        self._is_warm = False

    async def close(self) -> None:
        """Close the file for good."""
        await self._file.close()

    # Building

    async def catch_up(self, *, seconds: float, rest: float = 0.0) -> bool:
        """Index new messages for at most `seconds`; return whether none are left. Raises `StoreError`."""
        if self._reached and await self._store.database.read(stored_messages.newest) == self._reached:
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
                lambda c, before=before: stored_messages.newest_texts(c, before, _LATELY // 10, _BEGINNING)
            )
            if not some:
                break
            texts += [text for _, text in some]
            before = some[-1][0]
            await asyncio.sleep(rest)
        least = max(int(len(texts) * _COMMON), 2)
        for word in (await asyncio.to_thread(common_words, texts, least))[:_WARMED]:
            await self._file.run_repairing(
                lambda database, word=word: database.read(lambda c: self._learn(c, word))
            )
            await asyncio.sleep(rest)

    def _learn(self, connection: sqlite3.Connection, word: str) -> None:
        self._remembered.as_of(connection, tables.mark(connection))
        self._remembered.places(connection, word)

    async def progress(self) -> tuple[int, int]:
        """Return the ids of the last indexed node and of the newest node."""
        mark = await self._file.run_repairing(lambda database: database.read(tables.mark))
        return mark.node, await self._store.database.read(stored_messages.newest)

    async def _step(self) -> bool:
        """Index some messages; return False when none are left."""
        async with self._stepping:
            return await self._file.run_repairing(self._add_some)

    async def _add_some(self, database: Database) -> bool:
        before = await database.read(tables.mark)
        source = self._store.database
        messages = await source.read(lambda c: stored_messages.after(c, before.node))
        if not messages:
            self._reached = before.node
            return False
        waited = {each.before for each in messages if each.before is not None}
        ends = await database.read(lambda c: tables.lines_ending(c, waited))
        starts = scoring.waited_for(messages, ends)
        earlier = {
            node: await source.read(lambda c, node=node: stored_messages.up_to(c, node)) for node in starts
        }
        plan = await asyncio.to_thread(scoring.plan_positions, messages, ends, before.lines, earlier)
        after = (messages[-1].node, messages[-1].created)
        await database.write(lambda c: tables.add(c, before, after, plan.rows, plan.lines))
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
            rows = await self._store.database.read(lambda c, p=places: stored_messages.indexed_texts(c, p))
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

        Only `sessions` count. `narrowed` says that the caller will filter the result further.
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
            return FoundMessages(_by_node(close, known, moment), rarities, possible)

        return await self._file.run_repairing(lambda database: database.read(search))

    # The file

    async def _check(self, database: Database) -> None:
        """Rebuild the index if it belongs to another store or contains deleted sessions."""
        node, created = await database.read(tables.marked)
        source = self._store.database
        newest = await source.read(stored_messages.newest)
        moment = await source.read(lambda c: stored_messages.moment_of(c, node))
        if node > newest or (moment is not None and moment != created):
            await database.write(tables.clear)
            return
        known = await database.read(tables.sessions)
        gone = await source.read(lambda c: stored_messages.without(c, known))
        if gone:
            await self._remove(database, gone)


def _by_node(found: Sequence[Scored], known: Known, now: float) -> Sequence[tuple[int, Scored]]:
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
