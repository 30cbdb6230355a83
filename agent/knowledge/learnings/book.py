"""Learnings as a person looks through them, adds to them, and takes changes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.store.connection import Database
from agent.errors import HermesError
from agent.knowledge.learnings import learning_table as table
from agent.knowledge.learnings.dependencies import restamped
from agent.knowledge.learnings.learning import LONGEST, Learning, Status
from agent.knowledge.learnings.learning_store import LearningStore, matching
from agent.knowledge.learnings.notes import LearningRefusedError, call_key, checked, written
from agent.knowledge.learnings.signature import EVERYWHERE
from agent.knowledge.memory.scopes import project_id, project_root
from tools.services.learning_notes import LearningNote

if TYPE_CHECKING:
    from agent.core.config.schema import LearningSettings


_NAMES = {"pattern": "pattern", "error_type": "name of the error", "fix": "fix", "context": "context"}


class UnknownLearningError(HermesError):
    """There is no learning of that number."""


@dataclass(frozen=True, slots=True)
class LearningChange:
    """One change, so that it can be taken back."""

    before: Learning | None
    """None for one that is new."""
    after: Learning | None
    """None for one that is gone."""
    calls: tuple[str, ...] = ()
    """The keys of its calls before."""


@dataclass(frozen=True, slots=True)
class LearningBook:
    """The learnings of all projects, opened in one. All methods raise `HermesError`."""

    database: Database
    workspace: Path
    root: Path
    """The root of the project."""
    store: LearningStore
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values that are masked in what is written down, by name."""

    async def look(
        self,
        query: str = "",
        statuses: Sequence[Status] = (),
        *,
        all_projects: bool = False,
    ) -> list[Learning]:
        """Those that hold here, or in all projects: the surest first, with a query those that answer it."""
        found = await self.store.listed(statuses, all_projects=all_projects, limit=-1)
        return matching(found, query)

    async def get(self, number: int) -> Learning:
        """One of any project."""
        found = await self.database.read(lambda c: table.get(c, number))
        if found is None:
            raise _unknown(number)
        return found

    async def add(self, note: LearningNote) -> LearningChange:
        """Write one down in the person's words; what says the same already becomes it."""
        note = _checked(note, self.secrets)
        if not note.pattern or not note.fix:
            raise LearningRefusedError("Say what fails, and what works instead; both are needed.")
        project = EVERYWHERE if note.everywhere else self.store.project
        new, call = written(note, project, "person"), call_key(note.pattern, self.workspace)

        def work(connection: table.Connection) -> LearningChange:
            known = {each.id: each for each in table.of_key(connection, new.key, project)}
            calls = {number: table.calls(connection, number) for number in known}
            kept = table.keep(connection, new, [call])
            if kept.refuted:
                kept = replace(kept, refuted=0)
                table.update(connection, kept)
            return LearningChange(known.get(kept.id), kept, calls.get(kept.id, ()))

        return await self.database.write(work)

    async def reword(self, number: int, fix: str) -> LearningChange:
        """Say in other words what works."""
        note = _checked(LearningNote(fix=fix), self.secrets)
        if not note.fix:
            raise LearningRefusedError("Say what works; an empty fix helps nobody.")
        known = await self.get(number)
        if note.fix == known.fix:
            return LearningChange(known, known)
        # In words, what was seen to work is no longer what it says.
        changed = replace(known, fix=note.fix, fix_kind="words", fix_key="", origin="person")
        return await self._changed(known, replace(changed, updated_at=time.time()))

    async def confirm(self, number: int) -> LearningChange:
        """Vouch for one: it is told, and calls are held back for it, with what there is now."""
        known = await self.get(number)
        changed = replace(
            known,
            status="learning",
            origin="person",
            confirmed=known.confirmed + 1,
            refuted=0,
            updated_at=time.time(),
            depends=await asyncio.to_thread(restamped, known.depends, self.root),
        )
        return await self._changed(known, changed)

    async def remove(self, number: int) -> LearningChange:
        """Forget one."""

        def work(connection: table.Connection) -> LearningChange | None:
            known, calls = table.get(connection, number), table.calls(connection, number)
            table.remove(connection, number)
            return None if known is None else LearningChange(known, None, calls)

        change = await self.database.write(work)
        if change is None:
            raise _unknown(number)
        return change

    async def take_back(self, change: LearningChange) -> None:
        """Let it be as it was before a change."""

        def work(connection: table.Connection) -> None:
            if change.after is not None:
                table.remove(connection, change.after.id)
            if change.before is not None:
                table.put_back(connection, change.before, change.calls)

        await self.database.write(work)

    async def _changed(self, known: Learning, changed: Learning) -> LearningChange:
        def work(connection: table.Connection) -> LearningChange:
            calls = table.calls(connection, known.id)
            table.update(connection, changed)
            return LearningChange(known, changed, calls)

        return await self.database.write(work)


def learning_book(
    database: Database, workspace: Path, settings: LearningSettings, secrets: Mapping[str, str]
) -> LearningBook:
    """The book as it is open in a workspace. Looks where the root of its project is."""
    root = project_root(workspace)
    store = LearningStore(
        database, project_id(root), promote_after=settings.promote_after, most_candidates=settings.candidates
    )
    return LearningBook(database, workspace, root, store, secrets)


def _checked(note: LearningNote, secrets: Mapping[str, str]) -> LearningNote:
    """A person hears of what is too long, where the agent's words are cut."""
    for name, most in LONGEST.items():
        if (size := len(" ".join(getattr(note, name).split()))) > most:
            raise LearningRefusedError(
                f"The {_NAMES[name]} has {size:,} characters; at most {most:,} are kept."
            )
    return checked(note, secrets)


def _unknown(number: int) -> UnknownLearningError:
    return UnknownLearningError(
        f"There is no learning {number}; `hermes learnings list` shows what there is."
    )
