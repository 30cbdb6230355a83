"""Sources that can be recalled beside messages: each says which passages it holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from agent.recall import index_tables as tables
from agent.recall import postings, scoring
from agent.recall.question import date_words
from agent.store.node_text import fold

_APART = 4
"""Bits between two passages, so that none is beside another."""


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


class RecallSource(Protocol):
    """A few hundred passages at most, read anew for each question."""

    @property
    def name(self) -> str:
        """What hits of it are called."""
        ...

    async def passages(self) -> Sequence[Passage]:
        """All of them. A source that cannot be read gives none."""
        ...


def best(
    words: Sequence[str], passages: Sequence[Passage], rarities: Mapping[str, float], now: float
) -> list[tuple[Passage, scoring.Scored]]:
    """The passages that hold words of a question, best first, rated as messages are.

    `rarities` tell what each word tells among the messages; one that none of them holds tells most.
    """
    if not passages or not words:
        return []
    highest = max(rarities.values(), default=1.0)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(tables.WORDS)
        connection.executemany(
            "INSERT INTO words (rowid, own, date) VALUES (?, ?, ?)",
            (
                ((number << _APART), fold(f"{each.title}\n{each.text}"), date_words(each.created))
                for number, each in enumerate(passages, 1)
            ),
        )
        read = postings.read(connection, words, len(passages))
    rated = [replace(each, rarity=rarities.get(each.word, highest)) for each in read]
    missing = sum(rarity for word, rarity in rarities.items() if word not in {each.word for each in read})
    found: list[tuple[Passage, scoring.Scored]] = []
    for each in scored_alone(rated, missing):
        passage = passages[(each.position >> _APART) - 1]
        age = now - passage.created if passage.created else 0.0
        score = scoring.weighed(each.score, passage.kind, len(passage.text), age)
        found.append((passage, scoring.with_score(each, score)))
    return sorted(found, key=lambda item: -item[1].score)


def scored_alone(rated: Iterable[postings.Postings], missing: float) -> list[scoring.Scored]:
    """Places that hold the words themselves; `missing` is what the words tell that none holds."""
    rated = list(rated)
    held = {place for each in rated for place in (*each.own, *each.dated)}
    return [
        each
        for each in scoring.scored(rated, len(held), len(held) * 8, missing=missing)
        if each.position in held
    ]
