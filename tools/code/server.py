"""The server of one child: a private socket, a token, and a desk for the script that runs now.

The child's first thread talks over a socket it was born with, further threads
over a named one in a folder of the owner's. Nothing a client sends can do more
than get an error back or be hung up on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.code.desk import Desk
from tools.code.rpc import LINE_LIMIT, BadRequestError, Request, error_text, parse_request, reply
from tools.results import ToolError

log = logging.getLogger(__name__)

CONNECTIONS = 512
"""Connections of one child at the same time."""

_PATIENCE_WITH_NONSENSE = 20
"""Requests that are none, after which a connection is closed."""
_MUCH = 256_000
"""Bytes of a request above which it is read off the event loop."""
_SEND_BUFFER = 4_000_000
"""Bytes asked for on the way to a client."""
_PATH_LIMIT = 100
"""Bytes of a socket's path that every system takes."""


class Server:
    """Takes the calls of one child. `uid` is whose processes may connect."""

    def __init__(self, uid: int | None = None) -> None:
        self.token = secrets.token_hex(16)
        self.desk: Desk | None = None
        self.on_event: Callable[[Request], None] = lambda _: None
        self.connections: set[Connection] = set()
        self.uid = os.getuid() if uid is None else uid
        self.folder = Path()
        self._listener: asyncio.Server | None = None

    @property
    def path(self) -> Path:
        return self.folder / "rpc.sock"

    async def start(self) -> None:
        """Make the folder (0700) and listen in it. Raises `ToolError` when neither works."""
        loop = asyncio.get_running_loop()
        try:
            self.folder = _private_folder()
            self._listener = await loop.create_unix_server(lambda: Connection(self), str(self.path))
            self.path.chmod(0o600)
        except OSError as error:
            self.close()
            raise ToolError(
                f"The socket for scripts could not be made in {tempfile.gettempdir()}: "
                f"{error.strerror or error}. Set TMPDIR to a folder that can be written."
            ) from error

    async def adopt(self, link: socket.socket) -> Connection:
        """Serve an already connected socket."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self, is_born=True), sock=link)
        return connection

    def close(self) -> None:
        """Hang up on everybody and clear up."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.hang_up()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)

    def welcomes(self, connection: Connection, peer: socket.socket) -> bool:
        """Whether a client that has connected by name may stay."""
        if len(self.connections) >= CONNECTIONS:
            return False
        uid = peer_uid(peer)
        return uid is None or uid == self.uid


class Connection(asyncio.Protocol):
    """One client: a thread of the script. Its calls are served one after the other."""

    def __init__(self, server: Server, *, is_born: bool = False) -> None:
        self._server = server
        self._is_born = is_born
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._nonsense = 0
        self._task: asyncio.Task[None] | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._is_born and not self._server.welcomes(self, transport.get_extra_info("socket")):
            transport.abort()
            return
        # A large result then takes few turns of the event loop; the system takes what it allows.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._transport = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()
        self._hold_back()

    def send(self, *pieces: bytes) -> None:
        """Write to the client, if it is still there."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        """Start on the next request that has come in whole."""
        while self._task is None and self._transport is not None and not self._transport.is_closing():
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > LINE_LIMIT:
                    self._refuse(f"A request may have {LINE_LIMIT:,} bytes at most.", None, is_last=True)
                return
            line = self._buffer[:end]
            del self._buffer[: end + 1]
            self._searched = 0
            if len(line) > LINE_LIMIT:
                self._refuse(f"A request may have {LINE_LIMIT:,} bytes at most.", None)
            else:
                self._task = asyncio.get_running_loop().create_task(self._answer(line))
                self._task.add_done_callback(self._answered)

    async def _answer(self, line: bytearray) -> None:
        try:
            if len(line) > _MUCH:
                request = await asyncio.to_thread(parse_request, line, self._server.token)
            else:
                request = parse_request(line, self._server.token)
        except BadRequestError as error:
            self._refuse(str(error), error.number)
            return
        if request.event:
            self._server.on_event(request)
            return
        desk = self._server.desk
        try:
            result = error_text("No script is running.")
            if desk is not None:
                result = await desk.call(request.tool, request.arguments)
        except asyncio.CancelledError:
            self.send(*reply(request.number, error_text("Interrupted before this call ended.")))
            raise
        self.send(*reply(request.number, result))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request of a script could not be answered", exc_info=error)
            self.hang_up()
        if self._buffer:
            self._next()
        self._hold_back()

    def _refuse(self, message: str, number: int | None, *, is_last: bool = False) -> None:
        self._nonsense += 1
        self.send(*reply(number, error_text(message)))
        if (is_last or self._nonsense >= _PATIENCE_WITH_NONSENSE) and self._transport is not None:
            self._transport.close()

    def _hold_back(self) -> None:
        """Stop reading from a client that sends ahead, so that what waits here stays bounded."""
        if self._transport is None or self._transport.is_closing():
            return
        wants_pause = self._task is not None and len(self._buffer) > _MUCH
        if wants_pause != self._is_paused:
            self._is_paused = wants_pause
            if wants_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()


def peer_uid(peer: socket.socket) -> int | None:
    """The user at the other end of a Unix socket; None where the system does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", packed)[1]
    if sys.platform == "darwin":
        # struct xucred: version, uid, …; asked with level SOL_LOCAL, option LOCAL_PEERCRED.
        return struct.unpack("2I", peer.getsockopt(0, 1, 76)[:8])[1]
    return None


def _private_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hermes-code-"))
    if len(os.fsencode(folder)) < _PATH_LIMIT - len("/rpc.sock"):
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="hermes-code-", dir="/tmp"))
