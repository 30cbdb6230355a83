"""Classification of paths (workspace, temporary files, or elsewhere), and objections to their use."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from glob import iglob
from itertools import islice
from pathlib import Path

from agent.safety.guarded import guard
from agent.safety.places import Places, absolute, current, is_disk
from agent.safety.reader.known_output import MADE_BY_MKTEMP
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, pattern
from agent.safety.rules import UndoCoverage
from agent.workspace.checkpoints.coverage import NO_REPOSITORY, git_coverage
from agent.workspace.checkpoints.entries import Coverage
from tools.kit.lazy_pattern import lazy_pattern
from tools.secret_places import (
    LIKELY_NAMES,
    NAMES,
    PUBLIC_NAMES,
    STORES,
    STORES_ANYWHERE,
    SYSTEM,
    any_of,
    rows,
)
from tools.text.safe_text import reveal

_ANYWHERE = any_of(rows(STORES_ANYWHERE))
_FOLDERS = lazy_pattern(
    rf"/(?:{_ANYWHERE}|proc/[^/]+/(?:environ|mem)|proc/kcore|dev/k?mem)(?:/|$)"
    rf"|^(?:{any_of(rows(SYSTEM))})(?:/|$)",
    re.IGNORECASE,
)
_IN_HOME = lazy_pattern(rf"(?:{any_of(rows(STORES))})(?:/|$)", re.IGNORECASE)
_OF_SOMEBODY = lazy_pattern(r"/(?:home|Users)/[^/]+/|/root/")
_NAMES = lazy_pattern(any_of(rows(NAMES + LIKELY_NAMES)), re.IGNORECASE)
_PUBLIC = lazy_pattern(any_of(rows(PUBLIC_NAMES)), re.IGNORECASE)
# Paths for which a pattern such as `.e*` or `~/.s*/id_*` may stand.
_SAMPLES = (
    ".env",
    ".netrc",
    ".npmrc",
    ".bash_history",
    "id_rsa",
    "id_ed25519",
    "credentials",
    "server.pem",
    "server.key",
)
_SAMPLE_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube")
_has_start = re.compile(r"/\.|/Library/|/snap/|/etc/|/run/|/var/|/proc/|/dev/", re.IGNORECASE).search
"""A function that returns a match if a path contains a part common to all folders with secrets, or None."""


def is_secret(path: str) -> bool:
    """Return whether a marked absolute path probably names a secret file, or is a pattern for one."""
    name = path.rpartition("/")[2]
    if path.isascii() or not any(mark in path for mark in GLOBS):
        known = _by_name(name)
        if known is not None:
            return known
        return _has_start(path) is not None and (_FOLDERS.search(path) is not None or _in_a_home(path))
    return _may_be_secret(path)


def _in_a_home(path: str) -> bool:
    """Return whether a path is a store of secrets below any user's home folder."""
    own = os.environ.get("HOME", "").rstrip("/")
    if own and path.startswith(f"{own}/"):
        return _IN_HOME.match(path, len(own) + 1) is not None
    home = _OF_SOMEBODY.match(path)
    return home is not None and _IN_HOME.match(path, home.end()) is not None


@lru_cache(maxsize=2_048)
def _by_name(name: str) -> bool | None:
    """Return whether a file is secret by its name; None if that depends on its folder."""
    if _PUBLIC.fullmatch(name):
        return False
    return True if _NAMES.fullmatch(name.replace(UNKNOWN, "")) else None


@lru_cache(maxsize=512)
def _may_be_secret(path: str) -> bool:
    names = path.split("/")
    last = names[-1]
    if last.endswith(".env"):
        return True  # a search also finds hidden names
    if len(names) > 3 and _may_be(names[1], "proc") and (_may_be(last, "environ") or _may_be(last, "mem")):
        return True  # of some process
    if any(mark in last for mark in GLOBS) and not _is_wide(last):
        expression = pattern(last)
        if any(expression.fullmatch(sample) for sample in _SAMPLES):
            return True
    elif not _is_wide(last) and _NAMES.fullmatch(last) and not _PUBLIC.fullmatch(last):
        return True
    for place, name in enumerate(names[:-1]):
        if any(mark in name for mark in GLOBS) and not _is_wide(name):
            expression = pattern(name)
            if any(expression.fullmatch(folder) for folder in _SAMPLE_FOLDERS):
                return True
        elif _FOLDERS.search("/" + "/".join(names[max(0, place - 3) : place + 1]) + "/"):
            return True
    return False


def _may_be(name: str, known: str) -> bool:
    """Return whether a marked name can match a known name."""
    return name == known or (
        any(map(name.__contains__, GLOBS)) and pattern(name).fullmatch(known) is not None
    )


def _is_wide(name: str) -> bool:
    """Return whether a name is a pattern such as `*` that matches almost any name, except hidden files."""
    return any(mark in name for mark in GLOBS) and pattern(name).fullmatch("main") is not None


DEVICES = frozenset(
    {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"}
)
TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")
_MOST_SIZES = 2_000
"""The number of files whose size is checked before they are deleted."""
_MEGABYTE = 1_000_000


class Scope:
    """The folders of one session. Links are followed: a link that leads outside counts as outside.

    `own_tmp` means that commands have private temporary folders. Otherwise temporary folders hold files of
    other programs and count as outside.
    """

    def __init__(
        self,
        places: Places,
        workspace: Path,
        scratch: Path | None,
        own: Path | None,
        undo: UndoCoverage,
        *,
        own_tmp: bool,
    ) -> None:
        self._own_tmp = own_tmp
        self.places = places
        self.undo = undo
        self._guard = guard(workspace, Path(places.home), own)
        self._workspace = _spellings(workspace)
        self._scratch = _spellings(scratch) if scratch is not None else ()
        self._kept = tuple(
            filter(None, map(temporary_entry, (*self._workspace, *_spellings(Path(places.home)))))
        )

    def inside(self, path: str) -> bool:
        """Return whether a marked absolute path is the workspace or inside it."""
        return UNKNOWN not in path and _within(_real(path), self._workspace)

    def keeps_git(self, path: str) -> bool:
        """Return whether undo records the repository that contains a marked absolute path; True if there is
        none.
        """
        if UNKNOWN in path:
            return False
        found = git_coverage(Path(self._workspace[-1]), Path(_real(path)), Coverage())
        return found.whole or found.reason == NO_REPOSITORY

    def holds_home(self, path: str) -> bool:
        """Return whether a marked absolute path is the home folder, one above it, or a system folder."""
        full = absolute(path)
        return _within(self.places.home, (full,)) or full in ("/root", "/home", "/etc", "/Users", "/proc")

    def read(self, path: str) -> str | None:
        """Return the reason against reading a marked absolute path, as a clause; None if there is none."""
        if path.startswith("/dev/") and is_disk(path):
            return f"reads a disk ({mark_text(path)})"
        full = absolute(path)
        if is_secret(full) or ((real := _real(full)) != full and is_secret(real)):
            return f"reads secrets ({mark_text(path)})"
        return None

    def write(self, path: str) -> str | None:
        """Return the reason against writing to a marked absolute path, as a clause; None if there is none."""
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            return "opens a network connection"
        full = absolute(path)
        if full in DEVICES or full.startswith("/dev/fd/"):
            return None
        return self._changed(full, path, "changes", whole=False) or self._too_large(full, "changes")

    def delete(self, path: str, *, recursive: bool) -> str | None:
        """Return the reason against deleting a marked absolute path, as a clause; None if there is none."""
        full = absolute(path)
        if reason := self._changed(full, path, "deletes", whole=recursive):
            return reason
        if _real(full) in self._workspace:
            return "deletes the workspace itself"
        return self._too_large(full, "deletes")

    def _changed(self, full: str, path: str, does: str, *, whole: bool) -> str | None:
        if reason := self._guard.reason(does, full, whole=whole):
            return reason
        if is_secret(full) and not current().is_free(full):
            return f"{does} secrets ({mark_text(path)})"
        real = _real(full)
        if UNKNOWN not in path and (_within(real, self._workspace) or _within(real, self._scratch)):
            return None
        if _within(full, (MADE_BY_MKTEMP,)):
            return None
        # Files next to a workspace or a home for tests are not temporary, wherever they are.
        scrap = self._own_tmp and temporary_entry(full) and temporary_entry(real)
        if scrap and UNKNOWN not in path and not (_within(full, self._kept) or _within(real, self._kept)):
            return None
        what = "something" if UNKNOWN in path else "files"
        return f"{does} {what} outside of the workspace ({mark_text(full)})"

    def _too_large(self, full: str, does: str) -> str | None:
        """Return a reason if undo has no copy of a file because of its size, or of any; otherwise None."""
        if UNKNOWN in full or (full.isascii() and current().is_free(full)):
            return None
        for file, size in islice(_sizes(full, folders=does == "deletes"), _MOST_SIZES):
            if self.undo.largest < 0:
                return f"{does} a file while nothing is kept for undo ({mark_text(file)})"
            if size > self.undo.largest:
                return (
                    f"{does} a file that undo keeps no copy of ({mark_text(file)}, {size // _MEGABYTE:,} MB)"
                )
        return None


def _sizes(path: str, *, folders: bool) -> Iterator[tuple[str, int]]:
    """Yield regular files at a marked path, and with `folders` below it, with their sizes in bytes."""
    found = iglob(literal(path)) if any(mark in path for mark in GLOBS) else (path,)  # noqa: PTH207 - of texts
    for each in found:
        try:
            status = os.lstat(each)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(status.st_mode):
            yield each, status.st_size
        elif folders and stat.S_ISDIR(status.st_mode):
            yield from _below(each)


def _below(folder: str) -> Iterator[tuple[str, int]]:
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                yield f"{root}/{name}", os.lstat(f"{root}/{name}").st_size
            except OSError:
                continue


def mark_text(path: str) -> str:
    """Return a marked path for display, with hidden characters made visible and long paths shortened in the
    middle.
    """
    text = reveal(literal(path))
    return text if len(text) <= 120 else f"{text[:60]}…{text[-50:]}"


@lru_cache(maxsize=256)
def temporary_entry(path: str) -> str | None:
    """Return the entry of a temporary folder that is or contains an absolute path; None if it is in none."""
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


def _real(path: str) -> str:
    """Return the path with links followed, up to its first wildcard or unknown part."""
    full = absolute(path)
    at = -1
    if not full.isascii():  # marks are not ASCII characters
        at = min((place for mark in (*GLOBS, UNKNOWN) if (place := full.find(mark)) >= 0), default=-1)
    try:
        if at < 0:
            return current().real(full)
        folder, _, rest = full[:at].rpartition("/")
        return f"{current().real(folder or '/').rstrip('/')}/{rest}{full[at:]}"
    except (OSError, ValueError):
        return full
