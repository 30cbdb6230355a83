"""Notes that a plugin stores instead of files. Hermes still decides what may be written, and how much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.integrations.plugins.files import PluginFailedError
from agent.integrations.plugins.process import HOOK
from agent.integrations.plugins.session_plugins import PluginRunner, SessionPlugins
from agent.knowledge.memory.files import (
    DELIMITER,
    LARGEST,
    Entries,
    MemoryContents,
    MemoryFileError,
    MemoryOperation,
    Origin,
    Origins,
    apply_operations,
    parse,
    size,
)
from agent.knowledge.memory.scopes import SCOPES, Scope, block, project_id, project_root
from agent.knowledge.memory.service import (
    MemoryBlock,
    MemoryProvider,
    MemoryWrite,
    refuse_injection,
    vet_entries,
)
from agent.session.conversation.session_prompt import memory_files, memory_limits
from tools.senses.services import UseService
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

AUTO, FILES = "auto", "files"
"""Values of `memory.provider` that do not name a plugin."""
REST = 60.0
"""Seconds after a failure during which the service is not asked for notes that are only displayed."""


class PluginMemory:
    """A `MemoryProvider` that stores notes with the service of a plugin."""

    def __init__(
        self, runner: PluginRunner, provider: str, project: str, limits: Mapping[Scope, int]
    ) -> None:
        """Create the provider. `project` is the id of the current project, equal in every session."""
        self._runner = runner
        self._provider = provider
        self._project = project
        self._limits = limits
        self._writing = asyncio.Lock()
        self._rests_until = 0.0
        self._failure = ""

    @property
    def name(self) -> str:
        return f"{self._runner.name}.{self._provider}"

    def leaving(self) -> UseService:
        return UseService(
            tool="memory", kind="remember", service=self.name, hosts=", ".join(self._runner.hosts)
        )

    async def read(self, scope: Scope) -> MemoryContents:
        if time.monotonic() < self._rests_until:
            raise MemoryFileError(self._failure)
        return self._contents(scope, await self._ask("read", scope))

    async def write(self, scope: Scope, operations: Sequence[MemoryOperation], origin: Origin) -> MemoryWrite:
        for operation in operations:
            refuse_injection(operation.content)
        async with self._writing:
            before = self._contents(scope, await self._ask("read", scope))
            new = apply_operations(before.entries, operations, before.limit)
            if new == before.entries:
                return MemoryWrite(before, before)
            kept = await self._ask("write", scope, entries=list(new), before=list(before.entries))
            return MemoryWrite(before, self._contents(scope, list(new) if kept is None else kept))

    async def blocks(self) -> tuple[MemoryBlock, ...]:
        found: list[MemoryBlock] = []
        for scope in SCOPES:
            try:
                memory = await self.read(scope)
            except MemoryFileError as error:
                return (*found, MemoryBlock(scope, "", self._place(scope), str(error)))
            shown, problem = vet_entries(memory)
            if text := block(scope, shown, size(memory.entries), memory.limit):
                found.append(MemoryBlock(scope, text, memory.path, problem))
        return tuple(found)

    async def _ask(self, do: str, scope: Scope, **more: Any) -> Any:
        given = {"do": do, "scope": scope, "project": self._project if scope == "project" else "", **more}
        try:
            return await self._runner.ask("provider", f"memory {self._provider}", given, HOOK)
        except PluginFailedError as error:
            self._failure = f"{error} It keeps the notes, which cannot be used now."
            self._rests_until = time.monotonic() + REST
            raise MemoryFileError(self._failure) from error

    def _contents(self, scope: Scope, said: Any) -> MemoryContents:
        entries = _entries(said)
        if entries is None:
            raise MemoryFileError(f"{self.name} gave no list of notes; fix the plugin, or disable it.")
        return MemoryContents(self._place(scope), entries, Origins(), self._limits[scope], on_disk=False)

    def _place(self, scope: Scope) -> Path:
        return Path(f"{scope} in {self.name}")


def _entries(said: Any) -> Entries | None:
    """Return the notes in a plugin's answer, cleaned like a file's; None if it is invalid or too large."""
    listed = said.get("entries") if isinstance(said, Mapping) else said
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return None
    if sum(map(len, listed)) > LARGEST:
        return None
    return parse(clean(DELIMITER.join(listed)))


async def open_notes(
    home: Home, workspace: Path, settings: Settings, plugins: SessionPlugins
) -> tuple[MemoryProvider, list[str]]:
    """Return the notes that a session reads and writes, and notices about problems with them.

    May start the process of a plugin. Never raises for a plugin's faults.
    """
    files = await asyncio.to_thread(memory_files, home, workspace, settings)
    if not settings.memory.enabled:
        return files, []
    notes, wrong = await asyncio.to_thread(_choose_provider, plugins, workspace, settings, files)
    problems = [block.problem for block in await notes.blocks() if block.problem]
    return notes, [wrong, *problems] if wrong else problems


def kept_elsewhere(home: Home, workspace: Path, settings: Settings) -> str:
    """Return the name of the plugin service that stores this workspace's notes; empty if files do. Reads the
    disk.
    """
    from agent.integrations.plugins.shelf import plugin_service_names

    wanted = settings.memory.provider
    brought = [] if wanted == FILES else plugin_service_names(home, workspace, "memory")
    return next((name for name in brought if wanted in (AUTO, name)), "")


def _choose_provider(
    plugins: SessionPlugins, workspace: Path, settings: Settings, files: MemoryProvider
) -> tuple[MemoryProvider, str]:
    """Return the provider of notes that `memory.provider` selects, and a sentence about a problem with it.

    The sentence is usually empty. Reads the disk.
    """
    wanted = settings.memory.provider
    brought: dict[str, PluginMemory] = {}
    if wanted != FILES:
        project, limits = project_id(project_root(workspace)), memory_limits(settings)
        for runner, each in plugins.providers():
            if each.kind == "memory":
                kept = PluginMemory(runner, each.name, project, limits)
                brought[kept.name] = kept
    if wanted in (AUTO, FILES):
        return next(iter(brought.values()), files), ""
    if wanted in brought:
        return brought[wanted], ""
    named = clean(wanted)[:80]
    return files, f"No plugin that is on brings {named} (memory.provider); notes are kept in files."
