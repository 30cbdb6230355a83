"""The terminals of a session: shells by task, and background commands."""

from __future__ import annotations

import asyncio
import os
import secrets as chance
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.private_folders import sweep_once
from tools.kit.threads import on_thread
from tools.results import ToolError
from tools.services.sandbox import Boundary
from tools.services.service import Caller, Service
from tools.terminal.backend import Backend, ShellChild, ShellEnding
from tools.terminal.environment import child_environment, missing_hint, remote_environment
from tools.terminal.output import OutputWatch, RollingText, ScreenRecording, render
from tools.terminal.shell import Shell
from tools.text.redact import Redactor, redact, secret_values
from tools.text.safe_text import Cleaner

if TYPE_CHECKING:
    from tools.terminal.backends.options import BackendOptions


_NOT_STARTED = 126
MAX_PROCESSES = 64
MAX_TYPED = 65_536
"""Characters kept of an unfinished line."""
# A line that ends with a backslash continues.
_LINE_END = lazy_pattern(r"(?<!\\)[\r\n]")
MAX_LINES = 200
"""Lines that `log` shows by default."""


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of output. `dropped` characters before it are lost."""

    text: str
    dropped: int = 0


class BackgroundProcess:
    """One background process: its output so far and what is known about it.

    `notify` is called on the event loop with one line of text. `refused` returns a text on hosts refused
    since a `time.monotonic` time.
    """

    def __init__(
        self,
        child: ShellChild,
        command: str,
        *,
        pty: bool,
        secrets: Mapping[str, str],
        watch: OutputWatch,
        notify: Callable[[str], None],
        on_end: Callable[[], None],
        refused: Callable[[float], str],
    ) -> None:
        self.id = f"proc_{chance.token_hex(4)}"
        self.command = command
        self.pty = pty
        self.exit_code: int | None = None
        self.was_killed = False
        self._child = child
        self.created = time.time()
        """The start time, in seconds since the epoch."""
        self._started = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._text = RollingText()
        self._cleaner = Cleaner()
        self._redactor = Redactor(secrets)
        self._secrets = secrets
        self._recording = ScreenRecording() if pty else None
        self._watch = watch
        self._notify = notify
        self._on_end = on_end
        self._refused = refused
        self._refusals_told = self._started
        self._read_to = 0
        self.typed = ""
        """The input on an unfinished line."""
        self._loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        child.watch(self._sink)
        self._waiter = asyncio.create_task(self._wait())

    @property
    def pid(self) -> int:
        """The process id on the machine that runs the shell; 0 until it is known."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def uptime(self) -> float:
        """The seconds that the process has run so far, or ran until its end."""
        return (self._ended if self._ended is not None else time.monotonic()) - self._started

    def new_output(self) -> OutputPiece:
        """Return the output since the last call.

        An unfinished line is returned each time until it is complete.
        """
        with self._lock:
            text, dropped = self._text.since(self._read_to)
            self._read_to = self._text.total
            return OutputPiece(text + redact(self._cleaner.pending(), self._secrets), dropped)

    def refusals(self, *, all: bool = False) -> str:
        """Return a text on hosts refused since the last call, or with `all` since the start; or empty."""
        since, self._refusals_told = self._refusals_told, time.monotonic()
        return self._refused(self._started if all else since)

    def log(self, offset: int | None, limit: int) -> tuple[str, int, int]:
        """Return lines as text, the index of the first one, and the total number of lines.

        The lines begin at `offset` (0-based); without it, the last `limit` lines are returned.
        """
        with self._lock:
            total = self._text.total_lines
            first = max(total - limit, 0) if offset is None else offset
            text, first = self._text.lines(first, limit)
            return text, first, total

    async def picture(self) -> str | None:
        """Return the text on the screen of a process with a terminal; None without a terminal."""
        if self._recording is None:
            return None
        shown = await on_thread(render, self._recording.data(), history=False)
        return redact(shown, self._secrets)

    async def write(self, data: bytes) -> None:
        """Write `data` to the process's input. Raises `ToolError` if the process no longer reads it."""
        self._must_run()
        await self._child.write(data)

    def note_typed(self, data: str) -> None:
        """Record an unfinished line of input, so that the next input is checked together with it."""
        self.typed = _LINE_END.split(self.typed + data)[-1][-MAX_TYPED:]

    def close_input(self) -> None:
        self._must_run()
        self._child.close_input()

    async def kill(self) -> None:
        """Kill the process with all its descendants. Raises `ToolError` if it still runs after 5 seconds."""
        self.was_killed = self.is_running
        await self._child.kill()
        try:
            async with asyncio.timeout(5):
                await self.done.wait()
        except TimeoutError:
            raise ToolError(
                f"{self.id} does not end: a process hangs in the kernel or belongs to another user."
            ) from None

    def _must_run(self) -> None:
        if not self.is_running:
            raise ToolError(f"{self.id} has already ended with exit code {self.exit_code}.")

    def _sink(self, data: bytes) -> None:
        with self._lock:
            if self._recording is not None:
                self._recording.feed(data)
            text = self._redactor.feed(self._cleaner.feed(data))
            self._text.append(text)
        self._match(text)

    def _match(self, text: str) -> None:
        notice = self._watch.feed(text)
        if not notice:
            return
        try:
            self._loop.call_soon_threadsafe(self._notify, f"{self.id}: {notice}")
        except RuntimeError:
            # The loop is closed: nobody listens any more.
            pass

    async def _wait(self) -> None:
        try:
            ending = await self._child.ended()
        except ToolError as error:
            # It never started; the output of the process says why.
            self._sink(f"{error}\n".encode())
            ending = ShellEnding(_NOT_STARTED, False)
        rest = await on_thread(self._finish)
        self._match(rest)
        self._on_end()
        self._ended = time.monotonic()
        self.exit_code = ending.code
        self.done.set()
        if (self._watch.tells_end or self._watch.gave_up) and not self.was_killed:
            self._notify(f"{self.id} has ended with exit code {ending.code}: {_first_line(self.command)}")

    def _finish(self) -> str:
        with self._lock:
            rest = self._redactor.feed(self._cleaner.finish())
            self._text.append(rest)
            return rest

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the event loop once the process has ended, or is no longer waited for."""
        self._waiter.add_done_callback(lambda _: tell())

    async def aclose(self) -> None:
        """Stop waiting for the process; its backend kills it."""
        self._waiter.cancel()
        await asyncio.gather(self._waiter, return_exceptions=True)


class ProcessTable:
    """The background processes of one task, at most `MAX_PROCESSES`; old finished ones are dropped."""

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self._ended = ended
        self._processes: dict[str, BackgroundProcess] = {}

    def make_room(self) -> None:
        """Drop finished processes if the table is full; raise `ToolError` if all of them are running."""
        while len(self._processes) >= MAX_PROCESSES:
            ended = next((one.id for one in self._processes.values() if not one.is_running), None)
            if ended is None:
                raise ToolError(
                    f"{MAX_PROCESSES} processes are running already; kill one with the process tool first."
                )
            del self._processes[ended]

    def add(self, process: BackgroundProcess) -> None:
        self._processes[process.id] = process
        process.when_over(self._ended)

    def all(self) -> Sequence[BackgroundProcess]:
        return tuple(self._processes.values())

    def get(self, id: str) -> BackgroundProcess:
        """Return the process with that id. Raises `ToolError` that lists the known ids."""
        if id in self._processes:
            return self._processes[id]
        known = ", ".join(self._processes) or "none"
        raise ToolError(f"There is no process {id!r}. Known: {known}.", status="not_found")

    async def aclose(self) -> None:
        await asyncio.gather(*(process.aclose() for process in self.all()))
        self._processes.clear()


def _first_line(command: str) -> str:
    return command.strip().split("\n", 1)[0][:200]


def nothing_refused(_since: float) -> str:
    """Return an empty text, because no host is refused without a network filter."""
    return ""


@dataclass(frozen=True, slots=True)
class BackgroundRun:
    """The background processes that run, or that ended since their changes were last checked."""

    since: float
    """The start of the first of them, in seconds since the epoch."""
    ended: frozenset[str]
    """The ended ones, by id."""


class Terminals(Service):
    """The terminals of one session. Its tasks share only the backend.

    Commands inherit the variables of `environ` that `tools.terminal.environment` lists. `secrets` are values,
    by name, that are masked in all output in addition to those of `environ`. Nothing is started before the
    first command.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        backend: Backend | None = None,
        boundary: Boundary | None = None,
        far: BackendOptions | None = None,
        secrets: Mapping[str, str] | None = None,
        waits_from: int = 1,
    ) -> None:
        self._environ = dict(environ)
        self._waits_from = waits_from
        self._told: set[str] = set()
        self.withheld_clauses: dict[str, str] = {}
        """What the boundary withheld from commands, by command, for asking whether to run them outside."""
        self._backend = backend
        self._far = far
        self._places: dict[str, Backend] = {}
        self.boundary = boundary if far is None else None
        """The boundary of commands on this machine; None = none."""
        self._shells: dict[str, Shell] = {}
        self._tables: dict[str, ProcessTable] = {}
        self.background_ended: Callable[[], None] = _nothing
        """Called on the event loop after a background process has ended."""
        self._past: dict[str, float] = {}
        """Start times of processes whose changes were not checked yet, by id."""
        self._over: set[str] = set()
        self.secrets: Mapping[str, str] = {**(secrets or {}), **secret_values(self._environ)}
        """Values masked in output, by variable name."""
        self.end_waiting: Callable[[], None] = _nothing
        """Ends the boundary that waits for a command. To be called when rules or settings have changed."""

    @property
    def backend(self) -> Backend:
        """The backend in which commands run."""
        if self._backend is None:
            from tools.terminal.local import LocalBackend

            self._backend = LocalBackend(boundary=self.boundary, waits_from=self._waits_from)
            self.end_waiting = self._backend.end_waiting
        return self._backend

    def shell(self, caller: Caller) -> Shell:
        """Return the shell of the caller's task, created at the first call."""
        if caller.task not in self._shells:
            sweep_once()
            passthrough = caller.options.get("terminal.env_passthrough", ())
            far = self._far
            self._shells[caller.task] = Shell(
                caller.task,
                caller.workspace if far is None else Path(far.start(caller.workspace)),
                caller.scratch / "shell",
                self.backend if far is None else self._place(far, caller),
                child_environment(self._environ, passthrough)
                if far is None
                else remote_environment(self._environ, passthrough, far.env),
            )
        return self._shells[caller.task]

    def has_usual_programs(self, task: str, names: Collection[str]) -> bool:
        """Return whether these names mean the usual programs in the shell of a task. Blocking.

        False for a shell on another machine, where that is unknown.
        """
        shell = self._shells.get(task)
        if self._far is not None or shell is None:
            return False
        from tools.terminal.local import LocalBackend

        backend = self.backend
        return isinstance(backend, LocalBackend) and shell.has_usual_programs(names, backend.given)

    def missing_variable_hint(self, output: str, given: Collection[str]) -> str:
        """Return a hint if a failed command seems to lack a variable that was withheld from it; else empty.

        `given` are the variables that it got. Each variable is mentioned once.
        """
        name, hint = missing_hint(output, self._environ.keys() - set(given) - self._told)
        if name:
            self._told.add(name)
        return hint

    @property
    def remote_name(self) -> str:
        """The name of the machine whose files commands see; empty if they see the files of this machine."""
        return "" if self._far is None or self._far.shares_files else self._far.name

    def permission_folder(self, cwd: Path) -> Path:
        """Return the folder of a shell as requests for permission name it.

        A folder on another machine must not be mistaken for a local one.
        """
        if self._far is None or self._far.shares_files:
            return cwd
        return Path(f"/{self._far.kind}:{cwd}")

    def _place(self, far: BackendOptions, caller: Caller) -> Backend:
        """Return the backend for a caller: one container for each task, but one remote host for all tasks."""
        from tools.terminal.backends.opening import open_backend

        name = "" if far.kind == "ssh" else caller.task
        if name not in self._places:
            self._places[name] = open_backend(far, caller.workspace)
        return self._places[name]

    def processes(self, task: str) -> ProcessTable:
        """Return the background processes of a task."""
        if task not in self._tables:
            self._tables[task] = ProcessTable(lambda: self.background_ended())
        return self._tables[task]

    def unchecked_run(self) -> BackgroundRun | None:
        """Return the background processes that ran since the last `mark_checked`; None if there were none."""
        running: set[str] = set()
        for process in (each for table in self._tables.values() for each in table.all()):
            if process.id not in self._over:
                self._past.setdefault(process.id, process.created)
            if process.is_running:
                running.add(process.id)
        if not self._past:
            return None
        return BackgroundRun(min(self._past.values()), frozenset(self._past.keys() - running))

    def mark_checked(self, run: BackgroundRun) -> None:
        """Record that the changes by `run` were checked: its ended processes are not reported again."""
        for id in run.ended:
            self._past.pop(id, None)
        self._over |= run.ended

    def running_count(self) -> int:
        """Return how many background processes run now, over all tasks."""
        return sum(process.is_running for table in self._tables.values() for process in table.all())

    async def end(self, task: str) -> None:
        """Kill a task's running processes and forget its shell. The task may start others."""
        self.unchecked_run()
        if (table := self._tables.pop(task, None)) is not None:
            await table.aclose()
        if (shell := self._shells.pop(task, None)) is not None:
            shell.forget()
        if (place := self._places.pop(task, None)) is not None:
            await place.aclose()

    async def aclose(self) -> None:
        """Kill all processes that were started here and still run."""
        self.unchecked_run()
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
