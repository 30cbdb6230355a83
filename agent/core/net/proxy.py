"""The egress proxy: the only connection from an isolated network to permitted hosts.

It is an HTTP/1.1 forward proxy with its own event loop and thread. It accepts requests with an absolute
address and tunnels (CONNECT), asks whether the host may be reached, resolves the name itself, and connects to
an address it has checked. Unencrypted data is searched for known secrets; encrypted data cannot be read, but
must request the permitted host.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent.core.net.exchange import (
    Decide,
    ExchangeRules,
    Lifts,
    Network,
    ProxyExchange,
    ProxyRefusal,
    SocketTasks,
    SystemNetwork,
    relay_both_ways,
    wait_readable,
)
from agent.core.net.listening import listening
from agent.core.net.secret_scan import SecretScan


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A port on which a program listens. `is_v6` is True if it can be reached only over IPv6."""

    port: int
    is_v6: bool = False


def listeners(watch: socket.socket) -> frozenset[ListeningPort]:
    """Return the ports reachable over loopback in the network of `watch`, a `NETLINK_SOCK_DIAG` socket.

    If a port has listeners for both IPv4 and IPv6, only the one for IPv4 is returned. Raises `OSError`.
    """
    found = [each for family in (socket.AF_INET, socket.AF_INET6) for each in _of_family(watch, family)]
    plain = {each.port for each in found if not each.is_v6}
    return frozenset(each for each in found if not each.is_v6 or each.port not in plain)


def _of_family(watch: socket.socket, family: int) -> Iterator[ListeningPort]:
    for each in listening(watch, family):
        if (reached := _loopback_needs_ipv6(family, each.address)) is not None:
            yield ListeningPort(each.port, reached)


def _loopback_needs_ipv6(family: int, address: bytes) -> bool | None:
    """Return whether loopback reaches the address only over IPv6; None if it does not reach it."""
    if family == socket.AF_INET:
        return False if address[:4] == bytes(4) or address[0] == 127 else None
    return True if address in (bytes(16), bytes(15) + b"\x01") else None


EVERY = 0.5
"""Seconds between two checks. A port is forwarded when seen twice; by then most ports of tests are gone."""


class PortForwarder:
    """The forwarding of ports on which programs in the isolated network listen, while `is_wanted` returns
    True.

    `take` returns a new, unconnected socket in that network; with `v6` true, an IPv6 socket. It blocks, and
    raises `OSError`. A forwarder belongs to one event loop; call `run` there.
    """

    def __init__(
        self,
        watch: socket.socket,
        take: Callable[..., socket.socket],
        is_wanted: Callable[[], bool],
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self._watch = watch
        self._accept_client = take
        self._is_wanted = is_wanted
        self._hidden = hidden
        self._seen: frozenset[ListeningPort] = frozenset()
        self._open: dict[ListeningPort, list[asyncio.Task[None]]] = {}
        self._relays = SocketTasks()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Check the ports again, because a command has started."""
        self._wake.set()

    async def run(self) -> None:
        """Check the ports and forward them until cancelled, or until the sockets cannot be listed."""
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
            inside = await asyncio.to_thread(self._accept_client, v6=target.is_v6)
            with inside:
                inside.setblocking(False)
                host = "::1" if target.is_v6 else "127.0.0.1"
                await loop.sock_connect(inside, (host, target.port))
                await relay_both_ways(client, inside)


async def offer(listener: socket.socket, port: int) -> None:
    """Forward connections from `listener` in the isolated network to this machine's `port`; never returns."""
    relays = SocketTasks()

    async def relay(client: socket.socket) -> None:
        with client, suppress(OSError), socket.socket() as service:
            service.setblocking(False)
            await asyncio.get_running_loop().sock_connect(service, ("127.0.0.1", port))
            await relay_both_ways(client, service)

    try:
        await accepting(listener, lambda client: relays.start(relay(client), client))
    finally:
        relays.cancel()


async def accepting(listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
    """Pass every accepted connection to `take` until cancelled; then close the listener.

    It is passed on without an await after it is accepted, because a cancellation there would leak it.
    """
    with listener:
        while True:
            try:
                await wait_readable(listener)
                client, _ = listener.accept()
            except BlockingIOError:
                # The client disconnected before it was accepted.
                continue
            except OSError as error:
                # Out of descriptors, or the client has disconnected: the next one may be served.
                log.debug("a connection could not be taken: %s", error)
                await asyncio.sleep(0.05)
                continue
            client.setblocking(False)
            take(client)


def _outside(port: int) -> list[socket.socket]:
    """Return sockets that listen on this machine's loopback; empty if another program has the port."""
    found: list[socket.socket] = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with suppress(OSError):
            listener = socket.create_server((host, port), family=family, backlog=64)
            listener.setblocking(False)
            found.append(listener)
        if not found:
            # With only one IP version, some clients would reach another program's port.
            break
    return found


log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
"""The number of connections that are served at once; others are closed."""
_RESOLVERS = 16


class EgressProxy:
    """The proxy for listening sockets, run in its own thread from `start` to `close`.

    `decide` is called in the proxy's loop to permit a host; `on_refusal` is called there with every refused
    connection. `is_own` returns whether the user has listed a host as part of their own network. `lifting`
    allows requests whose address would otherwise be refused.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        secrets: Mapping[str, str] | None = None,
        on_refusal: Callable[[ProxyRefusal], None] = lambda refusal: None,
        network: Network | None = None,
        is_own: Callable[[str, int], bool] = lambda host, port: False,
        lifting: Lifts | None = None,
    ) -> None:
        self._rules = ExchangeRules(
            decide, SecretScan(secrets or {}), network or SystemNetwork(), on_refusal, is_own, lifting
        )
        self._loop = asyncio.new_event_loop()
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, "egress-resolver")
        self._loop.set_default_executor(self._resolvers)
        self._thread = threading.Thread(target=self._run, name="egress-proxy", daemon=True)
        self._tasks = SocketTasks()
        self._clients = 0

    def start(self) -> None:
        """Start the proxy's thread."""
        self._thread.start()

    def listen(self, listener: socket.socket) -> None:
        """Accept connections on `listener`, which the proxy owns from now on. Thread-safe."""
        listener.setblocking(False)
        self._loop.call_soon_threadsafe(
            lambda: self._tasks.start(accepting(listener, self._accept_client), listener)
        )

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work` in the proxy's loop, where it may run until the proxy is closed. Thread-safe."""
        self._loop.call_soon_threadsafe(lambda: self._tasks.start(work()))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that serves all connections."""
        return self._loop

    def close(self) -> None:
        """Abort all connections and wait for the thread to end; blocks briefly. May be called again."""
        if self._thread.is_alive():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            # Tasks started by these are theirs to cancel, but have to end before the loop does.
            while left := asyncio.all_tasks(self._loop):
                for each in left:
                    each.cancel()
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            # Callbacks of the tasks that ended last have not run yet.
            self._loop.run_until_complete(asyncio.sleep(0))
            # Do not wait for a name service that does not answer.
            self._resolvers.shutdown(wait=False, cancel_futures=True)
            self._loop.close()

    def _accept_client(self, client: socket.socket) -> None:
        if self._clients >= MOST_CONNECTIONS:
            client.close()
        else:
            self._tasks.start(self._serve(client), client)

    async def _serve(self, client: socket.socket) -> None:
        self._clients += 1
        try:
            with client:
                await ProxyExchange(client, self._rules).run()
        except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
            log.exception("a connection through the proxy failed")
        finally:
            self._clients -= 1
