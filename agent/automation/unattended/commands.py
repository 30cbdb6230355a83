"""Commands that run while no user can be asked: job scripts, mail commands and checks.

Each needs permission and runs in a sandbox. A command that would need the user's approval is refused, and the
refusal tells where a rule could allow it. Changes in its folder are not recorded for undo, because the
command owns the folder.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home, private_folder
from agent.core.messages import ModeName
from agent.errors import ConfigError
from agent.safety.audit.log import AuditLog, AuditRecorder
from agent.safety.gate import Gate
from agent.safety.grants import Grants
from agent.safety.permissions.policy import Permissions
from agent.safety.reach import decide_by_gate
from agent.safety.rules import UndoCoverage
from agent.safety.sandbox.boundary import NO_COVERAGE
from agent.safety.sandbox.opening import open_boundary
from tools.kit.children import kill_group, start_child
from tools.results import DeniedError, ToolError
from tools.services.actions import Action, RunCommand
from tools.services.sandbox import Need
from tools.terminal.environment import child_environment
from tools.text.redact import redact, secret_values
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.safety.sandbox.boundary import SessionBoundary

MOST_OUTPUT = 200_000
"""The maximum number of bytes of output that are kept, from its end."""
TOOK_TOO_LONG = 124
NOT_STARTED = 126


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """The result of a command: exit code, output and refusals."""

    code: int
    output: str
    note: str = ""
    """Sentences on actions that the sandbox blocked; empty if there were none."""
    refused: str = ""
    """Sentences on why the command was not started; empty if it was."""

    @property
    def summary(self) -> str:
        """The exit code, the last line of output, and a note on what was blocked; or the refusal."""
        if self.refused:
            return self.refused
        lines = self.output.strip().splitlines()
        last = f", {clean(lines[-1])[:200]}" if lines else ""
        return f"exit code {self.code}{last}" + (f". {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattendedCommands:
    """Runs commands for one surface, such as `cron`. `approve` overrides the mode in settings and
    permissions.

    With `offline`, commands have no network, whatever the settings are.
    """

    home: Home
    surface: str
    environ: Mapping[str, str]
    approve: ModeName | None = None
    offline: bool = False

    def refusal_text(self, error: DeniedError) -> str:
        """Return the reason for a refusal and, if a rule could allow the action, where to write that rule."""
        if error.extra.get("outcome") != "nobody":
            return str(error)
        return f"{error} A rule for the surface `{self.surface}` in permissions.yaml can allow it."

    async def run(
        self,
        command: str,
        folder: Path,
        seconds: float,
        *,
        data: bytes = b"",
        allow: Sequence[str] = (),
        why: str = "",
    ) -> CommandEnd:
        """Run a shell command in `folder` for at most `seconds`, with `data` as its input, and return the
        result.

        `allow` are rules in addition to the user's; `why` is the reason in the audit log. A refused or
        failing command does not raise. Secrets in its output are masked.
        """
        loaded = await asyncio.to_thread(self._load, folder)
        try:
            async with self._boundary(loaded, folder) as (boundary, scratch):
                gate = await asyncio.to_thread(self._gate, loaded, folder, scratch, boundary, allow, why)
                if boundary.filtered is not None:
                    decide_by_gate(boundary.filtered, gate, loaded.settings.sandbox.hosts)
                action, need = await asyncio.to_thread(_command_action, boundary, command, folder)
                await gate.permit(action)
                return await self._carry_out(loaded, boundary, need, command, folder, seconds, data)
        except DeniedError as error:
            return CommandEnd(NOT_STARTED, "", refused=self.refusal_text(error))
        except (ToolError, ConfigError) as error:
            return CommandEnd(NOT_STARTED, "", refused=str(error))

    async def permit(self, action: Action, folder: Path, *, allow: Sequence[str] = (), why: str = "") -> None:
        """Raise `DeniedError` if an action that starts no program is not allowed."""
        loaded = await asyncio.to_thread(self._load, folder)
        gate = await asyncio.to_thread(
            self._gate, loaded, folder, self.home.scratch.resolve(), None, allow, why
        )
        await gate.permit(action)

    async def foresee(self, action: Action, folder: Path, *, allow: Sequence[str] = ()) -> str:
        """Return why an action would be refused now, as a clause; empty if it would be allowed."""
        loaded = await asyncio.to_thread(self._load, folder)
        async with self._boundary(loaded, folder) as (boundary, scratch):
            gate = await asyncio.to_thread(self._gate, loaded, folder, scratch, boundary, allow, "")
            if isinstance(action, RunCommand):
                action, _ = await asyncio.to_thread(_command_action, boundary, action.command, folder)
            verdict = await asyncio.to_thread(gate.decide, action)
        return "" if verdict.kind == "allow" else "; ".join(verdict.reasons) or "it needs a yes"

    def _load(self, folder: Path) -> LoadedSettings:
        from agent.core.config.loader import load

        return load(self.home, self.environ, folder)

    @asynccontextmanager
    async def _boundary(
        self, loaded: LoadedSettings, folder: Path
    ) -> AsyncIterator[tuple[SessionBoundary, Path]]:
        settings = loaded.settings.sandbox
        if self.offline:
            settings = settings.model_copy(update={"network": "off"})
        scratch = await asyncio.to_thread(_scratch, self.home)
        boundary = None
        try:
            secrets = secret_values(loaded.environ)
            boundary = await asyncio.to_thread(
                open_boundary, settings, self.home, folder, scratch, self.environ, (), secrets
            )
            yield boundary, scratch
        finally:
            if boundary is not None:
                await asyncio.to_thread(boundary.close)
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _gate(
        self,
        loaded: LoadedSettings,
        folder: Path,
        scratch: Path,
        boundary: SessionBoundary | None,
        allow: Sequence[str],
        why: str,
    ) -> Gate:
        try:
            permissions = Permissions(self.home, folder, self.surface, allow=allow)
        except ValueError as error:
            raise ConfigError(f"A rule of the job {error}; give one like terminal(git status).") from error
        settings = loaded.settings
        recorder = AuditRecorder(
            AuditLog(self.home.audit), why, self.surface, folder, secret_values(loaded.environ)
        )
        return Gate.for_home(
            self.home,
            folder,
            settings.approvals.mode,
            scratch=scratch,
            chosen=self.approve,
            permissions=permissions,
            # No grants of sessions: the user gave those for work under supervision.
            grants=Grants(folder),
            audit=recorder,
            undo=UndoCoverage(largest=settings.checkpoints.max_file_mb * 1_000_000),
            coverage=NO_COVERAGE if boundary is None else boundary.coverage(steps=True),
        )

    async def _carry_out(
        self,
        loaded: LoadedSettings,
        boundary: SessionBoundary,
        need: Need,
        command: str,
        folder: Path,
        seconds: float,
        data: bytes,
    ) -> CommandEnd:
        if not boundary.is_ready:
            await asyncio.to_thread(boundary.prepare)
        wrapped = await asyncio.to_thread(boundary.wrap, ["/bin/sh", "-c", command], need)
        variables = child_environment(loaded.environ, loaded.settings.terminal.env_passthrough)
        variables = {name: value for name, value in variables.items() if name not in wrapped.unset}
        begun = time.monotonic()
        try:
            process = await start_child(
                wrapped.argv,
                cwd=folder,
                env={**variables, **wrapped.env},
                fds=wrapped.fds,
                stdin=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            await asyncio.to_thread(wrapped.ended)
            return CommandEnd(NOT_STARTED, f"It cannot be started: {error.strerror}.")
        finally:
            wrapped.started()
        kept = bytearray()
        try:
            async with asyncio.timeout(seconds):
                code = await _talk(process, data, kept)
        except TimeoutError:
            kept.extend(f"\nIt took longer than {seconds:g} seconds and was stopped.".encode())
            code = TOOK_TOO_LONG
        finally:
            # Also processes that it left running.
            kill_group(process.pid)
            await process.wait()
            await asyncio.to_thread(wrapped.ended)
        output = redact(kept.decode("utf-8", "replace"), secret_values(loaded.environ))
        if not code:
            return CommandEnd(code, output)
        # Hints on how to ask the user are useless here.
        refusal = boundary.refusal(output, network=need.network).partition(" If it has to be")[0]
        return CommandEnd(
            code,
            output,
            " ".join(filter(None, (refusal, await asyncio.to_thread(boundary.hosts_refused, begun)))),
        )


def _scratch(home: Home) -> Path:
    """Create a private folder for one command, and return its path."""
    private_folder(home.scratch)
    return Path(tempfile.mkdtemp(prefix="command-", dir=home.scratch)).resolve()


def _command_action(boundary: SessionBoundary, command: str, folder: Path) -> tuple[RunCommand, Need]:
    """Return the action for the permission check of a command, and the access it gets if allowed."""
    network = boundary.asks_for_network(command, folder)
    action = RunCommand(tool="terminal", command=command, cwd=folder, network=network)
    hosts = boundary.hosts_named(command, folder)
    return action, Need(network=network, hosts=hosts, dies_with_parent=True)


async def _talk(process: asyncio.subprocess.Process, data: bytes, kept: bytearray) -> int:
    """Send a process its input, keep the end of its output in `kept`, and return its exit code."""
    assert process.stdin is not None and process.stdout is not None
    feeding = asyncio.ensure_future(_feed(process.stdin, data))
    try:
        while piece := await process.stdout.read(65_536):
            kept.extend(piece)
            del kept[:-MOST_OUTPUT]
        return await process.wait()
    finally:
        feeding.cancel()


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    stream.close()
