"""A network of its own for the commands of one session: a loopback that they share, and nothing else.

bubblewrap makes it once, around a program that hands out what refers to it and ends. Descriptors keep it
alive; nsenter puts each command into it before its boundary is drawn.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.safety.sandbox.launch import interpreter
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace

PROXY_PORT = 3128
"""Where the proxy listens inside: nobody else was there before."""
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
    """An open network. Close what of it is not handed on."""

    space: NetworkSpace
    watch: socket.socket
    """Asks the kernel about sockets inside (`NETLINK_SOCK_DIAG`)."""
    listeners: dict[int, socket.socket]
    """What listens inside, by port."""

    def close(self) -> None:
        for each in (self.watch, *self.listeners.values()):
            each.close()
        for descriptor in (self.space.net, self.space.user):
            os.close(descriptor)


class SpaceSockets:
    """Sockets that belong to a network, several made at once, as that takes a program. Thread-safe."""

    def __init__(self, space: NetworkSpace) -> None:
        self._space = space
        self._lock = threading.Lock()
        self._left: dict[bool, list[socket.socket]] = {False: [], True: []}
        self._taken: list[socket.socket] = []
        self._is_closed = False

    def take(self, *, v6: bool) -> socket.socket:
        """One that is not connected. Blocks. Raises `OSError`."""
        with self._lock:
            if self._is_closed:
                raise OSError("the network is closed")
            if not self._left[v6]:
                self._fetch()
            taken = self._left[v6].pop()
            # Whoever asked may be gone by now: what is given out is closed in the end as well.
            self._taken = [*(each for each in self._taken if each.fileno() >= 0), taken]
            return taken

    def close(self) -> None:
        """Close all of them. The last thing that is done."""
        with self._lock:
            self._is_closed = True
            for each in (*self._left[False], *self._left[True], *self._taken):
                each.close()

    def _fetch(self) -> None:
        try:
            found = _handed_out([*entered(self._space), interpreter(), "-I", "-S", "-c", _GIVER], [], 32)
        except ToolError as error:
            raise OSError(str(error)) from error
        for descriptor in found:
            made = socket.socket(fileno=descriptor)
            self._left[made.family == socket.AF_INET6].append(made)


def entering() -> str | None:
    """The program that enters a network; None where there is none."""
    return shutil.which("nsenter", path=_PROGRAMS)


def open_space(bubblewrap: str, ports: Sequence[int] = ()) -> OpenedSpace:
    """Make a network in which somebody listens on `PROXY_PORT` and on `ports`. Raises `ToolError`.

    Blocks for about a tenth of a second.
    """
    argv = [bubblewrap, "--unshare-net", *(["--unshare-user"] if os.geteuid() else [])]
    argv += ["--die-with-parent", "--dev-bind", "/", "/", "--", interpreter(), "-I", "-S", "-c", _OPENER]
    chosen = list(dict.fromkeys((PROXY_PORT, *ports)))[:_MOST_PORTS]
    net, user, watch, *listeners = _handed_out(argv, map(str, chosen), 3 + len(chosen))
    made = [socket.socket(fileno=each) for each in listeners]
    return OpenedSpace(
        NetworkSpace(net=net, user=user), socket.socket(fileno=watch), dict(zip(chosen, made, strict=True))
    )


def _handed_out(argv: Sequence[str], arguments: Iterable[str], count: int) -> list[int]:
    """The descriptors that a program hands out, `count` of them. Raises `ToolError`."""
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


def entered(space: NetworkSpace | None) -> list[str]:
    """Arguments to put before a command so that it runs in `space`. Raises `ToolError`."""
    if space is None:
        return []
    program = entering()
    if program is None:
        raise ToolError("The filtered network cannot be entered, because nsenter is not installed.")
    # By our own table of descriptors: what the command inherited would be its to keep.
    own = f"/proc/{os.getpid()}/fd"
    into = [f"--net={own}/{space.net}"]
    if os.geteuid():
        into += [f"--user={own}/{space.user}", "--preserve-credentials"]
    return [program, *into, "--"]
