"""The filtered network of one session: commands share a loopback and reach hosts through the proxy only."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent.core.net.addresses import canonical
from agent.safety.sandbox.network_space import PROXY_PORT, OpenedSpace, SpaceSockets, open_space
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace, PermitHost

if TYPE_CHECKING:
    from agent.core.net.connecting import Network
    from agent.core.net.exchange import Decide, ProxyRefusal
    from agent.core.net.forwarding import PortForwarder
    from agent.core.net.proxy import EgressProxy

_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
VARIABLES: Mapping[str, str] = {
    **{
        name: _PROXY
        for plain in ("http_proxy", "https_proxy", "all_proxy")
        for name in (plain, plain.upper())
    },
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,.localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
"""What tells programs about the proxy."""
_MOST_KEPT = 200
"""Refusals that are remembered for the results of commands."""


async def nobody(host: str, port: int) -> str | None:
    """Lets nothing through."""
    return "is not let through"


@dataclass(frozen=True, slots=True)
class _Running:
    """A command that runs."""

    hosts: frozenset[str]
    """Canonical hosts that were allowed with it."""
    permit: PermitHost | None


class FilteredNetwork:
    """Opened when the first command needs it. Thread-safe.

    `decide` says who is let through; set it before the first command. `secrets` are values, by name, that
    never leave. `services` are ports of this machine's loopback that commands find on theirs, `is_own` tells
    of hosts that may lie in a network of the person's.
    """

    def __init__(
        self,
        bubblewrap: str,
        *,
        secrets: Mapping[str, str] | None = None,
        network: Network | None = None,
        services: Sequence[int] = (),
        is_own: Callable[[str, int], bool] = lambda host, port: False,
    ) -> None:
        self._is_own = is_own
        self._bubblewrap = bubblewrap
        self._services = tuple(each for each in services if each != PROXY_PORT)
        self._secrets = secrets or {}
        self._network = network
        self._lock = threading.Lock()
        self._opened: OpenedSpace | None = None
        self._proxy: EgressProxy | None = None
        self._sockets: SpaceSockets | None = None
        self._forwarder: PortForwarder | None = None
        self._is_closed = False
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._refused: deque[tuple[float, ProxyRefusal]] = deque(maxlen=_MOST_KEPT)
        self.decide: Decide = nobody
        self.idle: Callable[[frozenset[int]], None] = lambda running: None
        """Told which commands still run when one has ended."""

    @property
    def is_open(self) -> bool:
        """Whether `space` returns at once."""
        return self._opened is not None

    def space(self) -> NetworkSpace:
        """What commands join. Blocks while it is opened. Raises `ToolError`."""
        with self._lock:
            if self._is_closed:
                raise ToolError("The session has ended.")
            if self._opened is None:
                self._open()
            assert self._opened is not None
            return self._opened.space

    def begin(self, hosts: Iterable[str] = (), permit: PermitHost | None = None) -> int:
        """A command starts for which `hosts` were allowed; the number it is known by.

        `permit` asks about others in the name of the agent that runs it.
        """
        number = next(self._numbers)
        self._running[number] = _Running(frozenset(_canonical(hosts)), permit)
        proxy, forwarder = self._proxy, self._forwarder
        if proxy is not None and forwarder is not None:
            with suppress(RuntimeError):
                proxy.loop.call_soon_threadsafe(forwarder.wake)
        return number

    def end(self, number: int) -> None:
        """A command has ended. A second time does nothing."""
        if number in self._running:
            del self._running[number]
            self.idle(self.running)

    @property
    def running(self) -> frozenset[int]:
        """Commands that run now."""
        return frozenset(self._running)

    def allows(self, host: str) -> bool:
        """Whether a canonical host was allowed with a command that runs."""
        return any(host in each.hosts for each in tuple(self._running.values()))

    def permit(self) -> PermitHost | None:
        """Who asks about a host: the only one for whom commands run. None: it cannot be told whose it is."""
        asking = {each.permit for each in tuple(self._running.values())}
        return asking.pop() if len(asking) == 1 else None

    def refused(self, since: float) -> tuple[ProxyRefusal, ...]:
        """What was not let through since a moment of `time.monotonic`, each host once."""
        found = {
            (each.host, each.port, each.kind): each
            for moment, each in tuple(self._refused)
            if moment >= since and each.host
        }
        return tuple(found.values())

    def close(self) -> None:
        """Break every connection off. What still runs inside keeps its loopback. Blocks for a moment."""
        with self._lock:
            self._is_closed = True
            proxy, self._proxy = self._proxy, None
            opened, self._opened = self._opened, None
        if proxy is not None:
            proxy.close()
        if self._sockets is not None:
            self._sockets.close()
        if opened is not None:
            opened.close()

    def _open(self) -> None:
        from agent.core.net.forwarding import PortForwarder, offer
        from agent.core.net.proxy import EgressProxy

        opened = open_space(self._bubblewrap, self._services)
        proxy = EgressProxy(
            self._decide,
            secrets=self._secrets,
            told=self._remember,
            network=self._network,
            is_own=self._is_own,
        )
        proxy.start()
        proxy.listen(opened.listeners[PROXY_PORT])
        for port in self._services:
            service = opened.listeners[port]
            service.setblocking(False)
            proxy.run(partial(offer, service, port))
        self._sockets = SpaceSockets(opened.space)
        self._forwarder = PortForwarder(
            opened.watch, self._sockets, lambda: bool(self._running), frozenset(opened.listeners)
        )
        proxy.run(self._forwarder.run)
        self._opened, self._proxy = opened, proxy

    async def _decide(self, host: str, port: int) -> str | None:
        return await self.decide(host, port)

    def _remember(self, refusal: ProxyRefusal) -> None:
        self._refused.append((time.monotonic(), refusal))


def _canonical(hosts: Iterable[str]) -> Iterator[str]:
    for host in hosts:
        with suppress(ValueError):
            yield canonical(host)


def told(refusals: tuple[ProxyRefusal, ...]) -> str:
    """What to say about connections that were not made; empty when there are none."""
    if not refusals:
        return ""
    sentences = " ".join(dict.fromkeys(each.sentence for each in refusals))
    if any(each.kind == "host" for each in refusals):
        hosts = ", ".join(dict.fromkeys(_named(each) for each in refusals if each.kind == "host"))
        sentences += (
            f" To let {hosts} through, ask the person to allow it when the command runs again, or to put it "
            "into `sandbox.hosts` of the settings."
        )
    if any(each.kind == "address" for each in refusals):
        sentences += " A host in a network of the person's own has to be named in `sandbox.hosts`."
    return f"The network is filtered. {sentences}"


def _named(refusal: ProxyRefusal) -> str:
    return refusal.host if refusal.port in (80, 443) else f"{refusal.host}:{refusal.port}"
