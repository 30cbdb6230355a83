"""Language servers of one workspace: started on the first edit, asked after each edit, ended when idle.

A server that crashes, sends too much or hangs is ended, logged once, and not used again in the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.integrations.diagnostics.server_process import (
    Documents,
    Finding,
    Language,
    ServerFault,
    ServerKind,
    ServerProcess,
    find_server,
    language_of,
    report,
)
from agent.integrations.mcp.launch import Confinement
from tools.results import ToolError
from tools.services.diagnostics import Diagnostics, FileEdit
from tools.terminal.environment import child_environment

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings
    from agent.core.config.sections import DiagnosticsSettings
    from tools.services.sandbox import Wrapped

STRIKES = 4
"""The number of successive edits without an answer after which a server counts as hanging."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """The folders in which servers run, and their sandbox."""

    workspace: Path
    home: Home
    environ: Mapping[str, str]
    sandbox: SandboxSettings

    def folder(self, name: str) -> Path:
        """Return the folder that one server may write to. Every server of a workspace has its own."""
        from hashlib import sha256

        mark = sha256(str(self.workspace).encode()).hexdigest()[:16]
        return self.home.root / "language-servers" / f"{mark}-{name}"

    def wrap(self, kind: ServerKind) -> Wrapped:
        """Return the server's command, wrapped for the sandbox. Reads the disk. Raises `ServerFault`."""
        from agent.core.home import private_folder
        from agent.integrations.mcp.host.stdio import wrap_command

        folder = self.folder(kind.name)
        private_folder(folder.parent)
        private_folder(folder)
        confinement = Confinement(
            mode=self.sandbox.mode,
            workspace=str(self.workspace),
            home=str(self.home.root),
            network=False,
            hidden=tuple(self.sandbox.hidden),
            memory=self.sandbox.memory * 1_000_000,
            environ=self.environ,
        )
        try:
            return wrap_command(kind.command, confinement, folder)
        except (ToolError, OSError) as error:
            raise ServerFault(f"it cannot be started in the sandbox: {error}") from error

    def variables(self, kind: ServerKind) -> dict[str, str]:
        """Return a server's environment: that of shell commands, with caches in the server's own folder."""
        from agent.integrations.mcp.host.stdio import own_places

        folder = self.folder(kind.name)
        places = own_places(folder)
        own = {name: value.replace("{folder}", str(folder)) for name, value in kind.env.items()}
        return {**child_environment(self.environ, ()), **places, **own}

    def confines(self) -> bool:
        """Return whether this machine has a sandbox. The first call blocks."""
        from agent.safety.sandbox.opening import probe

        return probe(self.sandbox.mode).name != "none"


class _Running:
    """A started server, its documents, and how long it has been idle."""

    def __init__(self, kind: ServerKind) -> None:
        self.kind = kind
        self.lock = asyncio.Lock()
        self.server: ServerProcess | None = None
        self.documents: Documents | None = None
        self.starting: asyncio.Task[None] | None = None
        self.idle: asyncio.TimerHandle | None = None
        self.strikes = 0


class LanguageServers(Diagnostics):
    """Diagnostics for the files of one workspace.

    Creating the object is cheap: servers are looked up on the first edit.
    """

    def __init__(self, place: ServerPlace, settings: DiagnosticsSettings) -> None:
        self._place = place
        self._settings = settings
        self._running: dict[str, _Running] = {}
        self._off: set[str] = set()
        """Languages without a server in this session."""
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def after(self, edits: Sequence[FileEdit]) -> dict[str, Any] | None:
        """Return the problems that edits have newly caused, for their result; None if there are none.

        Never raises.
        """
        if self._settings.mode == "off" or self._closed:
            return None
        begun = asyncio.get_running_loop().time()
        found: list[tuple[str, Finding]] = []
        pending: list[str] = []
        for edit in edits:
            language = language_of(edit.path)
            if language is None or language.name in self._off:
                continue
            try:
                fresh = await self._ask_server(language, edit, begun)
            except ServerFault as fault:
                await self._give_up(language.name, str(fault))
                continue
            except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
                log.exception("diagnostics of %s failed", edit.path)
                await self._give_up(language.name, "")
                continue
            if fresh is None:
                name = self._running[language.name].kind.name if language.name in self._running else ""
                pending.extend([name] if name and name not in pending else [])
            else:
                found.extend((self._short_path(edit.path), each) for each in fresh)
        return report(found, pending)

    async def close(self) -> None:
        """End all servers."""
        self._closed = True
        for name in list(self._running):
            await self._end(name)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _ask_server(self, language: Language, edit: FileEdit, begun: float) -> list[Finding] | None:
        running = await self._server_for(language)
        if running is None:
            return []
        # One that has not answered is waited for half as long the next time.
        deadline = begun + self._settings.seconds / 2**running.strikes
        try:
            async with asyncio.timeout_at(deadline):
                if running.starting is not None:
                    await asyncio.shield(running.starting)
                await running.lock.acquire()
        except TimeoutError:
            running.strikes = min(running.strikes + 1, STRIKES - 1)  # how long it starts is bounded by itself
            return None
        try:
            server, documents = running.server, running.documents
            if server is None or documents is None:
                return []
            server.begin()
            fresh = await documents.after(edit, deadline)
        finally:
            running.lock.release()
            self._rest(language.name, running)
        running.strikes = running.strikes + 1 if fresh is None else 0
        if running.strikes >= STRIKES:
            raise ServerFault(f"it did not answer {STRIKES} edits")
        return fresh

    async def _server_for(self, language: Language) -> _Running | None:
        """Return the server of a language, starting it if needed; None if no server is available."""
        if (running := self._running.get(language.name)) is not None:
            return running
        kind = await asyncio.to_thread(self._find, language)
        if (running := self._running.get(language.name)) is not None:
            return running
        if kind is None or self._closed:
            self._off.add(language.name)
            return None
        running = self._running[language.name] = _Running(kind)
        running.starting = asyncio.create_task(self._start(language, running))
        return running

    def _find(self, language: Language) -> ServerKind | None:
        kind = find_server(language, {**self._settings.commands}, self._place.environ)
        if kind is not None and not self._place.confines():
            log.info("%s is not started, as nothing confines it on this machine", kind.name)
            return None
        return kind

    async def _start(self, language: Language, running: _Running) -> None:
        """Start and initialize a server. Raises `ServerFault`."""
        kind, place = running.kind, self._place
        variables = await asyncio.to_thread(place.variables, kind)
        server = await ServerProcess.start(partial(place.wrap, kind), variables, str(place.workspace), kind)
        try:
            await server.initialize(place.workspace.as_uri(), kind.options)
        except BaseException:
            await server.close()
            raise
        running.server = server
        running.documents = Documents(server, language, silent_when_same=kind.silent_when_same)

    def _rest(self, name: str, running: _Running) -> None:
        """Restart the idle timer of a server."""
        if running.idle is not None:
            running.idle.cancel()
        seconds = self._settings.idle_minutes * 60
        running.idle = asyncio.get_running_loop().call_later(seconds, self._idle, name)

    def _idle(self, name: str) -> None:
        running = self._running.get(name)
        if running is None or running.lock.locked():
            return
        task = asyncio.create_task(self._end(name))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _give_up(self, name: str, reason: str) -> None:
        running = self._running.get(name)
        if name not in self._off:
            self._off.add(name)
            program = running.kind.name if running is not None else name
            log.warning(
                "the language server %s is off for this session: %s", program, reason or "asking it failed"
            )
        await self._end(name)

    async def _end(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is None:
            return
        if running.idle is not None:
            running.idle.cancel()
        if running.starting is not None and not running.starting.done():
            running.starting.cancel()
        if running.starting is not None:
            with suppress(asyncio.CancelledError, Exception):
                await running.starting
        if running.server is not None:
            await running.server.close()

    def _short_path(self, path: Path) -> str:
        try:
            return str(path.relative_to(self._place.workspace))
        except ValueError:
            return str(path)
