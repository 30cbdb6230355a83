"""The process of one server: it answers requests from Hermes on a socket until the socket is closed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import socket
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from agent.integrations.mcp.launch import ServerLaunch, pack_frame, read_frame
from tools.kit.children import FrameError

_TURNS = 5
"""The maximum number of event loop turns in which the MCP SDK delivers what came before an answer."""


def main() -> None:
    """Serve the socket whose file descriptor is given as an argument."""
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    with socket.socket(fileno=int(sys.argv[-1])) as connection:
        asyncio.run(_serve(connection))


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection.dup())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reader.feed_eof)
    host = _Host(writer)
    try:
        while not host.closing and (frame := await read_frame(reader)) is not None:
            host.handle(frame)
    except FrameError:
        pass
    await host.aclose()
    try:
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()


class _Host:
    """The handler of the requests in frames, which run in parallel."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.closing = False
        self._writer = writer
        self._connection: Any = None
        self._launch: ServerLaunch | None = None
        self._renewing = asyncio.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    def handle(self, frame: Mapping[str, Any]) -> None:
        """Process one frame: a call, a cancellation, an answer, or the request to close."""
        if "call" in frame:
            number = frame["call"]
            task = asyncio.create_task(self._carry_out(number, frame["method"], frame["arguments"]))
            self._tasks[number] = task
            task.add_done_callback(lambda _done: self._tasks.pop(number, None))
        elif "cancel" in frame:
            if (task := self._tasks.get(frame["cancel"])) is not None:
                task.cancel()
        elif "answer" in frame:
            future = self._asked.get(frame["answer"])
            if future is not None and not future.done():
                future.set_result(frame)
        elif "close" in frame:
            self.closing = True

    async def aclose(self) -> None:
        """Cancel all running calls and disconnect from the server."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def _carry_out(self, number: int, method: str, arguments: Mapping[str, Any]) -> None:
        from agent.integrations.mcp.host.results import CallFaultError, as_call_fault

        try:
            value = await self._call(number, method, arguments)
        except asyncio.CancelledError:
            self._send({"reply": number, "error": {"text": "it was cancelled"}})
            return
        except CallFaultError as fault:
            self._send({"reply": number, "error": fault.to_json()})
            return
        except Exception as error:
            self._send({"reply": number, "error": as_call_fault(error).to_json()})
            return
        # What the server told before it answered is handed on before its answer.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        try:
            self._send({"reply": number, "value": value})
        except FrameError as error:
            self._send({"reply": number, "error": {"text": str(error)}})

    async def _call(self, number: int, method: str, arguments: Mapping[str, Any]) -> Any:
        from agent.integrations.mcp.host.connection import ServerConnection
        from agent.integrations.mcp.host.results import CallFaultError

        if method in ("ping", "warm_up"):
            return {}
        if method == "open":
            self._launch = ServerLaunch.from_json(arguments)
            self._connection = ServerConnection(self._launch, self._tell, self._ask)
            return await self._connection.open()
        before = self._connection
        try:
            return await self._call_connection(before, number, method, arguments)
        except CallFaultError as fault:
            if not fault.forgotten:
                raise
        await self._begin_anew(before)
        return await self._call_connection(self._connection, number, method, arguments)

    async def _call_connection(
        self, connection: Any, number: int, method: str, arguments: Mapping[str, Any]
    ) -> Any:
        if method == "call_tool":
            return await connection.call_tool(number, **arguments)
        return await getattr(connection, method)(**arguments)

    async def _begin_anew(self, before: Any) -> None:
        """Open a new protocol session, because the server has forgotten the old one.

        If several calls find this out, only one does it.
        """
        from agent.integrations.mcp.host.connection import ServerConnection

        async with self._renewing:
            if self._connection is not before:
                return
            assert self._launch is not None
            fresh = ServerConnection(self._launch, self._tell, self._ask)
            try:
                await fresh.open()
                await fresh.list()
            except BaseException:
                await fresh.close()
                raise
            self._connection = fresh
        await before.close()
        self._tell("changed", {})

    def _tell(self, event: str, fields: dict[str, Any]) -> None:
        self._send({"event": event, **fields})

    async def _ask(self, kind: str, params: Any) -> Any:
        from agent.integrations.mcp.host.results import CallFaultError

        number = next(self._numbers)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ask": number, "kind": kind, "params": params})
            frame = await future
        finally:
            del self._asked[number]
        if "error" in frame:
            raise CallFaultError(str(frame["error"]))
        return frame["value"]

    def _send(self, frame: Mapping[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(pack_frame(frame))
