"""The mounts of a boundary made from a policy: an ordered list of places, whichever program mounts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.workspace.placeholders import is_missing
from tools.services.sandbox import SandboxPolicy

Kind = Literal["write", "read", "hide"]
_STRICTNESS: dict[Kind, int] = {"write": 0, "read": 1, "hide": 2}

# Sockets of the host's services are connected to even through a read-only mount.
_RUNTIME = Path("/run")
_OF_RUNTIME = tuple(
    Path("/run") / name
    for name in (
        "systemd/resolve/stub-resolv.conf",
        "systemd/resolve/resolv.conf",
        "NetworkManager/resolv.conf",
        "resolvconf/resolv.conf",
        "current-system",
        "booted-system",
        "opengl-driver",
    )
)
NOTHING = Path(__file__).with_name("nothing")
"""An empty file, shown in place of hidden ones: programs take it better than a refusal."""

PRIVATE_TMP = (Path("/tmp"), Path("/var/tmp"))
_NAMED = """
SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DISPLAY
WAYLAND_DISPLAY WAYLAND_SOCKET XAUTHORITY XDG_RUNTIME_DIR ICEAUTHORITY SESSION_MANAGER DOCKER_HOST
CONTAINER_HOST TMUX STY PULSE_SERVER NOTIFY_SOCKET LISTEN_FDS LISTEN_PID TMP TEMP
"""
SESSION_VARIABLES = frozenset(_NAMED.split())
"""Variables that name sockets and folders of the host's session."""


@dataclass(frozen=True, slots=True)
class MountPlace:
    """One place of the child's view: `source` of the host appears at `path`."""

    path: Path
    kind: Kind
    source: Path
    is_folder: bool


def places(policy: SandboxPolicy) -> list[MountPlace]:
    """Where the view differs from a read-only host: parents first, so that the deeper rule counts.

    Hidden places that do not exist are in the list only where they could be made.
    """
    rules: dict[Path, tuple[Kind, Path]] = {}
    shown = set(policy.readable) - set(policy.protected)

    def rule(path: Path, kind: Kind, source: Path | None = None) -> None:
        known = rules.get(path)
        if known is None or _STRICTNESS[kind] > _STRICTNESS[known[0]]:
            rules[path] = (kind, source or path)

    for path in (policy.workspace, *policy.writable):
        rule(path, "write")
    rule(_RUNTIME, "hide")
    for path in _OF_RUNTIME:
        if path.exists():
            rule(path, "read", path.resolve())
    for path in PRIVATE_TMP:
        if path.is_dir() and not path.is_symlink():
            rule(path, "write", policy.tmp)
    for path in (*policy.readable, *policy.protected):
        rule(path, "read")
    for path in policy.hidden:
        rule(path, "hide")
    index: dict[str, MountPlace] = {}
    for path in sorted(rules, key=lambda each: ((name := str(each)).count("/"), name)):
        kind, source = rules[path]
        if kind == "read" and path in shown and _is_seen_anyway(path, index):
            # A mount of its own would only be in the way of renaming and removing.
            continue
        if source.exists():
            index[str(path)] = MountPlace(path, kind, source, source.is_dir())
        elif kind == "hide" and _could_be_made(path, index):
            gap = _outermost_gap(path)
            index[str(gap)] = MountPlace(gap, kind, gap, True)
    return sorted(index.values(), key=lambda place: len(place.path.parts))


def covering(path: Path, found: Sequence[MountPlace]) -> MountPlace | None:
    """The deepest place that holds `path`."""
    return _above(str(path), {str(place.path): place for place in found})


def _above(path: str, index: Mapping[str, MountPlace]) -> MountPlace | None:
    # As text: this is done for every name that may hold a secret, at every start.
    while path not in index:
        if path == "/":
            return None
        path = path[: path.rindex("/")] or "/"
    return index[path]


def _is_seen_anyway(path: Path, index: Mapping[str, MountPlace]) -> bool:
    above = _above(str(path), index)
    return above is None or (above.kind != "hide" and above.path == above.source)


def missing(found: list[MountPlace]) -> list[Path]:
    """Hidden places that need something to be mounted on."""
    return [place.path for place in found if place.kind == "hide" and is_missing(place.path)]


def hidden_files(found: list[MountPlace]) -> list[Path]:
    """Files in whose place nothing is shown."""
    return [place.path for place in found if place.kind == "hide" and not place.is_folder]


def _could_be_made(path: Path, index: Mapping[str, MountPlace]) -> bool:
    above = _above(str(path), index)
    return above is not None and above.kind == "write" and above.path == above.source


def _outermost_gap(path: Path) -> Path:
    while not path.parent.exists() or is_missing(path.parent):
        path = path.parent
    return path
