"""Paths on the disk whose loss cannot be undone, the patterns that match them, and a cache of links.

Most functions compare only names: paths are absolute and are compared component by component, with shell
globs (`*`, `?`, `[…]`) as patterns. Only `PathCache` reads the disk.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, pattern, words
from tools.kit.lazy_pattern import lazy_pattern

SYSTEM_FOLDERS = words(
    "/bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /usr "
    "/var /usr/bin /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/local /usr/sbin /usr/share "
    "/usr/src /var/lib /etc/ssh /etc/systemd /etc/pam.d /nix /nix/store /snap "
    "/Applications /Library /System /Users /Volumes /private /private/etc /private/var /cores"
)

VITAL_FILES = ("/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/group", "/etc/sudoers")
KERNEL_FILES = ("/proc/sysrq-trigger", "/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port")

LONGEST_PATH = 4_096
"""The limit in characters above which the system opens no path."""

_has_glob = re.compile(f"[{''.join(GLOBS)}]").search
_DISK = lazy_pattern(
    r"/dev/(?:"
    r"r?(?:sd|vd|xvd|hd)[a-z]{1,3}\d{0,3}|nvme\d+(?:c\d+)?(?:n\d+)?(?:p\d+)?|mmcblk\d+(?:p\d+|boot\d|rpmb)?"
    r"|r?disk\d+(?:s\d+)*|md\d+|dm-\d+|disk/by-[a-z]+/.+|mapper/(?!control$).+|zd\d+|pmem\d+"
    r")"
)
_SHORT = 256
"""The limit in characters on paths whose components are cached, because several checks need them."""
_UNTIDY = frozenset({"", ".", ".."})
_SAMPLE_DISKS = words("sda sda1 sdb vda vda1 xvda hda nvme0n1 nvme0n1p1 mmcblk0 disk0 disk1 dm-0 md0")
# Dissimilar names: a pattern that matches two of them matches nearly everything.
_PROBES = ("bin", "docs", "src1", "Zeta", "x9", ".config", ".local")


def parts(path: str) -> tuple[str, ...]:
    """Return the names in a marked absolute path, with `.`, `..`, doubled and trailing slashes resolved."""
    return _known_parts(path) if len(path) <= _SHORT else _parts(path)


def is_tidy(path: str) -> bool:
    """Return whether an absolute path certainly has no `.`, `..`, doubled or trailing slash."""
    return (
        path[:1] == "/" and path[-1:] != "/" and "/." not in path and "//" not in path and path[:5] != "/proc"
    )


def _parts(path: str) -> tuple[str, ...]:
    names = path.split("/")
    if names[0] == "" and names[1:2] != ["proc"] and _UNTIDY.isdisjoint(names[1:]):
        return tuple(names[1:])
    names = []
    for name in path.split("/"):
        if name in ("", "."):
            continue
        if name == "..":
            if names:
                names.pop()
        else:
            names.append(name)
    # `/proc/<process>/root` and `/proc/<process>/cwd/..` lead to the real root.
    while len(names) >= 3 and names[0] == "proc" and names[2] == "root":
        names = names[3:]
    return tuple(names)


_known_parts = lru_cache(maxsize=16_384)(_parts)


def absolute(path: str) -> str:
    """Return a marked absolute path with `.`, `..`, doubled and trailing slashes resolved."""
    return _known_absolute(path) if len(path) <= _SHORT else _absolute(path)


def _absolute(path: str) -> str:
    return path if is_tidy(path) else "/" + "/".join(parts(path))


_known_absolute = lru_cache(maxsize=16_384)(_absolute)


def joined(cwd: str, path: str) -> str:
    """Return a marked path unchanged if it is absolute, otherwise appended to `cwd`."""
    return path if path.startswith("/") else f"{cwd}/{path}"


class Places:
    """The paths that must not be lost: system folders, home folders, and Hermes's files.

    `guarded` files and folders may be read but never changed, `secret` ones neither read nor changed. The
    folders that contain them must not be lost either. `other_homes` are further spellings of the home folder.
    All paths are absolute.
    """

    def __init__(
        self,
        home: str,
        guarded: Sequence[str] = (),
        secret: Sequence[str] = (),
        other_homes: Sequence[str] = (),
    ) -> None:
        self.home = home
        self._folders = _precious((home, *other_homes), (*guarded, *secret))
        self._precious = frozenset("".join([f"/{name}" for name in names]) for names in self._folders)
        self._files = _vital((*guarded, *secret))
        own = ["".join([f"/{name}" for name in parts(path)]) for path in (*guarded, *secret)]
        self._near_files = (*own, *VITAL_FILES, *KERNEL_FILES, "/private", "/dev")
        """The prefixes of all paths that must not be overwritten, and of paths that may contain them."""
        self._guarded = _Own(tuple(parts(path) for path in (*guarded, *secret)))
        self._secret = _Own(tuple(parts(path) for path in secret))
        self._secret_names = tuple(dict.fromkeys(names[-1] for names in self._secret.paths))

    def disaster(self, path: str) -> str | None:
        """Return a description of what is lost by deleting or moving a marked path; None if it is not vital.

        The path may end in a glob: `/*` and `~/*` mean all content of the folder.
        """
        if path.isascii() and absolute(path) == path and path.count("/") > 2 and path not in self._precious:
            return None
        if UNKNOWN in path or _impossible(path):
            return None
        names = parts(path)
        if not names:
            return "the root folder /"
        whole = _is_everything(names[-1])
        if whole and len(names) == 1:
            return "everything in the root folder /"
        inside = _find(names[:-1], self._folders) if whole else None
        if inside is not None:
            return f"everything in {inside}"
        return _find(names, self._folders) or _somebodys_home(names, whole)

    def wreck(self, path: str) -> str | None:
        """Return a description of the vital file destroyed by writing to a marked path; None if it is not
        vital.
        """
        if path.isascii() and not path.startswith(self._near_files) and absolute(path) == path:
            return None
        if _impossible(path):
            return None
        names = parts(path)
        if names and names[0] == "dev" and is_disk(path):
            return f"the disk {literal('/' + '/'.join(names))}"
        if (file := _find(names, self._files)) is not None:
            return file
        return "Hermes' own files" if self._guarded.covers(names) else None

    def hides(self, path: str) -> bool:
        """Return whether the marked path is a file of keys or conversations that tools must not read."""
        return self.may_hide(path) and not _impossible(path) and self._secret.covers(parts(path))

    def may_hide(self, text: str) -> bool:
        """Return whether `hides` may be true for any marked path in a text; False is certain."""
        for name in self._secret_names:
            if name in text:
                return True
        return bool(self._secret_names) and not text.isascii() and _has_glob(text) is not None


class _Own:
    """Hermes's own files and folders, for fast look-up."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self.paths = tuple(dict.fromkeys(names for names in paths if names))
        self._known = frozenset(self.paths)
        self._depths = sorted({len(names) for names in self.paths})
        self._folders = frozenset(names[:-1] for names in self.paths)

    def covers(self, names: tuple[str, ...]) -> bool:
        """Return whether a path is one of these files, inside one of these folders, or a journal next to one
        of them.
        """
        if not _plain(names) and any(map(_has_glob, names)):
            return any(_covers(own, names) for own in self.paths)
        for depth in self._depths:
            if names[:depth] in self._known:
                return True
        return names[:-1] in self._folders and any(_covers(own, names) for own in self.paths)


Index = dict[tuple[str, ...], str]
"""A description for each path, given as the tuple of its names."""


def _precious(homes: Sequence[str], own: Sequence[str]) -> Index:
    """Return the paths that must not be deleted, with a description for each.

    They are home folders and Hermes's files with all their parent folders, and system folders.
    """
    index: Index = {}
    for path in (*own, *homes):
        names = parts(path)
        index.update((names[:depth], "/" + "/".join(names[:depth])) for depth in range(1, len(names)))
    index.update((parts(path), "Hermes' own files") for path in own)
    index.update((parts(folder), f"the system folder {folder}") for folder in sorted(SYSTEM_FOLDERS))
    index.update((parts(home), f"the home folder {home}") for home in homes)
    return index


def _vital(own: Sequence[str]) -> Index:
    index: Index = {parts(path): "Hermes' own files" for path in own}
    for file in KERNEL_FILES:
        index[parts(file)] = f"the running kernel ({file})"
    for file in VITAL_FILES:
        index[parts(file)] = index[("private", *parts(file))] = file
    return index


def _plain(names: tuple[str, ...]) -> bool:
    """Return whether the names certainly have no marks. Marks are not ASCII."""
    return "".join(names).isascii()


def _find(names: tuple[str, ...], index: Index) -> str | None:
    """Return the description of a path in the index, or None. The names may be globs."""
    if (found := index.get(names)) is not None:
        return found
    if _plain(names) or not any(map(_has_glob, names)):
        return None
    return next((what for path, what in index.items() if _matches(names, path)), None)


def _somebodys_home(names: tuple[str, ...], whole: bool) -> str | None:
    if names[0] not in ("home", "Users") or len(names) > 3 or len(names) == 1:
        return None
    if len(names) == 2 or whole:
        return f"the home folder /{literal('/'.join(names[:2]))}"
    return None


def _impossible(path: str) -> bool:
    """Return whether a path is too long to exist."""
    return len(path) > LONGEST_PATH and not _has_glob(path)


def is_disk(path: str) -> bool:
    """Return whether a marked absolute path is a raw disk or partition, or a glob that can match one."""
    full = absolute(path)
    if _has_glob(full):
        names = parts(full)
        return any(_matches(names, ("dev", disk)) for disk in _SAMPLE_DISKS)
    if UNKNOWN in full:
        return any(_DISK.fullmatch(full.replace(UNKNOWN, guess)) for guess in ("a", "0", "0n1", ""))
    return _DISK.fullmatch(full) is not None


def _is_everything(name: str) -> bool:
    """Return whether a component of a path is a glob that matches almost any name."""
    if not _has_glob(name):
        return False
    expression = pattern(name)
    return sum(expression.fullmatch(probe) is not None for probe in _PROBES) >= 2


def _matches(names: Sequence[str], folder: Sequence[str]) -> bool:
    if len(names) != len(folder):
        return False
    return all(
        name == real or (_has_glob(name) is not None and pattern(name).fullmatch(real) is not None)
        for name, real in zip(names, folder, strict=True)
    )


def _covers(own: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Return whether the path `names` is `own`, inside it, or a journal next to it."""
    if len(names) < len(own) or not own:
        return False
    if _matches(names[: len(own)], own):
        return True
    return len(names) == len(own) and names[:-1] == own[:-1] and names[-1].startswith(f"{own[-1]}-")


_DEEPEST = 128
"""The number of components in a path up to which every folder is cached."""
_MANY = 24
"""The number of names looked up in one folder after which the folder is listed instead."""
_MOST_LISTED = 4_096
"""The number of entries up to which listing a folder is faster than single lookups."""
_LISTS_ALL = sys.platform == "linux"
"""True if a name missing in a folder's listing certainly does not exist; `_is_unlisted` has exceptions."""
_UNLISTED = lazy_pattern(r"/(?:proc(?!/\d+/fd$)|sys|dev|run)\b")
"""Folders that may contain names which a listing does not show."""

Answer = TypeVar("Answer")


class PathCache:
    """A cache of what reading links and folders on the disk returned."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {"": "/"}
        self._missing: set[str] = set()
        self._single: set[str] = set()
        self._answers: dict[object, object] = {}
        self._asked: Counter[str] = Counter()
        self._lists: dict[str, frozenset[str] | None] = {}

    def real(self, path: str) -> str:
        """Return an absolute path with all links followed, like `os.path.realpath`.

        Raises `OSError` or `ValueError` for impossible paths.
        """
        known = self._real
        if (found := known.get(path)) is not None:
            return found
        if "\0" in path or not path.startswith("/"):
            return os.path.realpath(path)
        if path.count("/") > _DEEPEST:
            return self._deep(path)
        head, _, name = path.rpartition("/")
        if (real := known.get(head)) is not None:
            known[path] = real = self._step(real, name)
            return real
        names: list[str] = []
        head = path
        while head not in known:
            head, _, name = head.rpartition("/")
            names.append(name)
        real = known[head]
        for name in reversed(names):
            head = f"{head}/{name}"
            known[head] = real = self._step(real, name)
        return real

    def _deep(self, path: str) -> str:
        """Resolve a path of very many folders. If the first ones do not exist, the disk is not read again."""
        names = path.split("/")
        head = self.real("/".join(names[:_DEEPEST]))
        rest = names[_DEEPEST:]
        if head not in self._missing or not {"", ".", ".."}.isdisjoint(rest):
            return os.path.realpath(path)
        real = "/".join((head, *rest))
        self._missing.add(real)
        return real

    def missing(self, path: str) -> bool:
        """Return whether nothing exists at an absolute path, links followed. True only if that is certain."""
        try:
            return self.real(path) in self._missing
        except (OSError, ValueError):
            return False

    def is_free(self, path: str) -> bool:
        """Return whether nothing exists at an absolute path, not even a link. True only if that is
        certain.
        """
        try:
            return self.real(path) == path and path in self._missing
        except (OSError, ValueError):
            return False

    def is_itself(self, path: str) -> bool:
        """Return whether no component of an absolute path is a link, and the file has only this name.

        The file need not exist. True only if that is certain.
        """
        try:
            return self.real(path) == path and path in self._single
        except (OSError, ValueError):
            return False

    def _step(self, folder: str, name: str) -> str:
        """Return the path of `name` in `folder`, following links. `folder` must be resolved already."""
        if name in ("", "."):
            return folder
        if name == "..":
            return folder.rpartition("/")[0] or "/"
        path = f"{folder}/{name}" if folder != "/" else f"/{name}"
        if folder in self._missing or self._is_unlisted(folder, name):
            self._missing.add(path)
            self._single.add(path)
            return path
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            self._missing.add(path)
            self._single.add(path)
            return path
        except (OSError, ValueError):
            return path
        if stat.S_ISLNK(status.st_mode):
            try:
                return os.path.realpath(path)
            except OSError:  # a link that must not be read, such as those of other processes in `/proc`
                return path
        if status.st_nlink == 1 or not stat.S_ISREG(status.st_mode):
            self._single.add(path)
        return path

    def _is_unlisted(self, folder: str, name: str) -> bool:
        """Return whether a folder certainly has no entry of this name, according to a cached listing."""
        if folder not in self._lists:
            self._asked[folder] += 1
            if self._asked[folder] < _MANY:
                return False
            self._lists[folder] = _names_in(folder)
        listed = self._lists[folder]
        # Some file systems hide names with a dot, have short names, or treat different letters as equal.
        plain = listed is not None and name.isascii() and name[0] != "." and "~" not in name
        return plain and listed is not None and name.casefold() not in listed

    def once(self, question: object, find: Callable[[], Answer]) -> Answer:
        """Return the result of `find`, computed only once for each `question`."""
        if question not in self._answers:
            self._answers[question] = find()
        return self._answers[question]  # type: ignore[return-value]


def _names_in(folder: str) -> frozenset[str] | None:
    """Return the lower-case names in a folder; None if it cannot be listed reliably or has too many."""
    if not _LISTS_ALL or _UNLISTED.match(folder):
        return None
    try:
        with os.scandir(folder) as entries:
            found = [entry.name.casefold() for entry in islice(entries, _MOST_LISTED + 1)]
    except (OSError, ValueError):
        return None
    return frozenset(found) if len(found) <= _MOST_LISTED else None


_CURRENT: ContextVar[PathCache | None] = ContextVar("paths", default=None)


def current() -> PathCache:
    """Return the path cache of the current decision, or a new one."""
    return _CURRENT.get() or PathCache()


@contextmanager
def cached_paths() -> Iterator[PathCache]:
    """Yield a cache of disk reads, which `current` returns in this block. An enclosing cache is reused."""
    if (look := _CURRENT.get()) is not None:
        yield look
        return
    look = PathCache()
    token = _CURRENT.set(look)
    try:
        yield look
    finally:
        _CURRENT.reset(token)
