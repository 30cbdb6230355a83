"""The mounts of a policy as an ordered list, for any program that mounts them; and guarded files."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.safety.guarded import known_name, led_to
from agent.safety.reader.tree import words
from agent.safety.sandbox.limits import closer
from agent.workspace.placeholders import can_be_made, is_missing
from tools.kit.files import open_folder
from tools.services.sandbox import SandboxPolicy

Kind = Literal["write", "read", "hide"]
_STRICTNESS: dict[Kind, int] = {"write": 0, "read": 1, "hide": 2}

# A program can connect to sockets of the host's services even through a read-only mount.
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
"""An empty file shown instead of hidden ones, because programs handle it better than a refusal."""

PRIVATE_TMP = (Path("/tmp"), Path("/var/tmp"))
_NAMED = """
SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DISPLAY
WAYLAND_DISPLAY WAYLAND_SOCKET XAUTHORITY XDG_RUNTIME_DIR ICEAUTHORITY SESSION_MANAGER DOCKER_HOST
CONTAINER_HOST TMUX STY PULSE_SERVER NOTIFY_SOCKET LISTEN_FDS LISTEN_PID TMP TEMP
"""
SESSION_VARIABLES = frozenset(_NAMED.split())
"""The variables that name sockets and folders of the user's desktop or terminal session."""


@dataclass(frozen=True, slots=True)
class MountPlace:
    """One mount: the host's `source` appears at `path`, writable, read-only or hidden."""

    path: Path
    kind: Kind
    source: Path
    is_folder: bool

    @property
    def is_own(self) -> bool:
        """Return whether `path` shows the host's own content of that path."""
        return self.source is self.path or self.source == self.path


def places(policy: SandboxPolicy) -> list[MountPlace]:
    """Return the mounts that differ from a read-only host, parents first, so that the deepest rule counts.

    Hidden paths that do not exist are included only if they could be created.
    """
    # As text, because this runs at every start for every name that may contain a secret.
    rules: dict[str, tuple[Kind, Path, Path]] = {}
    shown = set(policy.readable) - set(policy.protected)

    def rule(path: Path, kind: Kind, source: Path | None = None) -> None:
        known = rules.get(name := str(path))
        if known is None or _STRICTNESS[kind] > _STRICTNESS[known[0]]:
            rules[name] = (kind, path, source or path)

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
    for name in sorted(rules, key=lambda name: (name.count("/"), name)):
        kind, path, source = rules[name]
        above = _above(name, index)
        if kind == "read" and path in shown and (above is None or (above.kind != "hide" and above.is_own)):
            # It is visible anyway; a separate mount would only prevent renaming and removing it.
            continue
        is_own = source is path or source == path
        if _is_read_only(above) and is_own and (kind == "read" or _is_closed(path, kind)):
            # Each mount costs every command more than a millisecond.
            continue
        if (is_folder := _is_folder(source)) is not None:
            index[name] = MountPlace(path, kind, source, is_folder)
        elif kind == "hide" and above is not None and above.kind == "write" and above.is_own:
            gap = _outermost_gap(path)
            index |= {str(gap): MountPlace(gap, kind, gap, True)} if can_be_made(gap) else {}
    return sorted(index.values(), key=lambda place: len(place.path.parts))


def covering(path: Path, found: Sequence[MountPlace]) -> MountPlace | None:
    """Return the deepest mount that contains `path`; None if there is none."""
    return _above(str(path), {str(place.path): place for place in found})


def _is_folder(path: Path) -> bool | None:
    """Return whether a folder is at a path; None if nothing is there. Raises `OSError` if unknown."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - done for each name that may hold a secret
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):
            return None
        raise
    except ValueError:
        return None


def _above(path: str, index: Mapping[str, MountPlace]) -> MountPlace | None:
    while path not in index:
        if path == "/":
            return None
        path = path[: path.rindex("/")] or "/"
    return index[path]


def _is_read_only(above: MountPlace | None) -> bool:
    """Return whether nothing below a mount can be changed; None means the host's root, which is read-only."""
    return above is None or (above.kind == "read" and above.is_own)


def _is_closed(path: Path, kind: Kind) -> bool:
    """Return whether a hidden path belongs to another user and gives this user no access.

    A command has no more rights inside, and cannot change the mode.
    """
    if kind != "hide" or os.geteuid() == 0:
        return False
    try:
        owner = path.lstat().st_uid
    except OSError:
        return False
    return owner != os.geteuid() and not any(os.access(path, each) for each in (os.R_OK, os.W_OK, os.X_OK))


def missing(found: list[MountPlace]) -> list[Path]:
    """Return the hidden paths that do not exist or are placeholders, and so need a mount point."""
    return [place.path for place in found if place.kind == "hide" and is_missing(place.path)]


def hidden_files(found: list[MountPlace]) -> list[Path]:
    """Return the hidden files; commands see them as empty."""
    return [place.path for place in found if place.kind == "hide" and not place.is_folder]


def _outermost_gap(path: Path) -> Path:
    while not path.parent.exists() or is_missing(path.parent):
        path = path.parent
    return path


def open_anchors(view: Sequence[MountPlace]) -> dict[Path, int]:
    """Return an open descriptor for each writable mount, by its path.

    Raises `OSError` if any component of a path has become a link.
    """
    held: dict[Path, int] = {}
    try:
        for place in view:
            if place.kind == "write" and place.is_own:
                held[place.path] = _open_anchor(place.path)
    except OSError:
        for descriptor in held.values():
            os.close(descriptor)
        raise
    return held


def identities(anchors: Mapping[Path, int]) -> dict[str, tuple[int, int]]:
    """Return device and inode of each path and close its descriptor."""
    found: dict[str, tuple[int, int]] = {}
    for path, descriptor in anchors.items():
        status = os.fstat(descriptor)
        os.close(descriptor)
        found[str(path)] = (status.st_dev, status.st_ino)
    return found


def _open_anchor(path: Path) -> int:
    with open_folder(path.parent) as folder:
        name = path.name or "."
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ELOOP, "a link has taken the place of a folder", str(path))
    return descriptor


@dataclass(frozen=True, slots=True)
class DrawnShape:
    """The shape of a sandbox: its policy, and device and inode of the file at each mount's path."""

    policy: SandboxPolicy
    places: tuple[tuple[MountPlace, tuple[int, int]], ...]

    def is_mounted(self, pid: int) -> bool:
        """Return whether the sandbox with the process `pid` still has a mount at each path; False if unknown.

        A mount disappears when a program outside removes its path, even if another hard link to the file
        remains.
        """
        try:
            inside = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
            table = Path(f"/proc/{inside}/mountinfo").read_bytes().splitlines()
        except (OSError, IndexError):
            return False
        mounts = {line.split(b" ", 5)[4] for line in table}
        return all(
            _as_listed(str(place.path)) in mounts or _as_listed(os.path.realpath(place.path)) in mounts
            for place, _ in self.places
        )


def shape_of(policy: SandboxPolicy) -> DrawnShape:
    """Return the shape that a sandbox for `policy` would have now.

    Raises `OSError` if a writable folder or a part of its path has become a link.
    """
    view = places(policy)
    closer(*open_anchors(view).values())()
    return DrawnShape(policy, tuple((place, _identity(os.lstat(place.path))) for place in view))


def _as_listed(path: str) -> bytes:
    """Return a path as the kernel's mount tables escape it."""
    return re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(path))


def shape_and_descriptors(
    policy: SandboxPolicy, view: Sequence[MountPlace]
) -> tuple[DrawnShape | None, tuple[int, ...]]:
    """Return the shape of a sandbox that is being set up, and descriptors to close after it has ended.

    While they are open, no new file can get the same inode. The shape is None if a path has just disappeared.
    """
    held: list[int] = []
    seen: list[tuple[MountPlace, tuple[int, int]]] = []
    try:
        for place in view:
            held.append(os.open(place.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
            seen.append((place, _identity(os.fstat(held[-1]))))
    except OSError:
        # A file has just been removed: the sandbox is set up, but not kept for later commands.
        closer(*held)()
        return None, ()
    return DrawnShape(policy, tuple(seen)), tuple(held)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_DEPTH = 2
"""The depth of folders that is searched."""
_FOLDERS = 64
"""The number of folders that are searched, those near the top first."""
_MOST = 24
"""The number of guarded paths that are protected, those near the top first: each costs a mount."""
_UNINTERESTING = words(".hg .svn node_modules .venv venv __pycache__ target dist build .tox .mypy_cache")
_PROGRAMS = {".git": words("hooks config"), ".yarn": words("releases plugins")}
"""Folders to which tools write daily, with those parts in them that are run."""


@dataclass(frozen=True, slots=True)
class GuardedFiles:
    """The guarded files and folders below one folder."""

    read_only: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    """Parent folders that stay writable but cannot be renamed, because a replacement would be unprotected."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """The cached content of a folder."""

    read_at: tuple[int, int, int]
    """The inode, and the times of the last content and status change, in nanoseconds."""
    guarded: tuple[str, ...]
    folders: tuple[str, ...]


class GuardedFinder:
    """A search for guarded paths below a resolved folder. Unchanged folders are not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, _Folder] = {}

    def find(self) -> GuardedFiles:
        """Return the current guarded paths. Checks at most 64 folders; unreadable ones count as empty."""
        found: list[str] = []
        known: dict[str, _Folder] = {}
        queue = [("", 0)]
        for place, depth in queue:
            folder = self._folder(place)
            if folder is None:
                continue
            known[place] = folder
            found += folder.guarded
            if depth < _DEPTH:
                queue += [(name, depth + 1) for name in folder.folders[: _FOLDERS - len(queue)]]
        self._read = known
        shown = found[:_MOST]
        above = dict.fromkeys(name.rpartition("/")[0] for name in shown)
        pinned = [name for name in above if name.rpartition("/")[2].startswith(".")]
        # The target of a link is protected too, and its parent folder pinned so that it cannot be replaced.
        led = [Path(each) for each in led_to(self._root)]
        led = [each for each in led if each.is_relative_to(self._root) and each.exists()]
        around = [each.parent for each in led if each.parent != self._root]
        return GuardedFiles(
            tuple(dict.fromkeys((*(self._root / each for each in shown), *led))),
            tuple(dict.fromkeys((*(self._root / each for each in pinned), *around))),
        )

    def _folder(self, place: str) -> _Folder | None:
        path = self._root / place
        try:
            status = path.stat(follow_symlinks=False)
            read_at = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            known = self._read.get(place)
            return (
                known
                if known is not None and known.read_at == read_at
                else _scan_folder(path, place, read_at)
            )
        except OSError:
            return None


def _scan_folder(path: Path, place: str, read_at: tuple[int, int, int]) -> _Folder:
    guarded: list[str] = []
    folders: list[str] = []
    inside = f"{place}/" if place else ""
    programs = _PROGRAMS.get(path.name)
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            name = f"{inside}{entry.name}"
            if entry.is_symlink():
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if programs is not None:
                guarded += [name] if entry.name in programs else []
            elif entry.name in _PROGRAMS:
                # The repository of the workspace itself is protected in more detail; see `repository`.
                folders += [name] if is_folder and (place or entry.name != ".git") else []
            elif known_name(name) is not None:
                guarded.append(name)
            elif is_folder and entry.name not in _UNINTERESTING:
                folders.append(name)
    return _Folder(read_at, tuple(guarded), tuple(folders))


def found_in(finders: Sequence[GuardedFinder]) -> GuardedFiles:
    """Search with all finders and return their guarded paths together."""
    each = [finder.find() for finder in finders]
    return GuardedFiles(
        tuple(path for files in each for path in files.read_only),
        tuple(path for files in each for path in files.pinned),
    )
