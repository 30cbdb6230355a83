"""The egress proxy: the one way from a closed network to the hosts that are let through.

An HTTP/1.1 forward proxy with a loop and a thread of its own. It takes requests with an absolute
address and tunnels (CONNECT), asks whether the host may be reached, resolves the name itself, and
connects to an address it has checked. What leaves in the clear is searched for known secrets; what is
encrypted cannot be read, but has to ask for the host it was let through for.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from agent.core.net.connecting import Network, SystemNetwork
from agent.core.net.exchange import Decide, ExchangeRules, Lifts, ProxyExchange, ProxyRefusal
from agent.core.net.forwarding import accepting
from agent.core.net.secret_scan import SecretScan
from agent.core.net.socket_tasks import SocketTasks

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
"""Connections that are served at once; others are closed."""
_RESOLVERS = 16


class EgressProxy:
    """Serves listening sockets from a thread of its own, from `start` to `close`.

    `decide` is called in the proxy's loop; so is `told`, with every connection that was not made. `is_own`
    tells whether a person has named a host as one that may lie in a network of theirs, `lifting` knows
    requests that may pass although their address is refused otherwise.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        secrets: Mapping[str, str] | None = None,
        told: Callable[[ProxyRefusal], None] = lambda refusal: None,
        network: Network | None = None,
        is_own: Callable[[str, int], bool] = lambda host, port: False,
        lifting: Lifts | None = None,
    ) -> None:
        self._rules = ExchangeRules(
            decide, SecretScan(secrets or {}), network or SystemNetwork(), told, is_own, lifting
        )
        self._loop = asyncio.new_event_loop()
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, "egress-resolver")
        self._loop.set_default_executor(self._resolvers)
        self._thread = threading.Thread(target=self._run, name="egress-proxy", daemon=True)
        self._tasks = SocketTasks()
        self._clients = 0

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def listen(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which belongs to the proxy from now on. Thread-safe."""
        listener.setblocking(False)
        self._loop.call_soon_threadsafe(lambda: self._tasks.start(accepting(listener, self._take), listener))

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do `work` in the loop until it ends or the proxy is closed. Thread-safe."""
        self._loop.call_soon_threadsafe(lambda: self._tasks.start(work()))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which everything is served."""
        return self._loop

    def close(self) -> None:
        """Break everything off and wait for the thread. A second time does nothing. Blocks for a moment."""
        if self._thread.is_alive():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            # What was started by these is theirs to cancel, but has to end before the loop does.
            while left := asyncio.all_tasks(self._loop):
                for each in left:
                    each.cancel()
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            # What is done when a task has ended is still to come for those that ended last.
            self._loop.run_until_complete(asyncio.sleep(0))
            # A name service that does not answer is not waited for.
            self._resolvers.shutdown(wait=False, cancel_futures=True)
            self._loop.close()

    def _take(self, client: socket.socket) -> None:
        if self._clients >= MOST_CONNECTIONS:
            client.close()
        else:
            self._tasks.start(self._serve(client), client)

    async def _serve(self, client: socket.socket) -> None:
        self._clients += 1
        try:
            with client:
                await ProxyExchange(client, self._rules).run()
        except Exception:
            log.exception("a connection through the proxy failed")
        finally:
            self._clients -= 1
