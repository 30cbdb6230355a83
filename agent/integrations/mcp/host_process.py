"""The process that speaks to one server: started, asked and ended over a socket."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from agent.integrations.mcp.frames import packed, read_frame
from tools.kit.children import FrameError, start_module

PATIENCE = 5.0
"""Seconds the process may take to let go of its server."""

log = logging.getLogger(__name__)

Hear = Callable[[str, Mapping[str, Any]], None]
Answer = Callable[[str, Any], Awaitable[Any]]


class RefusedError(Exception):
    """What a server asked for is refused; the text says why."""


class HostError(Exception):
    """A request failed. `about` is what the process said of it: text, gone, sign_in."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__(str(about.get("text", "it failed")))
        self.gone = bool(about.get("gone"))
        self.sign_in = bool(about.get("sign_in"))


class HostProcess:
    """One process for one server. `hear` takes its events, `answer` what the server asks for."""

    def __init__(self, hear: Hear, answer: Answer) -> None:
        self._hear = hear
        self._answer = answer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._progress: dict[int, Callable[[str], None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.dead = False

    async def start(self, environ: Mapping[str, str]) -> None:
        """Start the process, which inherits `environ` and nothing else. Raises `OSError`."""
        self._process, reader, self._writer = await start_module("agent.integrations.mcp.host.main", environ)
        self._reading = asyncio.create_task(self._read(reader), name="mcp")

    async def request(
        self, method: str, arguments: Mapping[str, Any], progress: Callable[[str], None] | None = None
    ) -> Any:
        """Ask for something and wait. When cancelled, the server is told. Raises `HostError`."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        if progress is not None:
            self._progress[number] = progress
        try:
            self._send({"call": number, "method": method, "arguments": dict(arguments)})
            reply = await future
        except asyncio.CancelledError:
            with suppress(HostError):
                self._send({"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        if "error" in reply:
            raise HostError(reply["error"])
        return reply["value"]

    async def close(self, patience: float = PATIENCE) -> None:
        """End the server and the process."""
        if self._process is None or self._reading is None:
            return
        with suppress(HostError):
            self._send({"close": True})
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        self._reading.cancel()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(self._reading, *self._answering, return_exceptions=True)
        self._end("it was stopped")
        if self._writer is not None:
            self._writer.close()

    def _send(self, frame: Mapping[str, Any]) -> None:
        if self.dead or self._writer is None:
            raise HostError({"text": "its process has ended", "gone": True})
        try:
            self._writer.write(packed(frame))
        except FrameError as error:
            raise HostError({"text": str(error)}) from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await read_frame(reader)) is not None:
                self._take(frame)
        except FrameError as error:
            log.warning("the process of a server sent what cannot be read: %s", error)
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.kill()
        self._end("its process has ended")

    def _take(self, frame: Mapping[str, Any]) -> None:
        if "reply" in frame:
            future = self._waiting.get(frame["reply"])
            if future is not None and not future.done():
                future.set_result(frame)
        elif "ask" in frame:
            task = asyncio.create_task(self._answered(frame))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif frame.get("event") == "progress":
            if (progress := self._progress.get(frame["call"])) is not None:
                progress(str(frame["text"]))
        elif "event" in frame:
            self._hear(frame["event"], frame)

    async def _answered(self, frame: Mapping[str, Any]) -> None:
        number = frame["ask"]
        try:
            reply: dict[str, Any] = {
                "answer": number,
                "value": await self._answer(frame["kind"], frame["params"]),
            }
        except RefusedError as error:
            reply = {"answer": number, "error": str(error)}
        except Exception as error:
            log.exception("a question of a server could not be answered")
            reply = {"answer": number, "error": f"this failed: {type(error).__name__}"}
        with suppress(HostError):
            self._send(reply)

    def _end(self, reason: str) -> None:
        self.dead = True
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"error": {"text": reason, "gone": True}})
