"""Copying the data found of another agent, item by item. One failure does not affect other items."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.config.edit import put_entry
from agent.core.config.loader import load
from agent.core.config.problem import short_text
from agent.core.home import Home
from agent.core.store import importing
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.integrations.migration import (
    PROGRAMS,
    claude,
    cline,
    codex,
    gemini,
    hermes,
    opencode,
    pi,
    qwen,
    vibe,
)
from agent.integrations.migration.reading import Findings, ForeignNote, ForeignSession, Part
from agent.knowledge.memory.files import MemoryFileError, MemoryOperation, MemoryWriteError, Origin
from agent.knowledge.memory.service import MemoryFiles
from agent.knowledge.skills.hub.bundle import HubError
from agent.knowledge.skills.hub.service import SkillHub, open_hub, require_allowed
from agent.safety.permissions.file import plan_rule
from agent.safety.permissions.subjects import RuleVerdict, Setting
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


SETTLED = 5.0
"""Seconds by which a file may be newer than its last message without being read again."""


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The outcome for one item."""

    part: Part
    name: str
    done: bool
    note: str = ""
    """The reason if it was not imported, or another remark."""


@dataclass(frozen=True, slots=True)
class Importer:
    """The import of findings into one home folder."""

    home: Home
    store: Store
    settings: Settings
    hub: SkillHub
    setting: Setting
    """The folders that paths in rules are relative to."""

    async def run(self, findings: Findings, parts: Collection[Part]) -> AsyncIterator[ImportOutcome]:
        """Import these parts, and yield the outcome of each item as soon as it is done."""
        if "sessions" in parts:
            here = await self.known_ids(findings.sessions)
            for session in findings.sessions:
                yield await self._session(session, here.get(session.id))
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

    async def known_ids(self, sessions: Collection[ForeignSession]) -> dict[str, tuple[float, int]]:
        """Return, by id, those sessions that were already imported, with the time of the last change and the
        number of entries here.
        """
        records = [importing.SessionRecord(session.id) for session in sessions]
        return await self.store.database.read(lambda c: importing.known_sizes(c, records))

    async def _session(self, session: ForeignSession, here: tuple[float, int] | None) -> ImportOutcome:
        if here is not None:
            note = await asyncio.to_thread(_growth, session, *here)
            return ImportOutcome("sessions", session.title, False, f"is here already{note}")
        try:
            record = await asyncio.to_thread(session.read)
            if record is None:
                return ImportOutcome("sessions", session.title, False, "holds no messages")
            await self.store.import_sessions([record])
        except (OSError, ValueError, HermesError) as error:
            return ImportOutcome("sessions", session.title, False, short_text(str(error), 200))
        left = f"; left out: {', '.join(record.left)}" if record.left else ""
        note = f"{plural(len(record.nodes), 'entry')} as {session.id}{left}"
        return ImportOutcome("sessions", session.title, True, short_text(note, 400))

    async def _note(self, note: ForeignNote) -> AsyncIterator[ImportOutcome]:
        files = MemoryFiles(self.home.memories, Path(note.project) if note.project else Path.cwd())
        known = set[str]()
        try:
            known = set((await files.read(note.scope)).entries)
        except MemoryFileError as error:
            yield ImportOutcome("memory", note.source.name, False, str(error))
            return
        for text in entries_of(note.text):
            name = short_text(" ".join(text.split()), 60)
            if text in known:
                yield ImportOutcome("memory", name, False, "is noted already")
                continue
            try:
                await files.write(
                    note.scope, [MemoryOperation("add", text)], Origin(time.time(), by="person")
                )
            except (MemoryWriteError, MemoryFileError) as error:
                yield ImportOutcome("memory", name, False, short_text(str(error), 200))
            else:
                yield ImportOutcome("memory", name, True, f"in {note.scope}")

    def _skill(self, folder: Path) -> ImportOutcome:
        try:
            with self.hub.candidate(str(folder)) as candidate:
                require_allowed(candidate, force=False)
                self.hub.installed.check_free(candidate, self.hub.installed.all())
                row = self.hub.installed.install(candidate)
        except (HubError, HermesError) as error:
            return ImportOutcome("skills", folder.name, False, short_text(str(error), 200))
        return ImportOutcome("skills", row.name, True)

    def _server(self, name: str, server: Mapping[str, object]) -> ImportOutcome:
        if name in self.settings.mcp_servers:
            return ImportOutcome("servers", name, False, "is configured already")
        try:
            put_entry(self.home, ("mcp_servers", name), server)
        except HermesError as error:
            return ImportOutcome("servers", name, False, short_text(str(error), 200))
        return ImportOutcome("servers", name, True)

    def _rule(self, rule: str, verdict: RuleVerdict) -> ImportOutcome:
        told = f"{rule}: {verdict}"
        try:
            edit = plan_rule(self.home, rule, verdict, self.setting)
            if edit.old is not None:
                return ImportOutcome("permissions", told, False, f"stands here already, as {edit.old}")
            edit.write()
        except HermesError as error:
            return ImportOutcome("permissions", told, False, short_text(str(error), 200))
        return ImportOutcome("permissions", told, True)


def _growth(session: ForeignSession, updated: float, count: int) -> str:
    """Return a remark on the entries that a session got since its import; empty without any. Blocks."""
    if session.updated <= updated + SETTLED:
        return ""
    try:
        record = session.read()
    except (OSError, ValueError):
        return ""
    more = len(record.nodes) - count if record else 0
    if more <= 0:
        return ""
    return (
        f"; {more} entries that came since are not added: delete {session.id} here and import again to "
        "have them"
    )


def entries_of(text: str) -> Iterator[str]:
    """Yield the notes in a file, one for each paragraph. A heading is joined with the paragraph below it."""
    heading: list[str] = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.rstrip() for line in block.strip().splitlines() if line.strip() not in ("", "§")]
        if lines and all(line.startswith("#") for line in lines):
            heading = lines
        elif lines:
            yield "\n".join([*heading, *lines])
            heading = []


_FINDERS: Mapping[str, Callable[[Path], Findings]] = {
    "claude": claude.find_data,
    "codex": codex.find_data,
    "hermes": hermes.find_data,
    "gemini": gemini.find_data,
    "pi": pi.find_data,
    "vibe": vibe.find_data,
    "cline": cline.find_data,
    "qwen": qwen.find_data,
}


def find_data(agent: str, given: str, home: Path, environ: Mapping[str, str]) -> Findings:
    """Return the data of an agent in the folder `given` or in its usual folder. Blocks.

    Raises `ConfigError` if the agent is unknown or the folder does not exist.
    """
    if agent not in PROGRAMS:
        raise ConfigError(
            f"There is no import from {short_text(agent, 40)}; there is one from {', '.join(PROGRAMS)}."
        )
    user = Path(environ.get("HOME") or Path.home())
    root = Path(given).expanduser() if given else _usual(agent, user, environ)
    settings = _settings(given, root, user, environ) if agent == "opencode" else root
    if not root.is_dir() and not settings.is_dir():
        raise ConfigError(f"{root} is not a folder; name the folder of {agent} with --from.")
    if root.resolve() == home.resolve() and agent != "hermes":
        raise ConfigError(f"{root} is the home of this Hermes; name the folder of {agent}.")
    return opencode.find_data(root, settings) if agent == "opencode" else _FINDERS[agent](root)


def places(home: Path, environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the existing data folders of the programs, by name. Blocks."""
    user = Path(environ.get("HOME") or Path.home())
    usual = {agent: _usual(agent, user, environ) for agent in PROGRAMS}
    return {
        agent: root
        for agent, root in usual.items()
        if root.is_dir() and (root.resolve() != home.resolve() or (root / "state.db").exists())
    }


def _usual(agent: str, user: Path, environ: Mapping[str, str]) -> Path:
    program = PROGRAMS[agent]
    if program.variable and (given := environ.get(program.variable, "")):
        return Path(given).expanduser()
    if agent == "opencode" and (data := environ.get("XDG_DATA_HOME", "")):
        return Path(data) / "opencode"
    return user / program.folder


def _settings(given: str, root: Path, user: Path, environ: Mapping[str, str]) -> Path:
    """Return the settings folder of OpenCode. With --from it is that folder, or `config` inside it."""
    if given:
        return root / "config" if (root / "config").is_dir() else root
    if config := environ.get("XDG_CONFIG_HOME", ""):
        return Path(config) / "opencode"
    return user / opencode.SETTINGS


@asynccontextmanager
async def open_importer(
    home: Home, environ: Mapping[str, str], here: Path, secrets: Mapping[str, str]
) -> AsyncIterator[Importer]:
    """Open an import into `home` for the block. `secrets` are masked in titles. Raises `HermesError`."""
    loaded = load(home, dict(environ), here)
    hub = open_hub(home, loaded.settings, loaded.environ, here)
    async with await Store.open(home.database, secrets=secrets) as store:
        yield Importer(home, store, loaded.settings, hub, Setting(here, home.root))
