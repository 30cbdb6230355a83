"""The engine in a separate process: one session, served over a socket inherited at the start.

Frames from the surface: `open` (once), `cast` (a command without a reply), `call` (a command with a reply),
`cancel`, `answer` (to a pending request), `close`. Frames from the engine: `event`, `reply`, `preview`,
`log`, `closed`; each may carry `view`, the changed values of the properties that surfaces read without a
request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.api.remote import CALLS, CASTS, VIEW, Outlet, WireError, decode, encode, encode_error, read_frame
from agent.errors import HermesError
from agent.events import Event

if TYPE_CHECKING:
    from agent.api.session import SessionClient

log = logging.getLogger(__name__)


def main() -> None:
    """Serve the socket with the descriptor in the last argument until the surface closes it."""
    # The surface owns the terminal, and tells us when to stop.
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[-1])) as connection:
        asyncio.run(_serve(connection))


async def _serve(connection: socket.socket) -> None:
    outlet = Outlet(connection.dup())
    logging.basicConfig(handlers=[_Forwarding(outlet)], level=logging.INFO, force=True)
    reader, writer = await asyncio.open_connection(sock=connection.dup())
    server = EngineServer(outlet)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reader.feed_eof)
    try:
        await server.serve(reader)
    except WireError:
        log.exception("the surface sent what cannot be read")
    await server.aclose()
    outlet.finish()
    writer.close()


class _Forwarding(logging.Handler):
    """Sends log records to the surface, because only one process may rotate the log files."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        frame = {"log": [record.levelno, record.name, self.format(record)]}
        # Threads log too, but only the loop may use the outlet.
        self._loop.call_soon_threadsafe(self._outlet.send, frame)


class EngineServer:
    """Carries out the requests of a surface in order."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._client: SessionClient | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._told: dict[str, Any] = {}
        """The values of `VIEW` as they were last sent."""
        self._live: Sequence[Any] | None = None
        self._ids: list[int] = []
        """The ids of the nodes as last sent, and the path of the session they are from."""
        self.closing = False

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Handle frames until the surface closes the session or the connection. Raises `WireError`."""
        while not self.closing and (frame := await read_frame(reader)) is not None:
            self.handle(frame)
            # A call begins before the next frame is handled, which may stop it.
            await asyncio.sleep(0)

    def handle(self, frame: Mapping[str, Any]) -> None:
        """Start the work that a frame requests. Raises `WireError` for an invalid frame."""
        match frame:
            case {"open": options, "environ": environ, "preview": preview}:
                self._begin(0, self._open(decode(options), environ, bool(preview)))
            case {"call": int(number), "port": str(port), "method": str(method)} if (
                method in CALLS.get(port, "").split()
            ):
                self._begin(number, self._call(port, method, frame))
            case {"cast": str(method), "arguments": arguments} if method in CASTS:
                getattr(self._need(), method)(*decode(arguments))
                self._tell({})
            case {"cancel": int(number)}:
                if (task := self._tasks.get(number)) is not None:
                    task.cancel()
            case {"close": _}:
                self.closing = True
            case _:
                raise WireError(f"A frame means nothing: {', '.join(frame)}")

    async def aclose(self) -> None:
        """Stop all work, close the session and send `closed`."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        told: dict[str, Any] = {"closed": True}
        if self._client is not None:
            try:
                await self._client.aclose()
            except HermesError as error:
                told["error"] = encode_error(error)
        self._tell(told)

    def _need(self) -> SessionClient:
        if self._client is None:
            raise WireError("No session is open.")
        return self._client

    def _begin(self, number: int, work: Any) -> None:
        task = self._tasks[number] = asyncio.create_task(self._reply(number, work))
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _reply(self, number: int, work: Any) -> None:
        try:
            frame = {"reply": number, "value": encode(await work)}
        except HermesError as error:
            frame = {"reply": number, "error": encode_error(error)}
        except Exception as error:
            log.exception("a call failed")
            words = f"The engine could not do this: {type(error).__name__}: {error}"
            frame = {"reply": number, "error": encode_error(HermesError(words))}
        self._tell(frame)

    async def _open(self, options: Any, environ: dict[str, str] | None, preview: bool) -> dict[str, str]:
        from agent.api.opening import open_here

        if preview:
            options = replace(options, preview=self._preview)
        chosen = os.environ if environ is None else environ
        self._client = await open_here(options, self._hear, environ=chosen)
        return {"id": self._client.id, "workspace": str(self._client.workspace)}

    async def _call(self, port: str, method: str, frame: Mapping[str, Any]) -> Any:
        client = self._need()
        there = getattr(client, port) if port else client
        return await getattr(there, method)(*decode(frame["arguments"]), **decode(frame["named"]))

    def _preview(self, nodes: Sequence[Any]) -> None:
        self._outlet.send({"preview": encode(list(nodes))})

    def _hear(self, event: Event) -> None:
        self._tell({"event": encode(event)})
        if event.type == "turn_ended" and event.agent == "main":
            task = asyncio.create_task(self._report_idle())
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)

    async def _report_idle(self) -> None:
        """Send the changed values when no turn is running, because no further event would carry them."""
        await self._need().idle()
        self._tell({})

    def _tell(self, frame: dict[str, Any]) -> None:
        """Send a frame together with changed values for `VIEW`; send nothing if both are empty."""
        if self._client is not None and (view := self._changed_values(self._client)):
            frame["view"] = view
        if frame:
            self._outlet.send(frame)

    def _changed_values(self, client: SessionClient) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name in VIEW:
            value = getattr(client, name)
            if name not in self._told or self._told[name] != value:
                self._told[name] = value
                changed[name] = encode(value)
        if path := self._changed_path(client.path):
            changed["path"] = path
        return changed

    def _changed_path(self, path: Sequence[Any]) -> list[Any]:
        """Return the number of unchanged nodes at the beginning, and the nodes after them.

        Returns an empty list if nothing has changed.
        """
        kept = len(self._ids)
        if path is not self._live or len(path) < kept:
            self._live = path
            pairs = enumerate(zip(path, self._ids, strict=False))
            kept = next((at for at, (new, old) in pairs if new.id != old), min(len(path), kept))
        if kept == len(path) == len(self._ids):
            return []
        fresh = path[kept:]
        self._ids[kept:] = [node.id for node in fresh]
        return [kept, [encode(node) for node in fresh]]
