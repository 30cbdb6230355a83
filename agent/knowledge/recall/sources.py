"""Sources that can be recalled beside messages: each says which passages it holds."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent.core.store.nodes import fold
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall import postings, scoring
from agent.knowledge.recall.question import indexed_text


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that was written down and can be found by itself."""

    title: str
    """Where it stands, for a person."""
    text: str
    created: float = 0.0
    """Seconds since the epoch; 0: nobody knows."""
    session: str = ""
    node: int = 0
    """The message on which it rests, if there is one."""
    kind: str = ""
    """What it is within its source, such as the scope of a note."""
    every: int = 1
    """It and its like take each n-th place among the hits at most; 1: it stands where it is ranked.

    What is the same in everybody's home says little of what was meant here.
    """


class RecallSource(Protocol):
    """A few hundred passages at most, read anew for each question."""

    @property
    def name(self) -> str:
        """What hits of it are called."""
        ...

    async def passages(self) -> Sequence[Passage]:
        """All of them. A source that cannot be read gives none."""
        ...


_MOST = 100
"""Passages of one source that may be hits."""


class Shelf:
    """The words of a source's passages, kept until it has others."""

    def __init__(self) -> None:
        self._passages: tuple[Passage, ...] = ()
        self._connection: sqlite3.Connection | None = None
        self._building = asyncio.Lock()

    async def best(
        self, words: Sequence[str], passages: Sequence[Passage], rarities: Mapping[str, float]
    ) -> list[tuple[Passage, scoring.Scored]]:
        """The passages that hold words of a question, best first, rated as messages are.

        `rarities` tell what each word tells among the messages; one that none of them holds tells most.
        """
        given = tuple(passages)
        if not given or not words:
            return []
        async with self._building:
            if self._connection is None or given != self._passages:
                self.close()
                self._connection = await asyncio.to_thread(_indexed, given)
                self._passages = given
            return _best(self._connection, words, given, rarities)

    def close(self) -> None:
        """Forget them."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _indexed(passages: Sequence[Passage]) -> sqlite3.Connection:
    # Made on another thread, as hundreds of passages take a while, and read where it is asked.
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute(tables.WORDS)
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        (
            (number << tables.PLACES, indexed_text(fold(f"{each.title}\n{each.text}"), each.created))
            for number, each in enumerate(passages, 1)
        ),
    )
    return connection


def _best(
    connection: sqlite3.Connection,
    words: Sequence[str],
    passages: Sequence[Passage],
    rarities: Mapping[str, float],
) -> list[tuple[Passage, scoring.Scored]]:
    now, highest = time.time(), max(rarities.values(), default=1.0)
    read = postings.read(connection, words, len(passages))
    rated = [replace(each, rarity=rarities.get(each.word, highest)) for each in read]
    known = {each.word for each in read}
    missing = sum(rarity for word, rarity in rarities.items() if word not in known)
    found: list[tuple[Passage, scoring.Scored]] = []
    for each in scoring.scored(rated, len(passages), _MOST, missing=missing, alone=True):
        passage = passages[(each.position >> tables.PLACES) - 1]
        age = now - passage.created if passage.created else 0.0
        score = scoring.weighed(each.score, passage.kind, len(passage.text), age)
        found.append((passage, each._replace(score=score)))
    return sorted(found, key=lambda item: -item[1].score)
