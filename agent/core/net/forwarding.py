"""Ports of a closed network on the loopback of this machine, and the other way round.

Servers that commands start are reached by the person's browser under the same number; a service of the
person's is reached by commands where the settings name it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from agent.core.net.listening import ListeningPort, listeners
from agent.core.net.relay import both_ways, readable
from agent.core.net.socket_tasks import SocketTasks

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two looks. What is seen twice is forwarded: most ports of tests are gone by then."""


class InnerSockets(Protocol):
    """Sockets that belong to the closed network."""

    def take(self, *, v6: bool) -> socket.socket:
        """One that is not connected. Blocks. Raises `OSError`."""
        ...


class PortForwarder:
    """Forwards what is listened on inside while `is_wanted`. For one loop; `run` it there."""

    def __init__(
        self,
        watch: socket.socket,
        inner: InnerSockets,
        is_wanted: Callable[[], bool],
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self._watch = watch
        self._inner = inner
        self._is_wanted = is_wanted
        self._hidden = hidden
        self._seen: frozenset[ListeningPort] = frozenset()
        self._open: dict[ListeningPort, list[asyncio.Task[None]]] = {}
        self._relays = SocketTasks()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look again: a command has started."""
        self._wake.set()

    async def run(self) -> None:
        """Look and forward until it is cancelled."""
        self._watch.settimeout(EVERY)
        try:
            while True:
                if not self._is_wanted():
                    self._follow(frozenset())
                    self._wake.clear()
                    await self._wake.wait()
                try:
                    found = listeners(self._watch)
                except OSError as error:
                    log.warning("servers of commands are not reached from outside: %s", error)
                    return
                found = frozenset(each for each in found if each.port not in self._hidden)
                self._follow(found & self._seen)
                self._seen = found
                await asyncio.sleep(EVERY)
        finally:
            self._watch.close()
            self._follow(frozenset())
            self._relays.cancel()

    def _follow(self, wanted: frozenset[ListeningPort]) -> None:
        for each in self._open.keys() - wanted:
            for task in self._open.pop(each):
                task.cancel()
        for each in wanted - self._open.keys():
            self._open[each] = [
                self._relays.start(self._accept(outside, each), outside) for outside in _outside(each.port)
            ]

    async def _accept(self, outside: socket.socket, target: ListeningPort) -> None:
        await accepting(outside, lambda client: self._relays.start(self._relay(client, target), client))

    async def _relay(self, client: socket.socket, target: ListeningPort) -> None:
        loop = asyncio.get_running_loop()
        with client, suppress(OSError):
            inside = await asyncio.to_thread(self._inner.take, v6=target.is_v6)
            with inside:
                inside.setblocking(False)
                host = "::1" if target.is_v6 else "127.0.0.1"
                await loop.sock_connect(inside, (host, target.port))
                await both_ways(client, inside)


async def offer(listener: socket.socket, port: int) -> None:
    """Pass connections that `listener` takes inside on to `port` of this machine, until it is cancelled."""
    relays = SocketTasks()

    async def relay(client: socket.socket) -> None:
        with client, suppress(OSError), socket.socket() as service:
            service.setblocking(False)
            await asyncio.get_running_loop().sock_connect(service, ("127.0.0.1", port))
            await both_ways(client, service)

    try:
        await accepting(listener, lambda client: relays.start(relay(client), client))
    finally:
        relays.cancel()


async def accepting(listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
    """Hand every connection to `take` until it is cancelled; closes the listener then.

    A connection is handed on in the step in which it is taken: one that came as the result of something
    awaited would be nobody's if this was cancelled at that moment.
    """
    with listener:
        while True:
            try:
                await readable(listener)
                client, _ = listener.accept()
            except BlockingIOError:
                # It went away before it was taken.
                continue
            except OSError as error:
                # Out of descriptors, or the client is gone already: the next one may be served.
                log.debug("a connection could not be taken: %s", error)
                await asyncio.sleep(0.05)
                continue
            client.setblocking(False)
            take(client)


def _outside(port: int) -> list[socket.socket]:
    """Listeners on the loopback of this machine; none where somebody else has the port."""
    found: list[socket.socket] = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with suppress(OSError):
            listener = socket.create_server((host, port), family=family, backlog=64)
            listener.setblocking(False)
            found.append(listener)
        if not found:
            # The port of one version alone would be that of another program for some clients.
            break
    return found
