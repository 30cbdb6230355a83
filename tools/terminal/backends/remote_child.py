"""A shell at the far side, and the channel its output comes through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tools.results import ToolError
from tools.terminal.backend import Launch
from tools.terminal.backends.channel import Channel
from tools.terminal.backends.connector import Connector
from tools.terminal.backends.markers import OutputMarker
from tools.terminal.backends.remote_helper import RemoteHelper, connect
from tools.terminal.backends.scripts import RemoteScript
from tools.terminal.pump import ShellEnding, Sink
from tools.terminal.shell import folders_file
from tools.terminal.threads import on_thread, to_the_end
from tools.text.safe_text import clean

_QUIET = 0.04
"""Seconds after a shell's end in which its channel closes, unless a descendant holds it open."""
_START = 30.0
"""Seconds a shell gets to start before what should be typed into it is refused."""
_KILLED = 137
_LOST = 255


class RemoteChild:
    """Implements `Child`. The connection is made on the thread that reads, begun by `watch`."""

    def __init__(
        self,
        reach: Connector,
        anchor: RemoteHelper,
        script: RemoteScript,
        launch: Launch,
        mark: str,
        on_gone: Callable[[RemoteChild], None],
    ) -> None:
        self._reach = reach
        self._anchor = anchor
        self._script = script
        self._launch = launch
        self._mark = mark
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[ShellEnding] = self._loop.create_future()
        self._ending.add_done_callback(self._settle)
        self._channel: Channel | None = None
        self._has_started = asyncio.Event()
        self._is_killed = False
        self._has_group = False
        self._pid = 0

    @property
    def pid(self) -> int:
        """Number at the far side; 0 until the shell has started there."""
        return self._pid

    def watch(self, sink: Sink) -> None:
        threading.Thread(target=self._run, args=(sink,), name="terminal-output", daemon=True).start()

    async def ended(self) -> ShellEnding:
        return await asyncio.shield(self._ending)

    def has_ended(self) -> bool:
        return self._ending.done()

    async def write(self, data: bytes) -> None:
        if not self._launch.keeps_input:
            raise ToolError("The input of this process is closed.")
        try:
            async with asyncio.timeout(_START):
                await self._has_started.wait()
        except TimeoutError:
            raise ToolError("The process has not started yet; try again.") from None
        if self._channel is None:
            raise ToolError("The process has closed its input.")
        await on_thread(self._channel.write, data)

    def close_input(self) -> None:
        if self._channel is None or not self._has_started.is_set():
            raise ToolError("The process has not started yet; try again.")
        self._channel.close_input()

    async def left_behind(self, *, thorough: bool) -> list[str]:
        if not thorough and not self._has_group:
            return []
        answer = await self._anchor.ask("list", self._mark, self._pid) or b""
        pairs = (
            entry.split(" ", 1) for entry in answer.decode("utf-8", "replace").split("/") if " " in entry
        )
        return [f"{clean(name)} ({pid})" for pid, name in pairs]

    async def kill(self) -> None:
        self._is_killed = True
        await to_the_end(asyncio.ensure_future(self._kill()))

    async def _kill(self) -> None:
        await self._anchor.ask("kill", self._mark, self._pid)
        if not self.has_ended():
            # The far side tells how the shell ended, unless there is no far side any more.
            await asyncio.wait({self._ending}, timeout=0.5)
        if self._channel is not None:
            await on_thread(self._channel.stop)

    def _run(self, sink: Sink) -> None:
        try:
            self._follow(sink)
        except BaseException as error:
            outcome = ShellEnding(_KILLED, False) if self._is_killed else error
            self._tell(self._end, outcome)
            if not isinstance(error, ToolError):
                raise

    def _follow(self, sink: Sink) -> None:
        channel, splitter = connect(self._opened, self._script, self._reach)
        try:
            told = False
            while data := channel.read():
                for piece in splitter.feed(data):
                    if isinstance(piece, OutputMarker):
                        told = self._heard(piece, channel) or told
                    elif not told:
                        sink(piece)
            if not told:
                sink(splitter.rest())
                self._broke_off(sink)
        finally:
            channel.finish()

    def _opened(self) -> Channel:
        channel = self._reach.call(self._script.command(), pty=self._launch.pty)
        self._channel = channel
        if self._is_killed:
            channel.stop()
        return channel

    def _heard(self, marker: OutputMarker, channel: Channel) -> bool:
        """Take a marker. Returns whether it was the shell's last word."""
        if marker.kind == "s":
            self._pid = int(marker.payload)
            self._tell(self._started, None)
        elif marker.kind == "x":
            if self._launch.new_state is not None:
                # What the shell finds missing when it takes over what this call leaves.
                self._launch.new_state.unlink(missing_ok=True)
            folder = clean(str(self._launch.cwd))
            raise ToolError(
                f"There is no folder {folder} at {self._reach.place}, or no way into it; name another "
                "workdir, or run the command again to begin in the first folder."
            )
        elif marker.kind == "e":
            code, group, folders = marker.payload.split(b" ", 2)
            self._keep(folders)
            self._has_group = group == b"1"
            still_open = self._has_group or channel.read(_QUIET) is None
            self._tell(self._end, ShellEnding(int(code), still_open))
            return True
        return False

    def _keep(self, folders: bytes) -> None:
        """Leave at this side what a shell leaves: that there is a state, and the folders."""
        new = self._launch.new_state
        if folders and new is not None and new.exists():
            folders_file(new).write_bytes(folders)
            new.write_bytes(b"\n# complete\n")

    def _broke_off(self, sink: Sink) -> None:
        if not self._is_killed:
            sink(f"\n[The connection to {self._reach.place} was lost before the command ended.]\n".encode())
        self._tell(self._end, ShellEnding(_KILLED if self._is_killed else _LOST, False))

    def _tell(self, heard: Callable[..., None], what: object) -> None:
        try:
            self._loop.call_soon_threadsafe(heard, what)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass

    def _started(self, _: None) -> None:
        self._has_started.set()

    def _end(self, outcome: ShellEnding | BaseException) -> None:
        if self._ending.done():
            return
        if isinstance(outcome, ShellEnding):
            self._ending.set_result(outcome)
        else:
            self._ending.set_exception(outcome)

    def _settle(self, ending: asyncio.Future[ShellEnding]) -> None:
        # Looked at here, so that a failure nobody waits for any more is no news.
        ending.exception()
        self._has_started.set()
        self._on_gone(self)
