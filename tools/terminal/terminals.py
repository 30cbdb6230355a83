"""All shells and processes of one engine: made when first asked for, killed together at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tools.services.sandbox import Boundary
from tools.terminal.backend import Backend
from tools.terminal.background import ProcessTable
from tools.terminal.environment import child_environment, far_environment, missing_hint
from tools.terminal.shell import Shell
from tools.text.redact import secret_values

if TYPE_CHECKING:
    from tools.terminal.backends.options import BackendOptions


class Caller(Protocol):
    """Who needs a shell; `tools.context` says what each of these is."""

    @property
    def task(self) -> str: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def scratch(self) -> Path: ...

    @property
    def options(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class BackgroundRun:
    """Processes in the background that run, or have ended since somebody looked at what they did."""

    since: float
    """When the first of them was started, in seconds since the epoch."""
    ended: frozenset[str]
    """Those that have ended, by their ids."""


class Terminals:
    """One per engine. Tasks share nothing but the backend.

    Of `environ` commands inherit what `tools.terminal.inherited` lists. `secrets` are
    values, by name, that are masked in all output beside those of `environ`. Cheap
    to make: nothing is started before the first command.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        backend: Backend | None = None,
        boundary: Boundary | None = None,
        far: BackendOptions | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = dict(environ)
        self._told: set[str] = set()
        self.kept_back: dict[str, str] = {}
        """What the boundary kept from commands, by their text: for the question about a run outside."""
        self._backend = backend
        self._far = far
        self._places: dict[str, Backend] = {}
        self.boundary = boundary if far is None else None
        """What commands on this machine are kept in; None = nothing."""
        self._shells: dict[str, Shell] = {}
        self._tables: dict[str, ProcessTable] = {}
        self.background_ended: Callable[[], None] = _nothing
        """Called on the event loop when a process in the background has ended."""
        self._past: dict[str, float] = {}
        """When processes were started of which nobody has looked yet at what they did, by their ids."""
        self._over: set[str] = set()
        self.secrets: Mapping[str, str] = {**(secrets or {}), **secret_values(self._environ)}
        """Values to mask in output, by name of their variable."""

    @property
    def backend(self) -> Backend:
        """Where commands run."""
        if self._backend is None:
            from tools.terminal.local import LocalBackend

            self._backend = LocalBackend(boundary=self.boundary)
        return self._backend

    def shell(self, caller: Caller) -> Shell:
        """The shell of the caller's task."""
        if caller.task not in self._shells:
            passthrough = caller.options.get("terminal.env_passthrough", ())
            far = self._far
            self._shells[caller.task] = Shell(
                caller.task,
                caller.workspace if far is None else Path(far.start(caller.workspace)),
                caller.scratch / "shell",
                self.backend if far is None else self._place(far, caller),
                child_environment(self._environ, passthrough)
                if far is None
                else far_environment(self._environ, passthrough, far.env),
            )
        return self._shells[caller.task]

    def missing(self, output: str, given: Collection[str]) -> str:
        """What to say when a failed command seems to lack a variable that was kept from it.

        `given` are the variables it got. Each variable is spoken of once.
        """
        name, hint = missing_hint(output, self._environ.keys() - set(given) - self._told)
        if name:
            self._told.add(name)
        return hint

    @property
    def elsewhere(self) -> str:
        """Name of the machine whose files commands see instead of this one's; empty = the same files."""
        return "" if self._far is None or self._far.shares_files else self._far.name

    def seen(self, cwd: Path) -> Path:
        """A folder of a shell as the gate sees it: one on another machine is none of this machine."""
        if self._far is None or self._far.shares_files:
            return cwd
        return Path(f"/{self._far.kind}:{cwd}")

    def _place(self, far: BackendOptions, caller: Caller) -> Backend:
        """Containers are for one task each; a host that is there anyway is for all."""
        from tools.terminal.backends.opening import open_backend

        name = "" if far.kind == "ssh" else caller.task
        if name not in self._places:
            self._places[name] = open_backend(far, caller.workspace)
        return self._places[name]

    def processes(self, task: str) -> ProcessTable:
        """The background processes of a task."""
        if task not in self._tables:
            self._tables[task] = ProcessTable(lambda: self.background_ended())
        return self._tables[task]

    def in_background(self) -> BackgroundRun | None:
        """What runs in the background or has run since `looked_at`; None where nothing did."""
        running: set[str] = set()
        for process in (each for table in self._tables.values() for each in table.all()):
            if process.id not in self._over:
                self._past.setdefault(process.id, process.created)
            if process.is_running:
                running.add(process.id)
        if not self._past:
            return None
        return BackgroundRun(min(self._past.values()), frozenset(self._past.keys() - running))

    def looked_at(self, run: BackgroundRun) -> None:
        """Somebody has looked at what the processes of `run` did: those that have ended are over."""
        for id in run.ended:
            self._past.pop(id, None)
        self._over |= run.ended

    def running(self) -> int:
        """How many background processes run now, over all tasks."""
        return sum(process.is_running for table in self._tables.values() for process in table.all())

    async def end(self, task: str) -> None:
        """Kill what one task has started and still runs. It may begin anew."""
        self.in_background()
        if (table := self._tables.pop(task, None)) is not None:
            await table.aclose()
        if (shell := self._shells.pop(task, None)) is not None:
            shell.forget()
        if (place := self._places.pop(task, None)) is not None:
            await place.aclose()

    async def aclose(self) -> None:
        """Kill everything that was ever started here and still runs."""
        self.in_background()
        await asyncio.gather(*(table.aclose() for table in self._tables.values()))
        if self._backend is not None:
            await self._backend.aclose()
        await asyncio.gather(*(place.aclose() for place in self._places.values()))
        self._places.clear()
        for shell in self._shells.values():
            shell.forget()
        self._shells.clear()
        self._tables.clear()


def _nothing() -> None:
    pass
