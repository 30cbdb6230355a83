"""The anchor: one program that stays at the far side while Hermes lives.

It answers questions about processes and kills them, and when the connection ends, in whatever way, it
kills the rest and clears up. So a Hermes that dies leaves nothing behind anywhere.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tools.results import ToolError
from tools.terminal.backends.channel import Channel
from tools.terminal.backends.connector import Connector
from tools.terminal.backends.markers import MarkerSplitter, OutputMarker
from tools.terminal.backends.scripts import RemoteScript, anchor_script
from tools.terminal.threads import on_thread

_WORDS = 4_000
"""Bytes of a client's own words that are kept to explain a failure."""
_PATIENCE = 10.0
"""Seconds the far side gets to answer."""
_GOODBYE = 3.0
"""Seconds it gets to clear up."""


@dataclass(frozen=True, slots=True)
class RemoteSite:
    """What is known about the far side once somebody is there."""

    shell: str
    folder: str
    host: str


def connect(
    opener: Callable[[], Channel], script: RemoteScript, reach: Connector
) -> tuple[Channel, MarkerSplitter]:
    """Open a channel and hand the script over. Blocks. Raises `ToolError` that says why that failed."""
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
    """Use `open`. Requests may overlap."""

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
        """Start it and wait until it is there. Raises `ToolError`."""
        threading.Thread(target=self._run, name="terminal-anchor", daemon=True).start()
        try:
            return await self._site
        except BaseException:
            self._give_up()
            raise

    async def over(self) -> None:
        """Wait until nothing of it runs any more."""
        await self._gone.wait()

    async def ask(self, verb: str, mark: str, pid: int) -> bytes | None:
        """The answer to one request; None when the far side cannot be reached any more."""
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
        """Let it clear up, and break off when it does not."""
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
            channel, splitter = connect(lambda: self._opened(script), script, self._reach)
            while data := channel.read():
                for piece in splitter.feed(data):
                    if isinstance(piece, OutputMarker):
                        self._tell(self._heard, piece)
            channel.finish()
            self._tell(self._lost, ToolError(f"The connection to {self._reach.place} was lost."))
        except ToolError as error:
            self._tell(self._lost, error)
        except BaseException as error:
            self._tell(self._lost, ToolError(f"The connection to {self._reach.place} failed: {error}."))
            raise

    def _opened(self, script: RemoteScript) -> Channel:
        channel = self._reach.anchor(script.command())
        self._channel = channel
        if self._is_given_up:
            channel.stop()
        return channel

    def _tell(self, heard: Callable[..., None], what: object) -> None:
        try:
            self._loop.call_soon_threadsafe(heard, what)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass

    def _heard(self, marker: OutputMarker) -> None:
        if marker.kind == "a" and not self._site.done():
            self._site.set_result(RemoteSite(*os.fsdecode(marker.payload).split(":", 2)))
        elif marker.kind == "x":
            self._lost(
                ToolError(f"No folder can be made in /tmp of {self._reach.place}; free some space there.")
            )
        elif marker.kind == "d":
            number, _, answer = marker.payload.partition(b" ")
            waiting = self._waiting.get(int(number))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _lost(self, error: ToolError) -> None:
        if not self._site.done():
            self._site.set_exception(error)
        self._gone.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
