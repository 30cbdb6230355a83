"""The server of one child: a private socket, a token, and a dispatcher for the script that runs now.

The child's first thread talks over a socket it was born with, further threads
over a named one in a folder of the owner's. Nothing a client sends can do more
than get an error back or be hung up on.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.code.call_dispatcher import CallDispatcher
from tools.code.connection import Connection
from tools.code.folder import SOCKET, PrivateFolder
from tools.code.rpc import RpcRequest
from tools.results import ToolError

CONNECTIONS = 512
"""Connections of one child at the same time."""

_INLET = 262_144


class ScriptServer:
    """Takes the calls of one child. `uid` is whose processes may connect."""

    def __init__(self, uid: int | None = None) -> None:
        self.token = secrets.token_hex(16)
        self.dispatcher: CallDispatcher | None = None
        self.on_event: Callable[[RpcRequest], None] = lambda _: None
        self.connections: set[Connection] = set()
        self.uid = os.getuid() if uid is None else uid
        self.inlet = memoryview(bytearray(_INLET))
        """Where all connections receive, one after the other: what came in is taken out at once."""
        self._private: PrivateFolder | None = None
        self._listener: asyncio.Server | None = None

    @property
    def folder(self) -> Path:
        """The private folder, once started."""
        assert self._private is not None
        return self._private.path

    @property
    def path(self) -> Path:
        return self.folder / SOCKET

    async def start(self) -> None:
        """Make the folder (0700) and listen in it. Raises `ToolError` when neither works."""
        loop = asyncio.get_running_loop()
        try:
            self._private = PrivateFolder()
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
        if self._private is not None:
            self._private.remove()

    def welcomes(self, connection: Connection, peer: socket.socket) -> bool:
        """Whether a client that has connected by name may stay."""
        if len(self.connections) >= CONNECTIONS:
            return False
        uid = peer_uid(peer)
        return uid is None or uid == self.uid


def peer_uid(peer: socket.socket) -> int | None:
    """The user at the other end of a Unix socket; None where the system does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", packed)[1]
    if sys.platform == "darwin":
        # struct xucred: version, uid, …; asked with level SOL_LOCAL, option LOCAL_PEERCRED.
        return struct.unpack("2I", peer.getsockopt(0, 1, 76)[:8])[1]
    return None
