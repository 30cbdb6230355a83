"""The process of an engine and the socket to it: calls that wait for their replies, frames that come in."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.api.frames import read_frame
from agent.api.wire import WireError, decode_error, encode, pack
from agent.errors import HermesError
from tools.kit.children import start_module

PATIENCE = 20.0
"""Seconds that an engine may take to close its session before it is ended."""
TURN = 0.002
"""Seconds of frames taken in a row before the event loop gets its turn."""

log = logging.getLogger(__name__)


class Link:
    """A child process with an engine. `hear` gets every frame that is no reply, in order."""

    def __init__(self, hear: Callable[[Mapping[str, Any]], None], ended: Callable[[str], None]) -> None:
        """`ended` is called once if the process goes without being asked to, with how it went."""
        self._hear = hear
        self._ended = ended
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closing = False
        self.dead = ""
        """How the process ended; empty while it works."""

    @property
    def pid(self) -> int:
        """The number of the process; 0 before there is one."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start the process. Raises `HermesError`."""
        try:
            self._process, reader, self._writer = await start_module("agent.api.child")
        except OSError as error:
            raise HermesError(f"The engine cannot be started: {error.strerror}.") from error
        self._reading = asyncio.create_task(self._read(reader), name="engine")

    async def connect(self, path: Path) -> None:
        """Speak to an engine of the service over its socket instead. Raises `HermesError`."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(str(path))
        except OSError as error:
            raise HermesError(
                "No service runs in this home: start one with `hermes serve`, then attach."
            ) from error
        self._reading = asyncio.create_task(self._read(reader), name="service")

    def cast(self, method: str, *arguments: Any) -> None:
        """Send a command that nobody answers. Raises `HermesError` when the engine is gone."""
        self._send({"cast": method, "arguments": encode(arguments)})

    async def call(self, port: str, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Ask the engine for something; the value as it was encoded. Raises `HermesError`."""
        frame = {
            "port": port,
            "method": method,
            "arguments": encode(arguments),
            "named": encode(dict(named)),
        }
        return await self.ask(lambda number: {"call": number, **frame})

    async def ask(self, frame: Callable[[int], Mapping[str, Any]]) -> Any:
        """Send a frame with a number of its own and wait for the reply to it. Raises `HermesError`."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(frame(number))
            reply = await future
        except asyncio.CancelledError:
            if not self.dead:
                self._send({"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)
        if (error := reply.get("error")) is not None:
            raise decode_error(error)
        return reply["value"]

    async def close(self) -> None:
        """Let the engine close its session, and wait until its process has ended. Raises `HermesError`."""
        self._closing = True
        if self._reading is None:
            return
        if not self.dead:
            self._send({"close": True})
        if self._process is None:
            await self._let_go(self._reading)
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(self._reading)
                await self._process.wait()
        except TimeoutError:
            log.warning("the engine did not end in %.0f s and was stopped", PATIENCE)
            self._process.kill()
            await self._process.wait()
            await self._reading
        if self._writer is not None:
            self._writer.close()

    async def _let_go(self, reading: asyncio.Task[None]) -> None:
        """Wait until the service has heard that this head leaves; its session goes on."""
        await asyncio.wait([reading], timeout=PATIENCE)
        reading.cancel()
        if self._writer is not None:
            self._writer.close()

    def _send(self, frame: Mapping[str, Any]) -> None:
        if self.dead or self._writer is None:
            raise HermesError(self.dead or "The engine is not there yet.")
        self._writer.write(pack(frame))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            await self._take(reader)
        except OSError:
            log.info("the connection to the engine broke off", exc_info=True)
        except WireError:
            log.exception("the engine sent what cannot be read")
        self.dead = await self._end()
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"error": {"kind": "", "text": self.dead, "data": {}}})
        if not self._closing:
            self._ended(self.dead)

    async def _end(self) -> str:
        """How the other side ended, in a sentence."""
        if self._process is None:
            return "The service has ended, or let this terminal go."
        if not self._closing and self._process.returncode is None:
            # Whatever holds it, nobody can talk to it any more.
            self._process.kill()
        code = await self._process.wait()
        return f"The engine of this session {_how(code)}."

    async def _take(self, reader: asyncio.StreamReader) -> None:
        until = time.monotonic() + TURN
        while (frame := await read_frame(reader)) is not None:
            if (level := frame.get("log")) is not None:
                logging.getLogger(str(level[1])).log(int(level[0]), "%s", level[2])
                continue
            self._hear(frame)
            if (number := frame.get("reply")) is not None:
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    future.set_result(frame)
                # Whoever waits goes on before the events that come after.
                await asyncio.sleep(0)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + TURN


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended unexpectedly (exit code {code})"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
