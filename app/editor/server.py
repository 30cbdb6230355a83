"""The server for one editor: pipes, signals, and the end when the editor has gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any, cast

from acp.agent.connection import AgentSideConnection

from agent.errors import ConfigError
from app.editor.editor_agent import EditorAgent

log = logging.getLogger(__name__)

LONGEST = 64 * 1024 * 1024
"""The largest number of bytes in one message."""
UNROUTED = frozenset({"session/delete"})
"""Methods of the protocol that its package does not route yet; they are handled as extensions."""
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


class LineTransport:
    """The transport of a connection, with the methods that the protocol's package needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._gone = asyncio.get_running_loop().create_future()
        self.answered: Callable[[Any], None] | None = None
        """Called with the result in each response that was sent."""

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message. Raises `ConnectionError` if the editor has gone."""
        # Escaped throughout: some characters beyond ASCII end lines elsewhere.
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._turn:
            if self._gone.done():
                raise ConnectionError("The editor has gone.")
            try:
                self._writer.write(line)
                await self._writer.drain()
            except OSError as error:
                self.leave()
                raise ConnectionError("The editor has gone.") from error
        if self.answered is not None and "result" in message:
            self.answered(message["result"])

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the editor has gone or `leave` was called."""
        while True:
            line = await self._line()
            if line is None:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "A line is not JSON.")
                continue
            if isinstance(message, dict):
                if message.get("method") in UNROUTED:
                    message["method"] = f"_{message['method']}"
                return message
            await self._refuse(_INVALID_REQUEST, "A message is not an object.")

    def leave(self) -> None:
        """End reading, so that `receive` returns None."""
        if not self._gone.done():
            self._gone.set_result(None)

    async def close(self) -> None:
        """End reading and writing."""
        self.leave()
        self._writer.close()

    async def _line(self) -> bytes | None:
        """Return the next complete line; None at the end of input, or if it is longer than `LONGEST`."""
        reading = asyncio.ensure_future(self._reader.readuntil(b"\n"))
        await asyncio.wait((reading, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return None
        try:
            return reading.result()
        except asyncio.LimitOverrunError:
            log.warning("a message of the editor is longer than %s bytes", LONGEST)
            return None
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def _refuse(self, code: int, sentence: str) -> None:
        log.warning("from the editor: %s", sentence)
        try:
            await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": sentence}})
        except ConnectionError:
            return


async def over_pipes(incoming: int, outgoing: int) -> LineTransport:
    """Return a transport over two open pipes or sockets. Raises `ValueError` for other files."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(outgoing, "wb", buffering=0)
    )
    return LineTransport(reader, asyncio.StreamWriter(transport, protocol, None, loop))


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def serve(model: str | None) -> None:
    """Serve until the editor has gone or a signal arrives, then close every session. Raises `ConfigError`."""
    transport = await _take_pipes()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, transport.leave)
    agent = EditorAgent(model)
    transport.answered = agent.note_result
    connection = AgentSideConnection(
        cast("Any", agent), transport, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await agent.close()
        with contextlib.suppress(ConnectionError):
            await connection.close()


async def _take_pipes() -> LineTransport:
    """Return a transport over stdin and stdout; later prints go to stderr. Raises `ConfigError`."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    try:
        if stat.S_ISCHR(os.fstat(incoming).st_mode) and not os.isatty(incoming):
            raise ValueError("the event loop cannot wait for devices such as /dev/null")
        return await over_pipes(incoming, outgoing)
    except ValueError:
        raise ConfigError(
            "`hermes acp` speaks over pipes or sockets, and stdin or stdout is not one; see docs/acp.md."
        ) from None
