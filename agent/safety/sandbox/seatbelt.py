"""The boundary of macOS: a Seatbelt profile, written from a policy and applied by `sandbox-exec`.

Only what the profile names is allowed. Of two rules for one path the later counts, so outer folders come
before inner ones. There are no private mounts: a child writes its temporary files to `TMPDIR`, not to `/tmp`.
The network is either the machine's or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agent.safety.sandbox.layout import SESSION_VARIABLES, MountPlace, covering, places
from agent.safety.sandbox.limits import shell_limits
from tools.services.sandbox import SandboxName, SandboxPolicy, Wrapped

PROGRAM = "/usr/bin/sandbox-exec"
_DEVICES = ("null", "zero", "random", "urandom", "tty", "ptmx", "dtracehelper")
_ALWAYS = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))
(allow pseudo-tty)
(allow file-map-executable)
(allow file-read*)"""
"""Rules a shell and its programs always need: to start, to read, to end their children."""
_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center",
    "com.apple.system.logger",
    "com.apple.logd",
)
"""System services for user names and logs. None of them starts programs or reveals secrets."""
_SERVICES_OF_NETWORK = (
    "com.apple.SystemConfiguration.configd",
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.dnssd.service",
    "com.apple.trustd",
    "com.apple.trustd.agent",
)
_SOCKET_OF_NAMES = "/private/var/run/mDNSResponder"


class Seatbelt:
    """Starts commands through `program`, which applies a profile."""

    name: SandboxName = "seatbelt"
    has_mounts = False
    lays_read_only = True

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        # macOS counts the processes of a user, so a limit for one boundary would count the whole desktop.
        limits = shell_limits(replace(policy.limits, processes=0))
        stage = ["/bin/sh", "-c", limits + 'exec "$@"', "sh"]
        return Wrapped(
            argv=[self._program, "-p", profile(policy), *stage, *argv],
            env={"TMPDIR": str(policy.tmp)},
            unset=SESSION_VARIABLES,
            terminal=policy.terminal,
        )


def profile(policy: SandboxPolicy) -> str:
    """Return the rules of `policy` in the profile language. Reads the disk to see which paths exist."""
    view = [place for place in places(policy) if place.path == place.source or place.kind != "write"]
    return "\n".join(
        (
            _ALWAYS,
            _rule("allow", "mach-lookup", (f'(global-name "{name}")' for name in _SERVICES)),
            *_devices(policy),
            *_places(view, policy),
            *_network(policy),
        )
    )


def _devices(policy: SandboxPolicy) -> Iterator[str]:
    found = [f"/dev/{name}" for name in _DEVICES]
    if policy.terminal:
        found.append(policy.terminal)
    yield _rule("allow", "file-write-data file-ioctl", (_literal(path) for path in found))
    yield _rule("allow", "file-write-data", ['(subpath "/dev/fd")'])


def _places(view: Sequence[MountPlace], policy: SandboxPolicy) -> Iterator[str]:
    for place in view:
        if place.kind == "write":
            yield _rule("allow", "file-read* file-write*", [_below(place.path)])
        elif place.kind == "read":
            yield _rule("allow", "file-read*", [_below(place.path)])
            yield _rule("deny", "file-write*", [_below(place.path)])
        else:
            yield _rule("deny", "file*", [_below(place.path)])
    # It may lie in a folder of ours that is hidden.
    yield _rule("allow", "file-read* file-write*", [_below(policy.tmp)])
    # A folder that is renamed takes what is closed in it to a path that no rule names.
    above = dict.fromkeys(folder for place in view if place.kind != "write" for folder in _way(place, view))
    if above:
        yield _rule("deny", "file-write-unlink", (_literal(folder) for folder in above))


def _way(place: MountPlace, view: Sequence[MountPlace]) -> Iterator[Path]:
    """Yield the parent folders of a mount that could be renamed because they are in a writable folder."""
    for folder in place.path.parents:
        over = covering(folder, view)
        if over is None or over.kind != "write":
            return
        yield folder


def _network(policy: SandboxPolicy) -> Iterator[str]:
    """Yield rules for the internet, if it is allowed, and for Unix sockets in writable folders."""
    if policy.network:
        yield _rule("allow", "mach-lookup", (f'(global-name "{name}")' for name in _SERVICES_OF_NETWORK))
        yield "(allow system-socket)"
        yield '(allow network-outbound (remote ip "*:*"))'
        yield '(allow network-bind network-inbound (local ip "*:*"))'
        yield f"(allow network-outbound {_literal(_SOCKET_OF_NAMES)})"
    own = [policy.workspace, policy.tmp, *policy.writable, *(policy.readable if policy.sockets else ())]
    yield _rule("allow", "network-outbound network-bind network-inbound", map(_below, own))


def _rule(verdict: str, operations: str, filters: Iterable[str]) -> str:
    return f"({verdict} {operations} {' '.join(filters)})"


def _literal(path: Path | str) -> str:
    return f"(literal {_quoted(str(path))})"


def _below(path: Path) -> str:
    return f"(subpath {_quoted(str(path))})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
