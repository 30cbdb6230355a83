"""The sandbox by Hermes's own launcher: Landlock and a filter of system calls, with namespaces if allowed.

Namespaces are available to root, and on systems where users may create them. Commands then see the same files
as with bubblewrap, and Landlock is a second barrier.

Landlock alone cannot exclude a part of a folder that it grants. So hidden files are made unreadable by
granting everything around them. Nothing in the writable workspace can be protected.
"""

from __future__ import annotations

import ctypes
import functools
import marshal
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.safety.sandbox import limits
from agent.safety.sandbox.layout import (
    NOTHING,
    SESSION_VARIABLES,
    Kind,
    MountPlace,
    covering,
    hidden_files,
    identities,
    missing,
    open_anchors,
    places,
    shape_and_descriptors,
)
from agent.safety.sandbox.limits import closer, memory_file, rlimits
from agent.safety.sandbox.seccomp import program
from agent.workspace.placeholders import hold, unmounted
from tools.results import ToolError
from tools.services.sandbox import SandboxName, SandboxPolicy, Wrapped

_FOLDER = Path(__file__).parent
# Run as a module, so that its compiled form is used.
_START = "import sys; sys.path.append(sys.argv.pop(1)); import launcher; launcher.main()"
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1


@functools.cache
def interpreter() -> str:
    """Return the path of the Python that runs Hermes, links resolved, so outside of a virtual environment."""
    return os.path.realpath(sys.executable)


@functools.cache
def own_files() -> tuple[Path, ...]:
    """Return the files needed by the launcher, and by commands that use Hermes's Python."""
    prefixes = dict.fromkeys(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))
    return (_FOLDER, *prefixes, Path(interpreter()))


def launcher_argv(spec: Mapping[str, Any]) -> tuple[list[str], tuple[int, ...]]:
    """Return the arguments to put before a command, and descriptors that must be inherited.

    They start the launcher with the description `spec`.
    """
    descriptor = memory_file(marshal.dumps(dict(spec)), "hermes-launch")
    return [interpreter(), "-I", "-S", "-c", _START, str(_FOLDER), str(descriptor)], (descriptor,)


@functools.cache
def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface; 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION)
    )
    return max(version, 0)


_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
READ = _EXECUTE | _READ_FILE | _READ_DIR
_CHANGE = sum(1 << bit for bit in range(4, 13))
WRITE = READ | _WRITE_FILE | _CHANGE | _REFER | _TRUNCATE
_USE = _READ_FILE | _WRITE_FILE
_TCP = 3
_TCP_SINCE, SCOPES_SINCE = 4, 6
_NODE = Path(__file__).with_name("hidden_logins.cjs")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def handled_rights(version: int) -> int:
    """Return the file access rights that this version of Landlock knows and the sandbox restricts."""
    rights = READ | _WRITE_FILE | _CHANGE
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    return rights


class Landlock:
    """The sandbox that starts programs through the launcher. With `spaces` they get separate namespaces."""

    name: SandboxName = "landlock"

    def __init__(self, *, spaces: bool, version: int | None = None) -> None:
        self.spaces = spaces
        self.has_mounts = self.can_protect_parts = spaces
        self._version = landlock_version() if version is None else version

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        view = places(policy)
        try:
            known = identities(open_anchors(view))
            reserved = hold(missing(view) if self.spaces else ())
        except OSError as error:
            raise ToolError(f"The sandbox cannot be drawn around {policy.workspace}: {error}.") from error
        shape, seen = shape_and_descriptors(policy, view) if policy.waits and self.spaces else (None, ())
        clear = unmounted(hidden_files(view) if self.spaces else ())
        spec = self._in_spaces(view, policy) if self.spaces else self._alone(view, policy)
        spec["known"] = known
        launcher, fds = launcher_argv(spec)
        join, leave = limits.prepare(policy.limits.processes)
        forget = closer(*seen)

        def ended() -> None:
            forget()
            clear()
            reserved.release()
            leave()

        return Wrapped(
            argv=[*join, *launcher, *argv],
            env={"TMPDIR": "/tmp"} if self.spaces else {"TMPDIR": str(policy.tmp), **_for_node(policy)},
            unset=SESSION_VARIABLES,
            fds=fds,
            terminal="/dev/console" if policy.terminal and self.spaces else policy.terminal,
            started=closer(*fds),
            ended=ended,
            shape=shape,
            reserved=(reserved,),
        )

    def _in_spaces(self, view: list[MountPlace], policy: SandboxPolicy) -> dict[str, Any]:
        rules = [("/", READ), ("/dev", WRITE)]
        rules += [(str(place.path), WRITE) for place in view if place.kind == "write"]
        return self._common(policy) | {
            "spaces": True,
            "network": policy.network,
            "mortal": policy.dies_with_parent,
            "terminal": policy.terminal,
            "places": [(str(p.path), p.kind, str(p.source), p.is_folder) for p in view],
            "links": [(str(link), str(path)) for link, path in policy.links],
            "nothing": str(NOTHING),
            "rules": rules,
            "filter": program(internet=True, unix=True),
        }

    def _alone(self, view: list[MountPlace], policy: SandboxPolicy) -> dict[str, Any]:
        rules = [(f"/dev/{name}", _USE) for name in (*_DEVICES, "ptmx")]
        rules += [("/dev/fd", READ), ("/proc", READ), (str(policy.tmp), WRITE)]
        if policy.terminal:
            rules.append((policy.terminal, _USE))
        rules += list(_grants(_closed(view)))
        return self._common(policy) | {
            "rules": rules,
            "handled_network": _TCP if self._version >= _TCP_SINCE and not policy.network else 0,
            "filter": program(internet=policy.network, unix=policy.sockets),
        }

    def _common(self, policy: SandboxPolicy) -> dict[str, Any]:
        return {
            "handled": handled_rights(self._version),
            "scope": self._version >= SCOPES_SINCE,
            "limits": rlimits(policy.limits),
            "drop": True,
        }


def _for_node(policy: SandboxPolicy) -> dict[str, str]:
    """Return variables that make Node programs treat a hidden login file as empty, as it is with mounts."""
    if not any(path.name in (".npmrc", ".yarnrc.yml") and path.exists() for path in policy.hidden):
        return {}
    return {"NODE_OPTIONS": f'{os.environ.get("NODE_OPTIONS", "")} --require "{_NODE}"'.strip()}


def _closed(view: list[MountPlace]) -> list[MountPlace]:
    """Return the view for a machine without mounts: mounted files and folders become hidden instead."""
    closed = [place for place in view if place.path == place.source or place.kind == "hide"]
    covered = [
        MountPlace(p.path, "hide", p.path, True) for p in view if p.path != p.source and p.kind == "write"
    ]
    taken = {place.path for place in closed}
    own = [MountPlace(Path(name), "hide", Path(name), True) for name in ("/dev", "/proc")]
    return [*own, *(place for place in covered if place.path not in taken), *closed]


def _grants(view: list[MountPlace]) -> Iterator[tuple[str, int]]:
    """Yield Landlock rules, as path and rights, that grant the whole tree except what is hidden.

    There is one rule per folder, or one per entry if something in the folder is hidden.
    """
    places = {str(place.path): place for place in view}
    parted = {str(up) for place in view if place.kind == "hide" for up in place.path.parents}
    writable = [str(place.path) for place in view if place.kind == "write"]

    def grants_below(path: str, kind: Kind) -> Iterator[tuple[str, int]]:
        place = places.get(path)
        kind = kind if place is None else place.kind
        if kind == "hide":
            return
        if path not in parted:
            yield path, WRITE if kind == "write" else READ
            if kind != "write":
                below = path.rstrip("/") + "/"
                yield from ((each, WRITE) for each in writable if each.startswith(below))
            return
        try:
            with os.scandir(path) as entries:
                names = sorted(entry.path for entry in entries if not entry.is_symlink())
        except OSError:
            return
        for name in names:
            yield from grants_below(name, kind)

    yield from grants_below("/", "read")
    for path, place in places.items():
        above = covering(place.path.parent, view)
        if place.kind != "hide" and above is not None and above.kind == "hide":
            # A visible path inside a hidden folder.
            yield from grants_below(path, place.kind)
