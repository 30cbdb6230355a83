"""Where paths lie: in the workspace, in the private scratch folder, or elsewhere; and which are special."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from pathlib import Path

from agent.safety.commands.secrets import is_secret, may_hold, says_nothing
from agent.safety.guarded import guard
from agent.safety.look import current
from agent.safety.places import Places, absolute, is_disk
from agent.safety.shell.marks import GLOBS, UNKNOWN, literal
from agent.safety.shell.output import MADE_BY_MKTEMP
from tools.text import reveal

DEVICES = frozenset(
    {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"}
)
TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")

BUILD_OUTPUT = re.compile(
    r"(?:dist|build|_build|out|target|node_modules|__pycache__|\.venv|venv|\.tox|\.nox|\.eggs|\.next|\.nuxt"
    r"|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.cache|\.parcel-cache|\.turbo|\.gradle"
    r"|coverage"
    r"|htmlcov|\.nyc_output|\.coverage|coverage\.xml|bin/Debug|obj|cmake-build-[\w-]+|\.svelte-kit"
    r"|\.angular"
    r"|bazel-[\w-]+|.*\.egg-info|.*\.(?:py[cod]|o|obj|a|so|class|tmp|log|gcda|gcno|tsbuildinfo|whl"
    r"|DS_Store|swp|orig|rej))"
)
"""Names of what a build or test run makes again."""


class Ground:
    """The folders of one session. Links are followed: one that leads outside counts as outside."""

    def __init__(
        self,
        places: Places,
        workspace: Path,
        scratch: Path | None,
        own: Path | None = None,
        *,
        confined: bool = False,
    ) -> None:
        self.places = places
        self.confined = confined
        """Whether the operating system keeps commands from changing anything but the workspace."""
        self._home = Path(places.home)
        self._guard = guard(workspace, self._home, own)
        self._known: dict[tuple[str, str, bool], str | None] = {}
        self._ordinary: dict[str, bool] = {}
        self._alike: dict[str, bool] = {}
        self._workspace = _spellings(workspace)
        self._scratch = _spellings(scratch) if scratch is not None else ()
        self._kept = tuple(filter(None, map(_temporary, (*self._workspace, *_spellings(self._home)))))

    def afresh(self) -> Ground:
        """The same ground without what was found on the disk before."""
        twin = copy(self)
        twin._known = {}
        twin._ordinary = {}
        twin._alike = {}
        return twin

    def inside(self, path: str) -> bool:
        """Whether a marked absolute path is the workspace or lies in it."""
        return self._is_ordinary(path) or self._once("inside", path, False, self._inside) is not None

    def below(self, path: str) -> bool:
        """Whether a marked absolute path lies in the workspace and is not the workspace itself."""
        return self.inside(path) and _real(path) not in self._workspace

    def holds_home(self, path: str) -> bool:
        """Whether a marked absolute path is the person's home, or a folder above it, with the keys in it."""
        full = absolute(path)
        return _within(self.places.home, (full,)) or full in ("/root", "/home", "/etc", "/Users")

    def private(self, path: str) -> bool:
        """Whether a marked absolute path lies in the scratch folder."""
        return bool(self._scratch) and UNKNOWN not in path and _within(_real(path), self._scratch)

    def read(self, path: str) -> str | None:
        """What speaks against reading a marked absolute path."""
        return None if self._is_ordinary(path) else self._once("read", path, False, self._read)

    def write(self, path: str) -> str | None:
        """What speaks against writing to a marked absolute path."""
        return None if self._is_ordinary(path) else self._once("write", path, False, self._write)

    def delete(self, path: str, *, recursive: bool) -> str | None:
        """What speaks against deleting a marked absolute path."""
        return self._once("delete", path, recursive, self._delete)

    def _is_ordinary(self, path: str) -> bool:
        """Whether a path surely lies in the workspace and is nothing special, as most are."""
        known = self._ordinary
        if path not in known:
            known[path] = path.isascii() and current().is_itself(path) and self._is_nothing_special(path)
        return known[path]

    def _is_nothing_special(self, path: str) -> bool:
        """The same for a path that is itself: looked at once for all names in a folder that say nothing."""
        folder, _, name = path.rpartition("/")
        if not name or not self._guard.says_nothing(name) or not says_nothing(name):
            return self._lies_openly(path)
        alike = self._alike.get(folder)
        if alike is None:
            alike = self._alike[folder] = not may_hold(folder) and self._lies_openly(path)
        return alike or self._lies_openly(path)

    def _lies_openly(self, path: str) -> bool:
        return (
            absolute(path) == path
            and not path.startswith("/dev/")
            and _within(path, self._workspace)
            and not is_secret(path)
            and self._guarded(path) is None
        )

    def _once(self, what: str, path: str, whole: bool, find: Callable[[str, bool], str | None]) -> str | None:
        key = (what, path, whole)
        known = self._known
        if key not in known:
            known[key] = find(path, whole)
        return known[key]

    def _inside(self, path: str, whole: bool) -> str | None:
        return path if UNKNOWN not in path and _within(_real(path), self._workspace) else None

    def _read(self, path: str, whole: bool) -> str | None:
        if path.startswith("/dev/") and is_disk(path):
            return f"reads a disk ({shown(path)})"
        full = absolute(path)
        if is_secret(full):
            return f"reads secrets ({shown(path)})"
        real = _real(full)
        return f"reads secrets ({shown(path)})" if real != path and is_secret(real) else None

    def _write(self, path: str, whole: bool) -> str | None:
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            return "opens a network connection"
        full = absolute(path)
        if full in DEVICES or full.startswith("/dev/fd/"):
            return None
        if UNKNOWN in path:
            return "writes to a place that is not known here"
        real = _real(full)
        if what := self._guarded(path):
            return f"changes {what}"
        if is_secret(full):
            return f"changes secrets ({shown(path)})"
        if _within(real, self._workspace) or _within(real, self._scratch):
            return None
        # What lies beside a workspace or a home for tests is no scrap, wherever it lies.
        scrap = _temporary(full) and _temporary(real)
        if scrap and not (_within(full, self._kept) or _within(real, self._kept)):
            return None
        return f"writes outside of the workspace ({shown(path)})"

    def _delete(self, path: str, recursive: bool) -> str | None:
        full = absolute(path)
        if UNKNOWN in path:
            return "deletes what is not known here"
        if self.private(path):
            return None
        if what := self._guarded(path, whole=recursive):
            return f"deletes {what}"
        if _within(full, (MADE_BY_MKTEMP,)):
            return None
        if not self.inside(path):
            return f"deletes outside of the workspace ({shown(path)})"
        if self._is_output(full):
            return None
        return f"deletes {'everything in ' if recursive else ''}{shown(path)}"

    def _guarded(self, path: str, whole: bool = False) -> str | None:
        return self._guard.leads_to(path, whole=whole)

    def _is_output(self, full: str) -> bool:
        """Whether the path is, or lies in, what a build makes again."""
        for root in self._workspace:
            if _within(full, (root,)):
                return any(map(_is_made, full[len(root) :].split("/")))
        return False


def shown(path: str) -> str:
    """A marked path for a person: nothing in it is hidden, very long ones are shortened in the middle."""
    text = reveal(literal(path))
    return text if len(text) <= 120 else f"{text[:60]}…{text[-50:]}"


def _temporary(path: str) -> str | None:
    """The entry of a folder for temporary files in which an absolute path lies."""
    for folder in TEMPORARY:
        if path.startswith(f"{folder}/"):
            return f"{folder}/{path[len(folder) + 1 :].partition('/')[0]}"
    return None


def _spellings(path: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys((absolute(str(path)), os.path.realpath(path))))


def _within(path: str, folders: tuple[str, ...]) -> bool:
    for folder in folders:
        if path.startswith(folder) and (path == folder or folder[-1] == "/" or path[len(folder)] == "/"):
            return True
    return False


@lru_cache(maxsize=1_024)
def _is_made(name: str) -> bool:
    """Whether a build or test run makes again what has this name."""
    return BUILD_OUTPUT.fullmatch(literal(name)) is not None


def _real(path: str) -> str:
    """The path with links followed as far as it has no globs."""
    full = absolute(path)
    at = -1
    if not full.isascii():  # marks are no ASCII characters
        at = min((place for mark in GLOBS if (place := full.find(mark)) >= 0), default=-1)
    try:
        if at < 0:
            return current().real(full)
        folder, _, rest = full[:at].rpartition("/")
        return f"{current().real(folder or '/').rstrip('/')}/{rest}{full[at:]}"
    except (OSError, ValueError):
        return full
