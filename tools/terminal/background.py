"""Background processes of one task: started, read, typed into, waited for and killed by id."""

from __future__ import annotations

import asyncio
import re
import secrets as chance
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tools.results import ToolError
from tools.terminal import screen
from tools.terminal.backend import ShellChild
from tools.terminal.output_watch import OutputWatch
from tools.terminal.pump import ShellEnding
from tools.terminal.rolling_text import RollingText
from tools.terminal.threads import on_thread
from tools.text.redact import Redactor, redact
from tools.text.safe_text import Cleaner

_NOT_STARTED = 126
MAX_PROCESSES = 64
MAX_TYPED = 65_536
"""Characters of an unfinished line that are kept; no shell reads longer ones from a person."""
# A line that ends with a backslash goes on.
_LINE_END = re.compile(r"(?<!\\)[\r\n]")
MAX_LINES = 200
"""Lines `log` shows unless told otherwise."""


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of output. `dropped` characters before it are lost for good."""

    text: str
    dropped: int = 0


class BackgroundProcess:
    """One process: its output so far and what is known about it.

    `notify` is called on the event loop, with one line. `refused` says which hosts were not let through
    since a moment of `time.monotonic`.
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
        notify_on_complete: bool,
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
        """When it was started, in seconds since the epoch."""
        self._started = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._text = RollingText()
        self._cleaner = Cleaner()
        self._redactor = Redactor(secrets)
        self._secrets = secrets
        self._recording = screen.ScreenRecording() if pty else None
        self._watch = watch
        self._notify = notify
        self._notify_on_complete = notify_on_complete
        self._on_end = on_end
        self._refused = refused
        self._refusals_told = self._started
        self._read_to = 0
        self.typed = ""
        """What was typed on a line that is not finished."""
        self._loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        child.watch(self._sink)
        self._waiter = asyncio.create_task(self._wait())

    @property
    def pid(self) -> int:
        """Number of the shell where it runs; 0 until that is known."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def uptime(self) -> float:
        """Seconds it has run, or ran."""
        return (self._ended if self._ended is not None else time.monotonic()) - self._started

    def news(self) -> OutputPiece:
        """Output since the last call. An unfinished line is shown each time until it is complete."""
        with self._lock:
            text, dropped = self._text.since(self._read_to)
            self._read_to = self._text.total
            return OutputPiece(text + redact(self._cleaner.pending(), self._secrets), dropped)

    def refusals(self, *, all: bool = False) -> str:
        """What to say about hosts that were not let through since the last call, or at all; mostly empty."""
        since, self._refusals_told = self._refusals_told, time.monotonic()
        return self._refused(self._started if all else since)

    def log(self, offset: int | None, limit: int) -> tuple[str, int, int]:
        """Lines from `offset` (0-based), or the last ones; with the first line's number and the total."""
        with self._lock:
            total = self._text.total_lines
            first = max(total - limit, 0) if offset is None else offset
            text, first = self._text.lines(first, limit)
            return text, first, total

    async def picture(self) -> str | None:
        """The screen of a process with a terminal."""
        if self._recording is None:
            return None
        shown = await on_thread(screen.render, self._recording.data(), history=False)
        return redact(shown, self._secrets)

    async def write(self, data: bytes) -> None:
        """Type `data`. Raises `ToolError` when nobody reads."""
        self._must_run()
        await self._child.write(data)

    def note_typed(self, data: str) -> None:
        """Keep what stands on the unfinished line now, for whoever judges how it goes on."""
        self.typed = _LINE_END.split(self.typed + data)[-1][-MAX_TYPED:]

    def close_input(self) -> None:
        self._must_run()
        self._child.close_input()

    async def kill(self) -> None:
        """End it with everything it started."""
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
            # It never started; whoever looks at the process reads why.
            self._sink(f"{error}\n".encode())
            ending = ShellEnding(_NOT_STARTED, False)
        rest = await on_thread(self._finish)
        self._match(rest)
        self._on_end()
        self._ended = time.monotonic()
        self.exit_code = ending.code
        self.done.set()
        if (self._notify_on_complete or self._watch.gave_up) and not self.was_killed:
            self._notify(f"{self.id} has ended with exit code {ending.code}: {_first_line(self.command)}")

    def _finish(self) -> str:
        with self._lock:
            rest = self._redactor.feed(self._cleaner.finish())
            self._text.append(rest)
            return rest

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the event loop once it has ended, or nobody waits for it any more."""
        self._waiter.add_done_callback(lambda _: tell())

    async def aclose(self) -> None:
        """Stop waiting; the process itself is killed by its backend."""
        self._waiter.cancel()
        await asyncio.gather(self._waiter, return_exceptions=True)


class ProcessTable:
    """The background processes of one task, at most `MAX_PROCESSES`; the oldest finished ones make room."""

    def __init__(self, ended: Callable[[], None] = lambda: None) -> None:
        self._ended = ended
        self._processes: dict[str, BackgroundProcess] = {}

    def make_room(self) -> None:
        """Raises `ToolError` when all places are taken by running processes."""
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
        """The process of that id. Raises `ToolError` that lists the known ids."""
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
    """Where no network is filtered, no host is refused."""
    return ""
