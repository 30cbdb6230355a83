"""The mounts of a policy as an ordered list, for any program that mounts them.

The boundary by Hermes' own launcher: Landlock and a filter of system calls, with namespaces if allowed.
Namespaces are available to root, and on systems where users may create them. Then commands see the same files
as with bubblewrap, and Landlock is a second barrier.

Landlock alone cannot exclude a part of a folder that it grants. So hidden files become unreadable by granting
everything around them. Nothing in the writable workspace can be protected.

The filter of system calls, as a program for the kernel's packet filter. It refuses system calls that no
developer's command needs and that attempts to escape use. Numbers and layouts are those of the Linux ABI
(`linux/seccomp.h`, `linux/filter.h`, `asm/unistd.h`).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import marshal
import os
import platform
import re
import stat
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from agent.safety.guarded import known_name, led_to
from agent.safety.reader.tree import words
from agent.safety.sandbox import limits
from agent.safety.sandbox.limits import closer, memory_file, rlimits
from agent.workspace.placeholders import hold, is_missing, unmounted
from tools.kit.files import open_folder
from tools.results import ToolError
from tools.services.sandbox import SandboxName, SandboxPolicy, Wrapped

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
"""An empty file shown in place of hidden ones, which programs handle better than a refusal."""

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
    """One mount: the host's `source` appears at `path`."""

    path: Path
    kind: Kind
    source: Path
    is_folder: bool

    @property
    def is_own(self) -> bool:
        """Return whether what is mounted is what lies there anyway."""
        return self.source is self.path or self.source == self.path


def places(policy: SandboxPolicy) -> list[MountPlace]:
    """Return the mounts that differ from a read-only host, parents first, so that the deepest rule counts.

    Hidden paths that do not exist are included only if they could be created.
    """
    # By text: this is done for every name that may hold a secret, at every start.
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
            # It is seen anyway; a mount of its own would only be in the way of renaming and removing.
            continue
        if _is_read_only(above) and source == path and (kind == "read" or _is_closed(path, kind)):
            # Each mount costs every command more than a millisecond.
            continue
        if source.exists():
            index[name] = MountPlace(path, kind, source, source.is_dir())
        elif kind == "hide" and above is not None and above.kind == "write" and above.is_own:
            # It could be made.
            gap = _outermost_gap(path)
            index[str(gap)] = MountPlace(gap, kind, gap, True)
    return sorted(index.values(), key=lambda place: len(place.path.parts))


def covering(path: Path, found: Sequence[MountPlace]) -> MountPlace | None:
    """Return the deepest mount that contains `path`; None if there is none."""
    return _above(str(path), {str(place.path): place for place in found})


def _above(path: str, index: Mapping[str, MountPlace]) -> MountPlace | None:
    while path not in index:
        if path == "/":
            return None
        path = path[: path.rindex("/")] or "/"
    return index[path]


def _is_read_only(above: MountPlace | None) -> bool:
    """Return whether nothing below a mount can be changed; None is the host's root, which is read-only."""
    return above is None or (above.kind == "read" and above.is_own)


def _is_closed(path: Path, kind: Kind) -> bool:
    """Return whether a hidden path belongs to others, who let this user do nothing with it.

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
    """Return the hidden paths that need a mount point."""
    return [place.path for place in found if place.kind == "hide" and is_missing(place.path)]


def hidden_files(found: list[MountPlace]) -> list[Path]:
    """Return the hidden files, which commands see as empty."""
    return [place.path for place in found if place.kind == "hide" and not place.is_folder]


def _outermost_gap(path: Path) -> Path:
    while not path.parent.exists() or is_missing(path.parent):
        path = path.parent
    return path


def anchored(view: Sequence[MountPlace]) -> dict[Path, int]:
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
    """Return device and inode of the opened paths. Closes the descriptors."""
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
    """What a boundary is drawn for: its rules, and what is at each place of the view."""

    policy: SandboxPolicy
    places: tuple[tuple[MountPlace, tuple[int, int]], ...]

    def is_mounted(self, pid: int) -> bool:
        """Return whether the process started as `pid` still has a mount at each place.

        A mount goes when something outside removes what it is on, even if another name of it remains.
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
    """Return the shape that a boundary for `policy` would have now.

    Raises `OSError` if a link has taken the place of a writable folder or a part of its path.
    """
    view = places(policy)
    closer(*anchored(view).values())()
    return DrawnShape(policy, tuple((place, _identity(os.lstat(place.path))) for place in view))


def _as_listed(path: str) -> bytes:
    """Return a path as tables of mounts write it."""
    return re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(path))


def recognisable(
    policy: SandboxPolicy, view: Sequence[MountPlace]
) -> tuple[DrawnShape | None, tuple[int, ...]]:
    """Return the shape of a boundary that is being drawn, and descriptors to close after it has ended.

    As long as they are open, nothing new can have the same inode.
    """
    held: list[int] = []
    seen: list[tuple[MountPlace, tuple[int, int]]] = []
    try:
        for place in view:
            held.append(os.open(place.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
            seen.append((place, _identity(os.fstat(held[-1]))))
    except OSError:
        # Something was just taken away: it is drawn, but not kept.
        closer(*held)()
        return None, ()
    return DrawnShape(policy, tuple(seen)), tuple(held)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_DEPTH = 2
"""The folder depth that is searched."""
_FOLDERS = 64
"""The number of searched folders, those near the top first."""
_MOST = 24
"""The number of covered places, those near the top first, because each costs every command a mount."""
_UNINTERESTING = words(".hg .svn node_modules .venv venv __pycache__ target dist build .tox .mypy_cache")
_PROGRAMS = {".git": words("hooks config"), ".yarn": words("releases plugins")}
"""Folders that tools write daily, with the parts that are run."""


@dataclass(frozen=True, slots=True)
class GuardedFiles:
    """The guarded files and folders below one folder."""

    read_only: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    """Parent folders that stay writable but cannot be renamed, since a replacement would be unprotected."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """The cached content of a folder."""

    read_at: tuple[int, int, int]
    """Inode, and the times of the last content and status change, in nanoseconds."""
    guarded: tuple[str, ...]
    folders: tuple[str, ...]


class GuardedFinder:
    """Finds guarded paths below a folder (resolved). Unchanged folders are not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, _Folder] = {}

    def find(self) -> GuardedFiles:
        """Return the current guarded paths. Checks some 60 folders; unreadable ones count as empty."""
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
        # A name that is a link brings what it leads to; a folder around that put in its place would be open.
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
            return known if known is not None and known.read_at == read_at else _look(path, place, read_at)
        except OSError:
            return None


def _look(path: Path, place: str, read_at: tuple[int, int, int]) -> _Folder:
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
                # The repository of the workspace itself is covered with more care; see `repository`.
                folders += [name] if is_folder and (place or entry.name != ".git") else []
            elif known_name(name) is not None:
                guarded.append(name)
            elif is_folder and entry.name not in _UNINTERESTING:
                folders.append(name)
    return _Folder(read_at, tuple(guarded), tuple(folders))


def found_in(finders: Sequence[GuardedFinder]) -> GuardedFiles:
    """Return the guarded paths of several folders together."""
    each = [finder.find() for finder in finders]
    return GuardedFiles(
        tuple(path for files in each for path in files.read_only),
        tuple(path for files in each for path in files.pinned),
    )


# name: (x86_64, aarch64); None where the architecture has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
}
# Programs have an alternative if these do not exist.
_ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _UNSHARE, _SOCKET, _IOCTL = (56, 220), (272, 97), (41, 198), (16, 29)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_NAMESPACES = 0x7E020000
_TIME_NAMESPACE = 0x80
_TIOCSTI, _TIOCLINUX, _TIOCCONS = 0x5412, 0x541C, 0x541D
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_RAW = 3

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

Program = list[tuple[int, int, int, int]]


def supported(machine: str | None = None) -> bool:
    """Return whether the numbers of the system calls of this machine are known."""
    return (machine or platform.machine()) in _ARCHITECTURES


@cache
def program(*, internet: bool, unix: bool, machine: str | None = None) -> bytes:
    """Return the filter as an array of `struct sock_filter`.

    `internet` and `unix` allow sockets of these families. Raises `KeyError` for unsupported machines.
    """
    index, architecture = _ARCHITECTURES[machine or platform.machine()]
    code: Program = [
        (_LD, 0, 0, 4),
        (_JEQ, 1, 0, architecture),
        # A call of another architecture has other numbers: none of them passes.
        (_RET, 0, 0, _ERRNO | errno.ENOSYS),
        (_LD, 0, 0, 0),
    ]
    if index == 0:
        code += [(_JGE, 0, 1, _X32), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    for numbers, reply in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for pair in numbers.values():
            if (number := pair[index]) is not None:
                code += _for(number, [_refuse(reply)])
    code += _for(_CLONE[index], _flags(0, _NAMESPACES))
    code += _for(_UNSHARE[index], _flags(0, _NAMESPACES | _TIME_NAMESPACE))
    code += _for(_IOCTL[index], _values(1, (_TIOCSTI, _TIOCLINUX, _TIOCCONS), errno.EPERM))
    code += _for(_SOCKET[index], _sockets(internet, unix))
    code.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _for(number: int, body: Program) -> Program:
    """Return instructions that run `body` only for the system call with this number."""
    return [(_JEQ, 0, len(body), number), *body]


def _refuse(reply: int) -> tuple[int, int, int, int]:
    return (_RET, 0, 0, _ERRNO | reply)


def _argument(index: int) -> tuple[int, int, int, int]:
    """Return the instruction that loads the lower half of an argument, which is all the kernel reads here."""
    return (_LD, 0, 0, 16 + 8 * index)


def _flags(index: int, mask: int) -> Program:
    return [_argument(index), (_JSET, 0, 1, mask), _refuse(errno.EPERM), (_RET, 0, 0, _ALLOW)]


def _values(index: int, values: tuple[int, ...], reply: int) -> Program:
    tests: Program = []
    for value in values:
        tests += [(_JEQ, 0, 1, value), _refuse(reply)]
    return [_argument(index), *tests, (_RET, 0, 0, _ALLOW)]


def _sockets(internet: bool, unix: bool) -> Program:
    """Return instructions that allow only Unix sockets, internet streams and datagrams, and route queries."""
    allow = (_RET, 0, 0, _ALLOW)
    code: Program = [_argument(0)]
    if unix:
        code += [(_JEQ, 0, 1, _AF_UNIX), allow]
    if internet:
        is_raw: Program = [
            _argument(1),
            (_AND, 0, 0, 0xF),
            (_JEQ, 0, 1, _SOCK_RAW),
            _refuse(errno.EPERM),
            allow,
        ]
        code += [(_JEQ, 1, 0, _AF_INET), (_JEQ, 0, len(is_raw), _AF_INET6), *is_raw]
        is_route: Program = [_argument(2), (_JEQ, 0, 1, 0), allow, _refuse(errno.EPERM)]
        code += [(_JEQ, 0, len(is_route), _AF_NETLINK), *is_route]
    return [*code, _refuse(errno.EAFNOSUPPORT)]


_FOLDER = Path(__file__).parent
# Run as a module, so that its compiled form is used.
_START = "import sys; sys.path.append(sys.argv.pop(1)); import launcher; launcher.main()"
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1


@functools.cache
def interpreter() -> str:
    """Return the path of the Python that runs Hermes, outside of its virtual environment."""
    return os.path.realpath(sys.executable)


@functools.cache
def own_files() -> tuple[Path, ...]:
    """Return the files that the launcher needs, and commands that use the Python of Hermes."""
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
    """Return the version of the kernel's Landlock interface, 0 if there is none."""
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
    """Return the file access rights that this version of Landlock knows and the boundary uses."""
    rights = READ | _WRITE_FILE | _CHANGE
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    return rights


class Landlock:
    """Starts programs through the launcher. `spaces` tells whether they get separate namespaces."""

    name: SandboxName = "landlock"

    def __init__(self, *, spaces: bool, version: int | None = None) -> None:
        self.spaces = spaces
        self.has_mounts = self.lays_read_only = spaces
        self._version = landlock_version() if version is None else version

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        view = places(policy)
        try:
            known = identities(anchored(view))
            reserved = hold(missing(view) if self.spaces else ())
        except OSError as error:
            raise ToolError(f"The sandbox cannot be drawn around {policy.workspace}: {error}.") from error
        shape, seen = recognisable(policy, view) if policy.waits and self.spaces else (None, ())
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
    """Yield Landlock rules for the whole tree, as path and rights.

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
            # What shows through a hidden folder.
            yield from grants_below(path, place.kind)
