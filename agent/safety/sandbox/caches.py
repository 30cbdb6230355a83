"""Caches of package managers and compilers, private to a workspace; `caches.yaml` lists them.

Files that a command writes into a cache can be run by the next command inside the sandbox, but never outside.
Programs find the caches through variables that are set only inside. The user's own caches are visible through
links and stay read-only. Commands can write to the folder, so nothing here follows a link in it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home, private_folder
from tools.kit.files import file_lock, lock_file, open_folder, open_lock, write_new
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from agent.core.config.schema import SandboxSettings

_TABLE = Path(__file__).with_name("caches.yaml")
_MOST = 30_000
"""The limit on entries linked from a user's cache; programs download what is left out."""
_LARGEST_COPY = 2_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = lazy_pattern(r"\{(\w+)\}")
_PROXY = " ".join(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=3128" for scheme in ("http", "https"))


@dataclass(frozen=True, slots=True)
class SweptCaches:
    """The result of removing caches: the sizes of what is left and what was removed, in bytes."""

    size: int = 0
    freed: int = 0
    removed: int = 0
    """The number of workspaces whose caches were removed."""


class WorkspaceCaches:
    """The private caches of one workspace, below `root`. Nothing is created before `prepare`.

    `environ` are the user's variables, `user` is the home folder. `is_open` returns whether commands can
    write to a path anyway.
    """

    def __init__(
        self,
        root: Path,
        workspace: Path,
        environ: Mapping[str, str],
        user: Path,
        is_open: Callable[[Path], bool] = lambda path: False,
    ) -> None:
        key = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
        name = re.sub(r"[^\w.-]", "_", workspace.name)[:40].lstrip(".") or "workspace"
        self._root = root
        self.folder = root / f"{name}-{key}"
        self._environ = environ
        self._user = user
        self._is_open = is_open
        self._lock = -1
        self._workspace = workspace
        self._is_ready = False
        self._waiting: list[Path] = []
        """Missing files whose appearance shows that a cache left empty is needed."""
        self.shown: tuple[Path, ...] = ()
        """The user's caches, which are readable inside the sandbox."""
        self._variables: tuple[object, dict[str, str]] = (None, {})
        """The last variables, after what they were made from."""

    def prepare(self) -> None:
        """Create the folder and its links, and protect it from `sweep` until `close` or the end of this
        process.

        Blocks. Raises `ConfigError` or `OSError`.
        """
        self.folder = private_folder(self._root).resolve() / self.folder.name
        if self._lock < 0:
            # Next to the folder, because commands can write inside it.
            self._lock = open_lock(f"{self.folder}.lock")
            lock_file(self._lock, shared=True)
        os.utime(self._lock)
        private_folder(self.folder)
        self._waiting = []
        owns = {own for spec in _table()["caches"].values() if (own := self._own(spec)) is not None}
        self.shown = tuple(own.resolve() for own in sorted(owns) if own.is_dir())
        with open_folder(self.folder.parent) as root, _entered(self.folder.name, root) as folder:
            for name, spec in _table()["caches"].items():
                with suppress(OSError), _entered(name, folder) as private:
                    self._show(spec, private)
        self._is_ready = True

    @property
    def is_ready(self) -> bool:
        """True if another call of `prepare` would have no effect."""
        return self._is_ready and not any(map(os.path.lexists, self._waiting))

    def recheck(self) -> None:
        """Make the next `prepare` check the user's caches again."""
        self._is_ready = False

    def close(self) -> None:
        """Release the folder, so that `sweep` may remove it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _show(self, spec: Mapping[str, Any], private: int) -> None:
        own, marks = self._own(spec), spec.get("when", ())
        if own is not None and own.is_file():
            _copy(own, own.name, private)
        if own is None or not own.is_dir():
            return
        if not marks or any(True for mark in marks for _ in self._workspace.glob(mark)):
            _fill(own, private, spec)
        else:
            self._waiting += [self._workspace / mark for mark in marks if "/" not in mark]

    def variables(self, *, proxied: bool) -> dict[str, str]:
        """Return variables that make programs use the caches.

        `proxied` is true if commands are behind the proxy of a filtered network.
        """
        # Copied once, because each variable of the process is decoded when it is read.
        environ = dict(self._environ)
        needed = [own for spec in _table()["caches"].values() if "needs" in spec and (own := self._own(spec))]
        given = (proxied, self.folder, environ, [own for own in needed if own.exists()])
        if self._variables[0] != given:
            self._variables = (given, self._choose(proxied, environ))
        return dict(self._variables[1])

    def _choose(self, proxied: bool, environ: dict[str, str]) -> dict[str, str]:
        table = _table()
        chosen: dict[str, str] = {}
        for name, spec in table["caches"].items():
            own, private = self._own(spec), self.folder / name
            first = next(iter(spec["set"]))
            given = environ.get(first, "")
            needs, there = spec.get("needs"), own is not None and own.exists()
            if needs and there != (needs == "own"):
                continue
            if given.startswith("/") and self._is_open(Path(given)):
                continue
            places = {"private": private, "own": own or private, "ours": _TABLE.parent}
            known = {**environ, **{each: str(place) for each, place in places.items()}}
            chosen |= {each: _fill_in(text, known) for each, text in spec["set"].items()}
        if proxied:
            known = {**environ, **chosen}
            chosen |= {each: f"{known.get(each, '')} {_PROXY}".strip() for each in table["proxied"]}
        return chosen

    def _own(self, spec: Mapping[str, Any]) -> Path | None:
        if "own" not in spec:
            return None
        given = self._environ.get(next(iter(spec["set"])), "")
        return Path(given) if given.startswith("/") else self._user / spec["own"]


def sweep_over(home: Home, settings: SandboxSettings) -> SweptCaches:
    """Remove old and excess caches according to the settings; see `sweep`."""
    return sweep(
        home.sandbox_caches, max_bytes=settings.cache_mb * 1_000_000, max_age=settings.cache_days * 86_400
    )


def sweep(root: Path, *, max_bytes: int, max_age: float, now: float | None = None) -> SweptCaches:
    """Remove caches unused for `max_age` seconds, then the least recently used ones above `max_bytes`.

    Caches that a process uses are kept, as are those that cannot be removed. Blocks.
    """
    now = time.time() if now is None else now
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError):
        for lock in sorted(root.glob("*.lock")):
            folder = lock.with_suffix("")
            found.append((lock.stat().st_mtime, _size(folder), folder))
    total = sum(size for _, size, _ in found)
    freed = removed = 0
    for used, size, folder in sorted(found):
        if now - used <= max_age and total - freed <= max_bytes:
            continue
        with suppress(OSError), file_lock(f"{folder}.lock", seconds=0):
            shutil.rmtree(folder)
            Path(f"{folder}.lock").unlink()
            freed, removed = freed + size, removed + 1
    return SweptCaches(total - freed, freed, removed)


def _size(folder: Path) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - very many of them
    return size


@functools.cache
def _table() -> dict[str, Any]:
    from tools.kit.yaml_text import load_table

    return load_table(_TABLE)


def _fill_in(text: str, known: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: known.get(found[1], ""), text).strip()


class _Filling:
    """A copier of entries from a user's cache to a private one, where their names are free there."""

    def __init__(self, put: Callable[[Path, str, int], None], keeps: frozenset[str]) -> None:
        self._put = put
        self._keeps = keeps
        self._left = _MOST

    def fill(self, source: Path, target: int, pattern: Sequence[str]) -> None:
        """Add the entries below `source` that match a path pattern to the open folder `target`."""
        first, rest = pattern[0], pattern[1:]
        with suppress(OSError):
            there = set(os.listdir(target))
            for entry in self._entries(source, first):
                deep = first == "**" and entry.is_dir(follow_symlinks=False)
                if self._left <= 0:
                    return
                if deep or (rest and entry.is_dir()):
                    self._deeper(Path(entry.path), entry.name, target, pattern if deep else rest)
                elif not rest and entry.name not in there:
                    self._left -= 1
                    self._put(Path(entry.path), entry.name, target)

    def _entries(self, source: Path, first: str) -> list[os.DirEntry[str]]:
        with os.scandir(source) as entries:
            if first in ("*", "**"):
                return [each for each in entries if each.name not in self._keeps]
            return [each for each in entries if each.name == first]

    def _deeper(self, source: Path, name: str, target: int, pattern: Sequence[str]) -> None:
        with suppress(OSError), _entered(name, target) as below:
            self.fill(source, below, pattern)


@contextmanager
def _entered(name: str, folder: int) -> Iterator[int]:
    """Open a subfolder of an open folder, creating it if missing. Raises `OSError`, for a link as well."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    below = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield below
    finally:
        os.close(below)


def _fill(own: Path, target: int, spec: Mapping[str, Any]) -> None:
    keeps = frozenset(str(spec.get("keeps", "")).split())
    for kind, put in (("links", _link), ("copies", _copy)):
        for pattern in spec.get(kind, ()):
            _Filling(put, keeps).fill(own, target, pattern.split("/"))


def _link(source: Path, name: str, folder: int) -> None:
    os.symlink(source, name, dir_fd=folder)


def _copy(source: Path, name: str, folder: int) -> None:
    status = source.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_COPY:
        return
    write_new(name, source.read_bytes(), folder=folder)
