"""Vectors of what messages and notes mean, in a file of their own: made in the background."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.errors import HermesError, StoreError
from agent.knowledge.recall import stored_messages
from agent.knowledge.recall import vector_tables as tables
from agent.knowledge.recall.derived_file import DerivedFile
from agent.knowledge.recall.embedding import Embedder
from agent.knowledge.recall.vector_tables import VectorMark, VectorRow

if TYPE_CHECKING:
    from agent.core.store.connection import Database
    from agent.core.store.store import Store
    from agent.knowledge.recall.embedding import Vectors

log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 64
"""Texts that are made vectors of in one go: two milliseconds of another process."""

_QUESTIONS = 64
_TEXTS = 2_000
"""Questions and passages whose vectors are remembered."""


class Meaning:
    """The meaning of what one store holds. One per process and store."""

    hurried = 0.1
    """Seconds of patience below which nothing is sent anywhere, and not all messages are looked through."""

    def __init__(self, path: Path, store: Store, embedder: Embedder) -> None:
        self.path = path
        self._store = store
        self._embedder = embedder
        self._file = DerivedFile(path, tables.APPLICATION_ID, tables.prepare, self._check, cache=4_096)
        self._reached = 0
        self._stepping = asyncio.Lock()
        self._asked: dict[str, asyncio.Task[Vectors]] = {}
        self._texts: dict[bytes, Vectors] = {}

    async def close(self) -> None:
        """Let go of the file."""
        self._reached = 0
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        self._asked.clear()
        await self._file.close()
        await self._embedder.aclose()

    # Building

    async def is_up_to_date(self) -> bool:
        """Whether this process knows that there is a vector of each message."""
        return bool(self._reached) and (
            await self._store.database.read(stored_messages.newest) == self._reached
        )

    async def catch_up(self, *, seconds: float, rest: float = 0.0) -> bool:
        """Make vectors of what is new for at most `seconds`. Whether all is done. Raises `HermesError`."""
        if await self.is_up_to_date():
            return True
        give_up = time.monotonic() + seconds
        async with self._stepping:
            while await self._file.mended(self._add_some):
                if time.monotonic() >= give_up:
                    return False
                if rest:
                    await asyncio.sleep(rest)
        return True

    async def _add_some(self, database: Database) -> bool:
        space = self._embedder.space
        before = await database.read(tables.mark)
        if before.space != space:
            before = await database.write(lambda c: tables.begin(c, space))
        messages = await self._store.database.read(lambda c: stored_messages.after(c, before.node))
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
            if not await database.write(lambda c, b=before, a=after, r=rows: tables.add(c, b, a, r)):
                return True
            before = VectorMark(*after, space)
        return True

    async def forget(self, sessions: Sequence[str]) -> None:
        """Take sessions out. Raises `StoreError`."""
        if not await asyncio.to_thread(self.path.exists):
            return
        async with self._stepping:
            await self._file.mended(lambda database: database.write(lambda c: tables.remove(c, sessions)))

    async def _check(self, database: Database) -> None:
        """Make sure that the vectors are those of this store, and none of a session that is gone."""
        node, created, _space = await database.read(tables.mark)
        source = self._store.database
        newest = await source.read(stored_messages.newest)
        moment = await source.read(lambda c: stored_messages.moment_of(c, node))
        if node > newest or (moment is not None and moment != created):
            await database.write(tables.clear)
            return
        known = await database.read(tables.sessions)
        gone = await source.read(lambda c: stored_messages.without(c, known))
        if gone:
            await database.write(lambda c: tables.remove(c, gone))

    # Asking

    async def question(self, text: str, patience: float) -> Vectors | None:
        """The vector of a question, None if it cannot be had within `patience` seconds. Never raises."""
        if self._embedder.is_remote and patience < self.hurried:
            return None
        task = self._asked.pop(text, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(self._embedder.embed([text], question=True))
        self._asked[text] = task
        while len(self._asked) > _QUESTIONS:
            self._asked.pop(next(iter(self._asked))).cancel()
        try:
            # What is not there in time goes on, for the next search.
            async with asyncio.timeout(max(patience, 0.001)):
                return await asyncio.shield(task)
        except TimeoutError:
            return None
        except HermesError as error:
            log.warning("a question could not be compared by meaning: %s", error)
            return None

    async def likeness(self, question: Vectors, nodes: Sequence[int]) -> Mapping[int, float]:
        """How nearly these nodes mean what the question does; those without a vector are left out."""
        return await self._read(lambda c: tables.likeness(c, question, nodes), {})

    async def nearest(
        self,
        question: Vectors,
        count: int,
        *,
        sessions: Collection[str] | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Sequence[tuple[int, float]]:
        """The nodes that mean most nearly the same, with how nearly, the nearest first."""
        return await self._read(
            lambda c: tables.nearest(c, question, count, names=sessions, since=since, until=until), ()
        )

    async def _read(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        try:
            return await self._file.mended(lambda database: database.read(work))
        except StoreError:
            log.warning("the vectors of messages cannot be read", exc_info=True)
            return otherwise

    async def of_texts(
        self, question: Vectors, texts: Sequence[str], patience: float
    ) -> Sequence[float | None]:
        """How nearly each of some passages means what a question does; None where that cannot be told now."""
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
