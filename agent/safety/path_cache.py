"""Cache of paths on disk for one decision: where links lead, each asked once.

Links may change between two decisions but not within one, so what was found out is
kept only while `cached_paths` lasts. Folders are asked from the top, so paths below a
folder that does not exist, or that was seen before, cost next to nothing.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TypeVar

_DEEPEST = 128
"""Folders inside each other up to which every one of them is remembered."""
_MANY = 24
"""Names asked in one folder after which the folder is listed instead."""
_MOST_LISTED = 4_096
"""Entries of a folder up to which a list of them is quicker than asking for single names."""
_LISTS_ALL = sys.platform == "linux"
"""Whether a name that is in no list of a folder is surely not there, as far as `_is_listed` says so."""
_UNLISTED = re.compile(r"/(?:proc(?!/\d+/fd$)|sys|dev|run)\b")
"""Where folders answer to names they do not list."""

Answer = TypeVar("Answer")


class PathCache:
    """What has been seen of the disk."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {"": "/"}
        self._missing: set[str] = set()
        self._single: set[str] = set()
        self._answers: dict[object, object] = {}
        self._asked: Counter[str] = Counter()
        self._lists: dict[str, frozenset[str] | None] = {}

    def real(self, path: str) -> str:
        """Where an absolute path leads when all links in it are followed; like `os.path.realpath`.

        Raises `OSError` or `ValueError` for what no path can be.
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
        """The same for a path of very many folders; where the first ones are missing, no more are asked."""
        names = path.split("/")
        head = self.real("/".join(names[:_DEEPEST]))
        rest = names[_DEEPEST:]
        if head not in self._missing or not {"", ".", ".."}.isdisjoint(rest):
            return os.path.realpath(path)
        real = "/".join((head, *rest))
        self._missing.add(real)
        return real

    def missing(self, path: str) -> bool:
        """Whether nothing is at an absolute path. True only when that is certain."""
        try:
            return self.real(path) in self._missing
        except (OSError, ValueError):
            return False

    def is_free(self, path: str) -> bool:
        """Whether nothing at all has this absolute path, not even a link. True only when that is certain."""
        try:
            return self.real(path) == path and path in self._missing
        except (OSError, ValueError):
            return False

    def is_itself(self, path: str) -> bool:
        """Whether no name in an absolute path is a link, and the last one no second name of a file.

        Nothing need be there. True only when that is certain.
        """
        try:
            return self.real(path) == path and path in self._single
        except (OSError, ValueError):
            return False

    def _step(self, folder: str, name: str) -> str:
        """One name further from a folder in which no link is left."""
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
        """Whether a folder that was asked for many names surely has none like this one."""
        if folder not in self._lists:
            self._asked[folder] += 1
            if self._asked[folder] < _MANY:
                return False
            self._lists[folder] = _listed(folder)
        listed = self._lists[folder]
        # Some file systems hide names with a dot, know short names, or forms of a letter as one.
        plain = listed is not None and name.isascii() and name[0] != "." and "~" not in name
        return plain and listed is not None and name.casefold() not in listed

    def once(self, question: object, find: Callable[[], Answer]) -> Answer:
        """What `find` says, asked only the first time for each question."""
        if question not in self._answers:
            self._answers[question] = find()
        return self._answers[question]  # type: ignore[return-value]


def _listed(folder: str) -> frozenset[str] | None:
    """The names in a folder whatever their case; None where a list does not tell, or tells too much."""
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
    """The cache of the decision being made, or a fresh one."""
    return _CURRENT.get() or PathCache()


@contextmanager
def cached_paths() -> Iterator[PathCache]:
    """While it lasts, the disk is asked once about each path. Inside another one, that one goes on."""
    if (look := _CURRENT.get()) is not None:
        yield look
        return
    look = PathCache()
    token = _CURRENT.set(look)
    try:
        yield look
    finally:
        _CURRENT.reset(token)
