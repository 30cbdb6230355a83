"""Commands on another host or in a container: the remote helper, and the local side of its children."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tools.kit.threads import on_thread, to_the_end
from tools.results import ToolError
from tools.terminal.backend import Launch, ShellEnding, Sink
from tools.terminal.backends.channel import Channel, Connector
from tools.terminal.backends.scripts import RemoteScript, anchor_script, call_script
from tools.terminal.shell import folders_file
from tools.text.safe_text import clean

Kind = Literal["r", "s", "x", "e", "a", "d"]
"""Ready for the script, shell started, folder missing, shell ended, anchor found, request done."""

_LONGEST = 1 << 20
"""Bytes a payload may have before it counts as output."""


@dataclass(frozen=True, slots=True)
class OutputMarker:
    kind: str
    payload: bytes = b""


class MarkerSplitter:
    """A splitter of a stream into output and markers. It holds back a possible beginning of a marker."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._end = token + b"."
        self._held = bytearray()
        self._is_inside = False
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[bytes | OutputMarker]:
        """Yield the complete pieces, in order."""
        self._held += data
        while True:
            piece = self._marker() if self._is_inside else self._output()
            if piece is None:
                return
            if piece:
                yield piece

    def rest(self) -> bytes:
        """Return the data that was held back, after the stream has ended."""
        rest = (self._token if self._is_inside else b"") + bytes(self._held)
        self._held.clear()
        self._is_inside = False
        return rest

    def _output(self) -> bytes | None:
        at = self._held.find(self._token)
        if at >= 0:
            piece = bytes(self._held[:at])
            del self._held[: at + len(self._token)]
            self._is_inside, self._searched = True, 0
            return piece
        keep = self._partial()
        piece = bytes(self._held[: len(self._held) - keep])
        del self._held[: len(piece)]
        return piece or None

    def _marker(self) -> OutputMarker | bytes | None:
        at = self._held.find(self._end, self._searched)
        if at < 0:
            if len(self._held) > _LONGEST:
                return self.rest()
            self._searched = max(len(self._held) - len(self._end), 0)
            return None
        payload = bytes(self._held[:at])
        del self._held[: at + len(self._end)]
        self._is_inside = False
        return OutputMarker(payload[:1].decode("ascii", "replace"), payload[1:])

    def _partial(self) -> int:
        """Return how many of the last bytes may be the beginning of a marker."""
        for length in range(min(len(self._token) - 1, len(self._held)), 0, -1):
            if self._held.endswith(self._token[:length]):
                return length
        return 0


_WORDS = 4_000
"""Bytes kept of a client's output to explain a failure."""
_PATIENCE = 10.0
"""Seconds for the remote side to answer."""
_GOODBYE = 3.0
"""Seconds for the remote side to clean up."""


@dataclass(frozen=True, slots=True)
class RemoteSite:
    """What is known about the remote side after connecting."""

    shell: str
    folder: str
    host: str


def connect(
    opener: Callable[[], Channel], script: RemoteScript, reach: Connector
) -> tuple[Channel, MarkerSplitter]:
    """Open a channel, send the script, and return channel and splitter. Blocks. Raises `ToolError`."""
    channel = opener()
    splitter = MarkerSplitter(script.token)
    words = bytearray()
    while data := channel.read():
        for piece in splitter.feed(data):
            if isinstance(piece, OutputMarker) and piece.kind == "r":
                channel.write(script.text)
                return channel, splitter
            if isinstance(piece, bytes):
                words += piece
                del words[:-_WORDS]
    words += splitter.rest()
    channel.finish()
    raise ToolError(reach.explain(words.decode("utf-8", "replace")))


class RemoteHelper:
    """The helper program on the remote side. Call `open` first; requests may overlap."""

    def __init__(self, reach: Connector, owner: str) -> None:
        self._reach = reach
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._channel: Channel | None = None
        self._is_given_up = False
        self._site: asyncio.Future[RemoteSite] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    @property
    def is_there(self) -> bool:
        return self._site.done() and not self._gone.is_set()

    async def open(self) -> RemoteSite:
        """Start the helper and wait until it is connected. Raises `ToolError`."""
        threading.Thread(target=self._run, name="terminal-anchor", daemon=True).start()
        try:
            return await self._site
        except BaseException:
            self._give_up()
            raise

    async def over(self) -> None:
        """Wait until no part of the helper is running."""
        await self._gone.wait()

    async def ask(self, verb: str, mark: str, pid: int) -> bytes | None:
        """Return the answer to one request; None if the remote side is unreachable."""
        channel = self._channel
        if channel is None or not self.is_there:
            return None
        number = next(self._numbers)
        answer = self._waiting[number] = self._loop.create_future()
        try:
            await on_thread(channel.write, f"{number} {verb} {mark} {pid or ''}\n".encode())
            async with asyncio.timeout(_PATIENCE):
                return await answer
        except (ToolError, TimeoutError):
            return None
        finally:
            self._waiting.pop(number, None)

    async def aclose(self) -> None:
        """Ask the helper to clean up, and break the connection if it does not."""
        channel = self._channel
        if channel is None or self._gone.is_set():
            return
        try:
            await on_thread(channel.write, b"0 bye\n")
            async with asyncio.timeout(_GOODBYE):
                await self._gone.wait()
        except (ToolError, TimeoutError):
            await on_thread(channel.stop)
            await self._gone.wait()

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._channel is not None:
            threading.Thread(target=self._channel.stop, name="terminal-anchor-stop", daemon=True).start()

    def _run(self) -> None:
        try:
            script = anchor_script(self._owner)
            channel, splitter = connect(lambda: self._open_channel(script), script, self._reach)
            while data := channel.read():
                for piece in splitter.feed(data):
                    if isinstance(piece, OutputMarker):
                        _tell(self._loop, self._on_marker, piece)
            channel.finish()
            _tell(self._loop, self._on_lost, ToolError(f"The connection to {self._reach.place} was lost."))
        except ToolError as error:
            _tell(self._loop, self._on_lost, error)
        except BaseException as error:
            _tell(
                self._loop,
                self._on_lost,
                ToolError(f"The connection to {self._reach.place} failed: {error}."),
            )
            raise

    def _open_channel(self, script: RemoteScript) -> Channel:
        channel = self._reach.anchor(script.command())
        self._channel = channel
        if self._is_given_up:
            channel.stop()
        return channel

    def _on_marker(self, marker: OutputMarker) -> None:
        if marker.kind == "a" and not self._site.done():
            self._site.set_result(RemoteSite(*os.fsdecode(marker.payload).split(":", 2)))
        elif marker.kind == "x":
            self._on_lost(
                ToolError(f"No folder can be made in /tmp of {self._reach.place}; free some space there.")
            )
        elif marker.kind == "d":
            number, _, answer = marker.payload.partition(b" ")
            waiting = self._waiting.get(int(number))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _on_lost(self, error: ToolError) -> None:
        if not self._site.done():
            self._site.set_exception(error)
        self._gone.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


_QUIET = 0.04
"""Seconds after a shell's end in which its channel closes, unless a descendant holds it open."""
_START = 30.0
"""Seconds a shell gets to start before what should be typed into it is refused."""
_KILLED = 137
_LOST = 255


class RemoteChild:
    """A `ShellChild` on another machine. The thread that `watch` starts opens the connection and reads it."""

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
        """The process id on the remote side; 0 until the shell has started there."""
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

    async def remaining_processes(self, *, thorough: bool) -> list[str]:
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
            # The remote side reports how the shell ended, if it still exists.
            await asyncio.wait({self._ending}, timeout=0.5)
        if self._channel is not None:
            await on_thread(self._channel.stop)

    def _run(self, sink: Sink) -> None:
        try:
            self._follow(sink)
        except BaseException as error:
            outcome = ShellEnding(_KILLED, False) if self._is_killed else error
            _tell(self._loop, self._end, outcome)
            if not isinstance(error, ToolError):
                raise

    def _follow(self, sink: Sink) -> None:
        channel, splitter = connect(self._open_channel, self._script, self._reach)
        try:
            told = False
            while data := channel.read():
                for piece in splitter.feed(data):
                    if isinstance(piece, OutputMarker):
                        told = self._on_marker(piece, channel) or told
                    elif not told:
                        sink(piece)
            if not told:
                sink(splitter.rest())
                self._broke_off(sink)
        finally:
            channel.finish()

    def _open_channel(self) -> Channel:
        channel = self._reach.call(self._script.command(), pty=self._launch.pty)
        self._channel = channel
        if self._is_killed:
            channel.stop()
        return channel

    def _on_marker(self, marker: OutputMarker, channel: Channel) -> bool:
        """Handle a marker; return whether it was the last one of the shell."""
        if marker.kind == "s":
            self._pid = int(marker.payload)
            _tell(self._loop, self._started, None)
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
            _tell(self._loop, self._end, ShellEnding(int(code), still_open))
            return True
        return False

    def _keep(self, folders: bytes) -> None:
        """Record on this machine that a shell has left a state, and in which folders it was."""
        new = self._launch.new_state
        if folders and new is not None and new.exists():
            folders_file(new).write_bytes(folders)
            new.write_bytes(b"\n# complete\n")

    def _broke_off(self, sink: Sink) -> None:
        if not self._is_killed:
            sink(f"\n[The connection to {self._reach.place} was lost before the command ended.]\n".encode())
        _tell(self._loop, self._end, ShellEnding(_KILLED if self._is_killed else _LOST, False))

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
        # Looked at here, so that asyncio does not report a failure nobody waits for any more.
        ending.exception()
        self._has_started.set()
        self._on_gone(self)


class RemoteBackend:
    """A `Backend` on another machine or in a container. Nothing is connected before `open`."""

    def __init__(self, reach: Connector) -> None:
        self._reach = reach
        self._owner = secrets.token_hex(6)
        self._lock = asyncio.Lock()
        self._anchor: RemoteHelper | None = None
        self._given_up: RemoteHelper | None = None
        """The last helper that was started and has not come up."""
        self._site: RemoteSite | None = None
        self._generation = 0
        self._children: set[RemoteChild] = set()

    @property
    def shell(self) -> Literal["bash", "sh"]:
        return "sh" if self._site is not None and not self._site.shell.endswith("/bash") else "bash"

    @property
    def place(self) -> str:
        """The name of the machine or container that messages show."""
        return self._reach.place

    async def open(self) -> int:
        async with self._lock:
            if self._anchor is None or not self._anchor.is_there:
                if self._given_up is not None:
                    # A helper that starts late must not be mistaken for the current one.
                    await self._given_up.over()
                anchor = RemoteHelper(self._reach, self._owner)
                self._given_up = anchor
                self._site = await anchor.open()
                self._anchor, self._given_up = anchor, None
                self._generation += 1
        return self._generation

    async def start(self, launch: Launch) -> RemoteChild:
        if self._anchor is None or self._site is None or not self._anchor.is_there:
            raise ToolError(f"The connection to {self.place} was lost; run the command again.")
        mark = f"{self._owner}.{launch.mark}."
        command = launch.command_file.read_text(encoding="utf-8")
        script = call_script(launch, command, folder=self._site.folder, shell=self._site.shell, mark=mark)
        child = RemoteChild(self._reach, self._anchor, script, launch, mark, self._children.discard)
        self._children.add(child)
        return child

    async def aclose(self) -> None:
        await asyncio.gather(*(child.kill() for child in list(self._children)))
        self._children.clear()
        if self._anchor is not None:
            await self._anchor.aclose()
            self._anchor = None
        await on_thread(self._reach.release)


def _tell(loop: asyncio.AbstractEventLoop, heard: Callable[..., None], what: object) -> None:
    try:
        loop.call_soon_threadsafe(heard, what)
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        pass
