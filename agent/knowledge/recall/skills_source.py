"""The skills in force as something that can be recalled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from agent.knowledge.recall.sources import Passage
from agent.knowledge.skills.catalog import SkillCatalog
from agent.knowledge.skills.skill import Skill

_FRESH = 2.0
"""Seconds for which the folders are not looked through again: somebody is typing."""

_EVERY = 5
"""Thirty bundled skills hold words for anything, and would stand before the messages of a small store."""


class RecalledSkills:
    """Names and descriptions of skills that may be used where one works, none of another project.

    Their texts are long enough to hold any words, and would stand before what was said.
    """

    name = "skills"

    def __init__(self, opened: Callable[[], SkillCatalog]) -> None:
        """`opened` touches the disk, so it is called when something is searched first, on another thread."""
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
