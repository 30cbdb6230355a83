"""Sources of notes that can be found in addition to messages; each lists its passages."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agent.core.store.nodes import fold
from agent.core.store.store import Store
from agent.errors import StoreError
from agent.knowledge.learnings.learning import Learning, Status
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.files import MemoryFileError
from agent.knowledge.memory.scopes import SCOPES, project_id, project_root
from agent.knowledge.memory.service import MemoryProvider, vet_entries
from agent.knowledge.recall import index_tables as tables
from agent.knowledge.recall import scoring
from agent.knowledge.recall.scoring import indexed_text
from agent.knowledge.skills.catalog import SkillCatalog
from agent.knowledge.skills.skill import Skill
from tools.kit.threads import on_thread, to_the_end


@dataclass(frozen=True, slots=True)
class Passage:
    """One note that can be found by the search."""

    title: str
    """Its name or location, for the user."""
    text: str
    created: float = 0.0
    """Seconds since the epoch; 0: unknown."""
    session: str = ""
    node: int = 0
    """The id of the message it is based on; 0 if there is none."""
    kind: str = ""
    """Its kind within the source, such as the scope of a note."""
    every: int = 1
    """Passages like it take at most each n-th place among the hits; 1: unrestricted. Passages that every
    installation has say little about what was meant.
    """


class RecallSource(Protocol):
    """A source of at most a few hundred passages, read again for each question."""

    @property
    def name(self) -> str:
        """The source name shown for its hits."""
        ...

    async def passages(self) -> Sequence[Passage]:
        """Return all passages; none if the source cannot be read."""
        ...


_MOST = 100
"""The maximum number of hits from one source."""


class PassageIndex:
    """An index of the words in a source's passages, cached until the passages change."""

    def __init__(self) -> None:
        self._passages: tuple[Passage, ...] = ()
        self._connection: sqlite3.Connection | None = None
        self._building = asyncio.Lock()
        self._is_closed = False

    async def best(
        self, words: Sequence[str], passages: Sequence[Passage], rarities: Mapping[str, float]
    ) -> list[tuple[Passage, scoring.Scored]]:
        """Return the passages with words of a question, best first, each with its score.

        `rarities` are the weights of words among the messages. A word that no message contains weighs most.
        """
        given = tuple(passages)
        if not given or not words:
            return []
        async with self._building:
            if self._is_closed:
                return []
            if self._connection is None or given != self._passages:
                self._clear()
                # Filled on another thread, as hundreds of passages take a while. That continues for a
                # question that is given up; until its end nobody may read or close the connection.
                self._connection = sqlite3.connect(":memory:", check_same_thread=False)
                await to_the_end(on_thread(_fill, self._connection, given))
                self._passages = given
            return _best(self._connection, words, given, rarities)

    async def close(self) -> None:
        """Clear the cache; from now on nothing is found."""
        self._is_closed = True
        async with self._building:
            self._clear()

    def _clear(self) -> None:
        self._passages = ()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _fill(connection: sqlite3.Connection, passages: Sequence[Passage]) -> None:
    connection.execute(tables.WORDS)
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)",
        (
            (number << tables.PLACES, indexed_text(fold(f"{each.title}\n{each.text}"), each.created))
            for number, each in enumerate(passages, 1)
        ),
    )


def _best(
    connection: sqlite3.Connection,
    words: Sequence[str],
    passages: Sequence[Passage],
    rarities: Mapping[str, float],
) -> list[tuple[Passage, scoring.Scored]]:
    now, highest = time.time(), max(rarities.values(), default=1.0)
    read = scoring.read(connection, words, len(passages))
    rated = [replace(each, rarity=rarities.get(each.word, highest)) for each in read]
    known = {each.word for each in read}
    missing = sum(rarity for word, rarity in rarities.items() if word not in known)
    found: list[tuple[Passage, scoring.Scored]] = []
    for each in scoring.score_places(rated, len(passages), _MOST, missing=missing, alone=True):
        passage = passages[(each.position >> tables.PLACES) - 1]
        age = now - passage.created if passage.created else 0.0
        score = scoring.weighted_score(each.score, passage.kind, len(passage.text), age)
        found.append((passage, each._replace(score=score)))
    return sorted(found, key=lambda item: -item[1].score)


_TOLD: tuple[Status, ...] = ("learning", "candidate")
"""The statuses that are searched, since retired and stale ones would mislead."""

_MOST_LEARNINGS = 300


class RecalledLearnings:
    """Failures and fixes of this project and general ones; those of other projects are left out."""

    name = "learnings"

    def __init__(self, store: Store, workspace: Path) -> None:
        self._store = store
        self._workspace = workspace
        self._project: str | None = None

    async def passages(self) -> Sequence[Passage]:
        if self._project is None:
            self._project = await asyncio.to_thread(lambda: project_id(project_root(self._workspace)))
        try:
            found = await LearningStore(self._store.database, self._project).list_learnings(
                _TOLD, limit=_MOST_LEARNINGS
            )
        except StoreError:
            return ()
        return [_learning_passage(each) for each in found]


def _learning_passage(learning: Learning) -> Passage:
    texts = (learning.error_type, learning.error, learning.fix, learning.context, *learning.tags)
    return Passage(
        title=learning.pattern,
        text="\n".join(filter(None, texts)),
        created=learning.updated_at,
        session=learning.session,
        node=learning.node or 0,
        kind=learning.status,
    )


class MemoryNotes:
    """Notes about the user, the machine and the current project."""

    name = "memory"

    def __init__(self, provider: MemoryProvider) -> None:
        self._provider = provider

    async def passages(self) -> Sequence[Passage]:
        found: list[Passage] = []
        for scope in SCOPES:
            try:
                memory = await self._provider.read(scope)
            except MemoryFileError:
                continue
            for entry, shown in zip(memory.entries, vet_entries(memory)[0], strict=True):
                origin = memory.origins.of(entry)
                found.append(
                    Passage(
                        title=memory.path.name,
                        text=shown,
                        created=origin.created if origin else 0.0,
                        session=origin.session if origin else "",
                        node=(origin.node or 0) if origin else 0,
                        kind=scope,
                    )
                )
        return found


_FRESH = 2.0
"""Seconds for which folders are not read again, while the user is typing."""

_EVERY = 5
"""The spacing of skills: thirty bundled ones contain words for anything and would outrank the messages of
a small store.
"""


class RecalledSkills:
    """Names and descriptions of the skills usable in this workspace.

    Their texts are left out: they are long enough to contain any words, and would rank above messages.
    """

    name = "skills"

    def __init__(self, opened: Callable[[], SkillCatalog]) -> None:
        """Set up the source; `opened` returns the catalog.

        It touches the disk, so it is called at the first search, on another thread.
        """
        self._opened = opened
        self._catalog: SkillCatalog | None = None
        self._passages: tuple[Passage, ...] = ()
        self._read = float("-inf")

    async def passages(self) -> Sequence[Passage]:
        if time.monotonic() - self._read > _FRESH:
            self._passages = await asyncio.to_thread(self._load)
            self._read = time.monotonic()
        return self._passages

    def _load(self) -> tuple[Passage, ...]:
        if self._catalog is None:
            self._catalog = self._opened()
        return tuple(map(_passage, self._catalog.load().skills))


def _passage(skill: Skill) -> Passage:
    text = "\n".join((skill.description, *skill.tags))
    return Passage(title=skill.name, text=text, kind=skill.scope, every=_EVERY)
