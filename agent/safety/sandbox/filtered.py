"""The filtered network of one session: commands share a loopback and reach hosts only through the proxy."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent.core.net.addresses import canonical
from agent.safety.sandbox.landlock import interpreter
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace, PermitHost

if TYPE_CHECKING:
    from agent.core.net.exchange import Decide, Network, ProxyRefusal
    from agent.core.net.proxy import EgressProxy, PortForwarder


PROXY_PORT = 3128
"""The proxy's port inside the network namespace, where no other program can have taken it."""
_PATIENCE = 20.0
_PROGRAMS = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
_OPENER = """
import os, socket, sys
there = socket.socket(fileno=int(sys.argv[1]))
watch = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4)
spaces = [os.open("/proc/self/ns/" + name, os.O_RDONLY) for name in ("net", "user")]
listeners = [socket.create_server(("127.0.0.1", int(port)), backlog=256) for port in sys.argv[2:]]
socket.send_fds(there, [b"."], [*spaces, watch.fileno(), *(each.fileno() for each in listeners)])
"""
_GIVER = """
import socket, sys
there = socket.socket(fileno=int(sys.argv[1]))
made = [socket.socket(each, socket.SOCK_STREAM) for each in [socket.AF_INET] * 24 + [socket.AF_INET6] * 8]
socket.send_fds(there, [b"."], [each.fileno() for each in made])
"""
_MOST_PORTS = 64


@dataclass(slots=True)
class OpenedSpace:
    """An open network namespace. Descriptors that are not passed on must be closed."""

    space: NetworkSpace
    watch: socket.socket
    """The netlink socket for listing sockets in the namespace (`NETLINK_SOCK_DIAG`)."""
    listeners: dict[int, socket.socket]
    """The listening sockets in the namespace, by port."""

    def close(self) -> None:
        for each in (self.watch, *self.listeners.values()):
            each.close()
        for descriptor in (self.space.net, self.space.user):
            os.close(descriptor)


class NamespaceSockets:
    """Sockets in a network namespace. They are created in batches, because this starts a program.
    Thread-safe.
    """

    def __init__(self, space: NetworkSpace) -> None:
        self._space = space
        self._lock = threading.Lock()
        self._left: dict[bool, list[socket.socket]] = {False: [], True: []}
        self._taken: list[socket.socket] = []
        self._is_closed = False

    def take(self, *, v6: bool) -> socket.socket:
        """Return an unconnected socket in the namespace. Blocks. Raises `OSError`."""
        with self._lock:
            if self._is_closed:
                raise OSError("the network is closed")
            if not self._left[v6]:
                self._fetch()
            taken = self._left[v6].pop()
            # The caller may have ended by now, so returned sockets are also closed in the end.
            self._taken = [*(each for each in self._taken if each.fileno() >= 0), taken]
            return taken

    def close(self) -> None:
        """Close all sockets, including those already taken. `take` then raises `OSError`."""
        with self._lock:
            self._is_closed = True
            for each in (*self._left[False], *self._left[True], *self._taken):
                each.close()

    def _fetch(self) -> None:
        try:
            found = _receive_descriptors(
                [*enter_arguments(self._space), interpreter(), "-I", "-S", "-c", _GIVER], [], 32
            )
        except ToolError as error:
            raise OSError(str(error)) from error
        for descriptor in found:
            made = socket.socket(fileno=descriptor)
            self._left[made.family == socket.AF_INET6].append(made)


def nsenter_path() -> str | None:
    """Return the path of `nsenter`, which enters a network namespace; None if it is not installed."""
    return shutil.which("nsenter", path=_PROGRAMS)


def open_space(bubblewrap: str, ports: Sequence[int] = ()) -> OpenedSpace:
    """Create a network namespace with listeners on `PROXY_PORT` and the first 63 `ports`. Raises `ToolError`.

    Blocks for about a tenth of a second.
    """
    argv = [bubblewrap, "--unshare-net", *(["--unshare-user"] if os.geteuid() else [])]
    argv += ["--die-with-parent", "--dev-bind", "/", "/", "--", interpreter(), "-I", "-S", "-c", _OPENER]
    chosen = list(dict.fromkeys((PROXY_PORT, *ports)))[:_MOST_PORTS]
    net, user, watch, *listeners = _receive_descriptors(argv, map(str, chosen), 3 + len(chosen))
    made = [socket.socket(fileno=each) for each in listeners]
    return OpenedSpace(
        NetworkSpace(net=net, user=user), socket.socket(fileno=watch), dict(zip(chosen, made, strict=True))
    )


def _receive_descriptors(argv: Sequence[str], arguments: Iterable[str], count: int) -> list[int]:
    """Run a program and return `count` descriptors that it sends through a socket. Raises `ToolError`."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            try:
                ended = subprocess.run(
                    [*argv, str(theirs.fileno()), *arguments],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={"PATH": _PROGRAMS},
                    timeout=_PATIENCE,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ToolError(f"The filtered network could not be opened: {error}.") from error
        _, found, _, _ = socket.recv_fds(ours, 1, count)
    if len(found) != count:
        for descriptor in found:
            os.close(descriptor)
        said = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"code {ended.returncode}"]
        raise ToolError(f"The filtered network could not be opened: {said[0]}.")
    for descriptor in found:
        os.set_inheritable(descriptor, False)
    return list(found)


def enter_arguments(space: NetworkSpace | None) -> list[str]:
    """Return arguments to put before a command to run it in `space`; none for None. Raises `ToolError`."""
    if space is None:
        return []
    program = nsenter_path()
    if program is None:
        raise ToolError("The filtered network cannot be entered, because nsenter is not installed.")
    # Named by this process's descriptors: the command could keep inherited ones.
    own = f"/proc/{os.getpid()}/fd"
    into = [f"--net={own}/{space.net}"]
    if os.geteuid():
        into += [f"--user={own}/{space.user}", "--preserve-credentials"]
    return [program, *into, "--"]


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
"""The environment variables that make programs use the proxy."""
_MOST_KEPT = 200
"""The number of refused connections kept for the results of commands."""


async def refuse_all(host: str, port: int) -> str | None:
    """Refuse a connection and return the reason as a clause: the default of `decide`."""
    return "is not let through"


@dataclass(frozen=True, slots=True)
class _Running:
    """A running command, and the hosts it may reach."""

    hosts: frozenset[str]
    """The hosts that the user allowed for the command, in canonical form."""
    permit: PermitHost | None


class FilteredNetwork:
    """The filtered network of a session, opened when the first command needs it. Thread-safe.

    `decide` judges connections; set it before the first command. `secrets` are values, by name, that are
    never sent. `services` are ports of this machine's loopback that commands find on theirs. `is_own` returns
    whether a host may be in a private network of the user.
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
        self._sockets: NamespaceSockets | None = None
        self._forwarder: PortForwarder | None = None
        self._is_closed = False
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._refused: deque[tuple[float, ProxyRefusal]] = deque(maxlen=_MOST_KEPT)
        self.decide: Decide = refuse_all
        self.idle: Callable[[frozenset[int]], None] = lambda running: None
        """A function called with the commands still running when one has ended."""

    @property
    def is_open(self) -> bool:
        """Return whether the network is open, so that `space` does not have to open it."""
        return self._opened is not None

    def space(self) -> NetworkSpace:
        """Return the network for commands, opening it first if needed, which blocks. Raises `ToolError`."""
        with self._lock:
            if self._is_closed:
                raise ToolError("The session has ended.")
            if self._opened is None:
                self._open()
            assert self._opened is not None
            return self._opened.space

    def register(self, hosts: Iterable[str] = (), permit: PermitHost | None = None) -> int:
        """Register a command that is about to start, with the `hosts` allowed for it; return its number.

        `permit` asks about other hosts on behalf of the agent that runs it.
        """
        number = next(self._numbers)
        self._running[number] = _Running(frozenset(_canonical(hosts)), permit)
        proxy, forwarder = self._proxy, self._forwarder
        if proxy is not None and forwarder is not None:
            with suppress(RuntimeError):
                proxy.loop.call_soon_threadsafe(forwarder.wake)
        return number

    def unregister(self, number: int) -> None:
        """Unregister a command that has ended. A second call does nothing."""
        if number in self._running:
            del self._running[number]
            self.idle(self.running)

    @property
    def running(self) -> frozenset[int]:
        """Return the numbers of the running commands."""
        return frozenset(self._running)

    def allows(self, host: str) -> bool:
        """Return whether a host, in canonical form, was allowed for one of the running commands."""
        return any(host in each.hosts for each in tuple(self._running.values()))

    def permit(self) -> PermitHost | None:
        """Return the function that asks about hosts, if all running commands have the same one; otherwise
        None.
        """
        asking = {each.permit for each in tuple(self._running.values())}
        return asking.pop() if len(asking) == 1 else None

    def refused(self, since: float) -> tuple[ProxyRefusal, ...]:
        """Return connections refused since a time of `time.monotonic`, one for each host, port and kind."""
        found = {
            (each.host, each.port, each.kind): each
            for moment, each in tuple(self._refused)
            if moment >= since and each.host
        }
        return tuple(found.values())

    def close(self) -> None:
        """Close all connections. Running commands keep their loopback. Blocks briefly."""
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
        from agent.core.net.proxy import EgressProxy, PortForwarder, offer

        opened = open_space(self._bubblewrap, self._services)
        proxy = EgressProxy(
            self._decide,
            secrets=self._secrets,
            on_refusal=self._remember,
            network=self._network,
            is_own=self._is_own,
        )
        proxy.start()
        proxy.listen(opened.listeners[PROXY_PORT])
        for port in self._services:
            service = opened.listeners[port]
            service.setblocking(False)
            proxy.run(partial(offer, service, port))
        self._sockets = NamespaceSockets(opened.space)
        self._forwarder = PortForwarder(
            opened.watch, self._sockets.take, lambda: bool(self._running), frozenset(opened.listeners)
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


def refusal_text(refusals: tuple[ProxyRefusal, ...]) -> str:
    """Return a message for the model about refused connections; empty if there are none."""
    if not refusals:
        return ""
    sentences = " ".join(dict.fromkeys(each.sentence for each in refusals))
    if any(each.kind == "host" for each in refusals):
        hosts = ", ".join(dict.fromkeys(_refusal_name(each) for each in refusals if each.kind == "host"))
        sentences += (
            f" To let {hosts} through, ask the person to allow it when the command runs again, or to put it "
            "into `sandbox.hosts` of the settings."
        )
    if any(each.kind == "address" for each in refusals):
        sentences += " A host in a network of the person's own has to be named in `sandbox.hosts`."
    return f"The network is filtered. {sentences}"


def _refusal_name(refusal: ProxyRefusal) -> str:
    return refusal.host if refusal.port in (80, 443) else f"{refusal.host}:{refusal.port}"
