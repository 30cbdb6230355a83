"""What gets through a filtered network, with nothing but the standard library."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time

from agent.core.home import Home
from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary
from agent.safety.sandbox.filtered import FilteredNetwork
from tests.agent.core.net.doors import TestNetwork, read_all, server
from tests.agent.safety.sandbox.cell import Cell
from tools.services.sandbox import Need

LISTED = "packages.example.org"
_SERVE = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
_SERVE += "while True: c, _ = s.accept(); c.sendall(b'side'); c.close()"


def hello(connection: socket.socket) -> None:
    """Answer one request."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes")


async def listed(host: str, port: int) -> str | None:
    """Lets one host through."""
    return None if host == LISTED else "is not on the list of hosts"


def filter_around(cell: Cell, filtered: FilteredNetwork) -> SessionBoundary:
    """A boundary around the workspace of `cell` with that network."""
    return SessionBoundary(
        cell.sandbox,
        BoundaryFolders(cell.workspace, cell.private, Home(cell.user / ".hermes")),
        network="filtered",
        environ={"HOME": str(cell.user)},
        filtered=filtered,
    )


def gets_through(cell: Cell) -> list[str]:
    """A listed host, another one, a server from the next command, and the same from outside."""
    with server(hello) as port:
        filtered = FilteredNetwork(
            shutil.which("bwrap") or "", network=TestNetwork({LISTED: ["93.184.216.34"]}, port)
        )
        filtered.decide = listed
        cell.boundary = filter_around(cell, filtered)
        try:
            return [
                _said(cell, f"curl -sS -m 20 -w '%{{http_code}}' http://{LISTED}/"),
                "no" + _said(cell, "curl -sS -m 20 -o /dev/null -w '%{http_code}' http://example.net/"),
                *_servers(cell),
            ]
        finally:
            filtered.close()


def _said(cell: Cell, line: str) -> str:
    return cell.run(["/bin/sh", "-c", line]).output


def _servers(cell: Cell) -> list[str]:
    wrapped = cell.boundary.wrap(["python3", "-c", _SERVE], Need(dies_with_parent=True))
    child = subprocess.Popen(wrapped.argv, cwd=cell.workspace, stdout=subprocess.PIPE, pass_fds=wrapped.fds)
    try:
        wrapped.started()
        assert child.stdout is not None
        port = int(child.stdout.readline())
        read = (
            f"import socket; print('in' + socket.create_connection(('127.0.0.1', {port})).recv(9).decode())"
        )
        inside = _said(cell, f'python3 -c "{read}"').strip()
        until = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                    return [inside, "out" + read_all(client).decode()]
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    return [inside, "nobody listens outside"]
                time.sleep(0.05)
    finally:
        child.kill()
        child.communicate()
        wrapped.ended()
