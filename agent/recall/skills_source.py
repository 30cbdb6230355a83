"""The skills in force as something that can be recalled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from agent.recall.sources import Passage
from agent.skills.catalog import SkillCatalog
from agent.skills.skill import Skill

_SHOWN = 4_000
"""Characters of a skill's text that are searched."""

_FRESH = 2.0
"""Seconds for which the folders are not looked through again: somebody is typing."""


class RecalledSkills:
    """Skills that may be used where one works: those of another project are not among them."""

    name = "skills"

    def __init__(self, catalog: SkillCatalog) -> None:
        self._catalog = catalog
        self._passages: tuple[Passage, ...] = ()
        self._read = float("-inf")

    async def passages(self) -> Sequence[Passage]:
        if time.monotonic() - self._read > _FRESH:
            found = await asyncio.to_thread(self._catalog.load)
            self._passages = tuple(map(_passage, found.skills))
            self._read = time.monotonic()
        return self._passages


def _passage(skill: Skill) -> Passage:
    text = "\n".join((skill.description, *skill.tags, skill.body[:_SHOWN]))
    return Passage(title=skill.name, text=text, kind=skill.scope)
