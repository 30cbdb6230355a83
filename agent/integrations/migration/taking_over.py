"""Taking over what was found of another agent, one thing after the other; each can fail by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.config.edit import put_entry
from agent.core.config.problem import shown
from agent.core.home import Home
from agent.core.store import importing
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.integrations.migration.found import Findings, ForeignNote, ForeignSession, Part
from agent.knowledge.memory.entries import MemoryOperation, MemoryWriteError
from agent.knowledge.memory.files import MemoryFileError
from agent.knowledge.memory.origins import Origin
from agent.knowledge.memory.service import MemoryFiles
from agent.knowledge.skills.hub.installing import require_allowed
from agent.knowledge.skills.hub.problems import HubError
from agent.knowledge.skills.hub.service import SkillHub
from agent.safety.permissions.file import plan_rule
from agent.safety.permissions.rules import RuleVerdict
from agent.safety.permissions.subjects import Setting

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one thing."""

    part: Part
    name: str
    done: bool
    note: str = ""
    """Why not, or what else is to be known."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Carries findings over into one home."""

    home: Home
    store: Store
    settings: Settings
    hub: SkillHub
    setting: Setting
    """What paths in rules are relative to."""

    async def run(self, findings: Findings, parts: Collection[Part]) -> AsyncIterator[Taken]:
        """Take these parts over; what became of each thing as it is done."""
        if "sessions" in parts:
            here = await self.known(findings.sessions)
            for session in findings.sessions:
                yield await self._session(session, session.id in here)
        if "memory" in parts:
            for note in findings.notes:
                async for taken in self._note(note):
                    yield taken
        if "skills" in parts:
            for folder in findings.skills:
                yield await asyncio.to_thread(self._skill, folder)
        if "servers" in parts:
            for name, server in findings.servers.items():
                yield await asyncio.to_thread(self._server, name, server)
        if "permissions" in parts:
            for rule in findings.rules:
                yield await asyncio.to_thread(self._rule, rule.rule, rule.verdict)

    async def known(self, sessions: Collection[ForeignSession]) -> set[str]:
        """Ids of those that are here already."""
        records = [importing.SessionRecord(session.id) for session in sessions]
        found = await self.store.database.read(lambda c: importing.known_names(c, records))
        return set(found)

    async def _session(self, session: ForeignSession, is_here: bool) -> Taken:
        if is_here:
            return Taken("sessions", session.title, False, "is here already")
        try:
            record = await asyncio.to_thread(session.read)
            if record is None:
                return Taken("sessions", session.title, False, "holds no messages")
            await self.store.import_sessions([record])
        except (OSError, ValueError, HermesError) as error:
            return Taken("sessions", session.title, False, shown(str(error), 200))
        return Taken("sessions", session.title, True, f"{len(record.nodes)} entries as {session.id}")

    async def _note(self, note: ForeignNote) -> AsyncIterator[Taken]:
        files = MemoryFiles(self.home.memories, Path(note.project) if note.project else Path.cwd())
        known = set[str]()
        try:
            known = set((await files.read(note.scope)).entries)
        except MemoryFileError as error:
            yield Taken("memory", note.source.name, False, str(error))
            return
        for text in entries_of(note.text):
            name = shown(" ".join(text.split()), 60)
            if text in known:
                yield Taken("memory", name, False, "is noted already")
                continue
            try:
                await files.write(
                    note.scope, [MemoryOperation("add", text)], Origin(time.time(), by="person")
                )
            except (MemoryWriteError, MemoryFileError) as error:
                yield Taken("memory", name, False, shown(str(error), 200))
            else:
                yield Taken("memory", name, True, f"in {note.scope}")

    def _skill(self, folder: Path) -> Taken:
        try:
            with self.hub.candidate(str(folder)) as candidate:
                require_allowed(candidate, force=False)
                self.hub.installed.check_free(candidate, self.hub.installed.all())
                row = self.hub.installed.install(candidate)
        except (HubError, HermesError) as error:
            return Taken("skills", folder.name, False, shown(str(error), 200))
        return Taken("skills", row.name, True)

    def _server(self, name: str, server: Mapping[str, object]) -> Taken:
        if name in self.settings.mcp_servers:
            return Taken("servers", name, False, "is configured already")
        try:
            put_entry(self.home, ("mcp_servers", name), server)
        except HermesError as error:
            return Taken("servers", name, False, shown(str(error), 200))
        return Taken("servers", name, True)

    def _rule(self, rule: str, verdict: RuleVerdict) -> Taken:
        told = f"{rule}: {verdict}"
        try:
            edit = plan_rule(self.home, rule, verdict, self.setting)
            if edit.old is not None:
                return Taken("permissions", told, False, f"stands here already, as {edit.old}")
            edit.write()
        except HermesError as error:
            return Taken("permissions", told, False, shown(str(error), 200))
        return Taken("permissions", told, True)


def entries_of(text: str) -> Iterator[str]:
    """Notes of a file, one a paragraph; a heading goes with what stands below it."""
    heading: list[str] = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.rstrip() for line in block.strip().splitlines() if line.strip() not in ("", "§")]
        if lines and all(line.startswith("#") for line in lines):
            heading = lines
        elif lines:
            yield "\n".join([*heading, *lines])
            heading = []
