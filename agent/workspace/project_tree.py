"""The last seen state of the project, which is compared with the disk.

Events only tell which paths to check. Changes are found by comparing contents, so lost, duplicate or late
events do no harm. Blocking; used by one thread at a time.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent.workspace.changes import MAX_NAMED
from agent.workspace.fingerprints import (
    MAX_TEXT,
    ContentKind,
    FileFingerprint,
    KeptTexts,
    digest_of,
    examine,
    is_text,
    stated_fingerprint,
)
from agent.workspace.ignore import IgnoreFiles
from agent.workspace.own_writes import OwnWrites
from tools.kit.threads import Stopped

if TYPE_CHECKING:
    from agent.workspace.checkpoints.git_index import Index

T = TypeVar("T")

PIECE = 1_024
"""The number of paths sorted at once, in well below a millisecond."""


def in_order(items: Iterable[T], key: Callable[[T], Any] | None = None) -> list[T]:
    """Return the items sorted. Slower than `sorted`, but other threads can run in between. Pure."""
    rest: Any = iter(items)
    runs: list[list[Any]] = []
    while run := sorted(islice(rest, PIECE), key=key):
        runs.append(run)
    return runs[0] if len(runs) == 1 else list(merge(*runs, key=key))


MAX_FOLDERS = 20_000
"""The number of watched folders; further ones are checked at intervals."""

MAX_KNOWN_FOLDERS = 60_000
MAX_KNOWN_FILES = 400_000
"""The limits of known folders and files. A file uses about 1 kB of memory."""

IGNORE_FILE, ATTRIBUTES_FILE = ".gitignore", ".gitattributes"
_STRETCH, _BREATH = 0.004, 0.001
"""Seconds of work, and of the pause after it, so that reading a project does not block the event loop."""


class FileEvents(Protocol):
    """A source of change reports."""

    def watch(self, folder: str) -> bool:
        """Start to watch a folder; return False if that is not possible."""
        ...

    def unwatch(self, folder: str) -> None:
        """Stop watching a folder, if it is watched."""
        ...

    def catch_up(self) -> None:
        """Wait until past changes have been reported, as far as the system can tell. May block."""
        ...

    def close(self) -> None:
        """Stop watching and end the thread. May block for a moment."""
        ...


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The states of a file before and after a change; None if it is missing. Texts are included if a diff can
    be shown.
    """

    path: str
    before: FileFingerprint | None
    after: FileFingerprint | None
    text_before: bytes | None
    text_after: bytes | None


BlobReader = Callable[[Mapping[str, int]], Iterable[tuple[str, bytes]]]
"""A function that takes the ids and sizes of git objects, and yields id and content of those available."""


class ProjectTree:
    """The states of all files below `root` (resolved) that are not ignored. Paths are relative to it.

    `home` is the folder of Hermes's own files. `read_blobs` reads contents that only git has.
    """

    def __init__(
        self,
        root: Path,
        source: FileEvents,
        own: OwnWrites,
        stop: threading.Event,
        home: Path | None = None,
        read_blobs: BlobReader = lambda wanted: (),
    ) -> None:
        self._root = root
        self._read_blobs = read_blobs
        self._index: Index | None = None
        """The git index, during the first scan."""
        self._source = source
        self._own = own
        self._stop = stop
        self._ignore = IgnoreFiles(root, home)
        self._entries: dict[str, FileFingerprint] = {}
        self._folders: dict[str, set[str]] = {}
        self._unwatched: set[str] = set()
        self._texts = KeptTexts(folder=home)
        self._before: dict[str, FileFingerprint | None] = {}
        self._silent = False
        self._breathed = 0.0
        self.left_out = False
        """True if the project has more folders or files than the limits."""

    @property
    def folders(self) -> int:
        return len(self._folders)

    @property
    def files(self) -> int:
        return len(self._entries)

    @property
    def unwatched(self) -> int:
        """Return the number of folders that cannot be watched and are only checked by `sweep`."""
        return len(self._unwatched)

    @property
    def cut_rules(self) -> Set[str]:
        """Return the ignore files with so many rules that some are not used."""
        return frozenset(self._ignore.cut)

    @property
    def has_root(self) -> bool:
        """Return whether the project folder existed at the last check."""
        return "" in self._folders

    def survey(self, index: Index | None = None) -> None:
        """Record the current state of the project, with which later checks compare.

        Files that are unchanged according to `index` are not read, and are removed from it. The index must be
        that of a repository without filters.
        """
        self._index = index
        with self._quietly():
            self._enter("")
        self._index = None

    def adopt(self, paths: Iterable[str]) -> None:
        """Record the current state of these paths without reporting changes."""
        for path in in_order(set(paths)):
            if path.rpartition("/")[0] in self._folders:
                self._adopt(path)
            elif (found := examine(self._root / path)) is not None:
                # Its folder has not been scanned yet; other changes there may be by others.
                self._own.expect(path, found.sha256)

    def _adopt(self, path: str) -> None:
        status = self._status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return
        with self._quietly():
            self._check_path(path)
            self._before.pop(path, None)

    def differences_at(self, paths: Iterable[str]) -> list[FileDifference]:
        """Return the differences at these paths; a folder includes everything below it."""
        if not self._is_there():
            return self._differences()
        ordered = in_order(set(paths))
        rules = [path.rpartition("/")[0] for path in ordered if path.rpartition("/")[2] == IGNORE_FILE]
        for folder in rules:
            self._ignore.forget(folder)
        # Missing paths come first: a moved folder keeps its watch, and must not lose it afterwards.
        for path in ordered:
            if self._knows(path) and not self._exists(path):
                self._vanish(path)
        for path in ordered:
            self._breathe()
            self._check_path(path)
        for folder in rules:
            self._apply_rules(folder)
        return self._differences()

    def differences_everywhere(self) -> list[FileDifference]:
        """Return all differences, after events were lost or the project folder was created again."""
        self._ignore.forget("")
        if self._is_there():
            self._enter("")
        return self._differences()

    def sweep(self) -> list[FileDifference]:
        """Return the differences in the folders that cannot be watched."""
        if not self._is_there():
            return self._differences()
        for folder in in_order(self._unwatched):
            self._breathe()
            if folder not in self._unwatched:
                continue
            for below in self._list(folder):
                if below not in self._folders:
                    self._enter(below)
        return self._differences()

    # Checking one path

    def _is_there(self) -> bool:
        """Return whether the project folder exists. If not, record that everything in it was removed."""
        status = self._status("")
        if status is not None and stat.S_ISDIR(status.st_mode):
            return True
        self._vanish("")
        return False

    def _check_path(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if path and parent not in self._folders:
            return
        status = self._status(path)
        if status is None:
            self._vanish(path)
        elif stat.S_ISDIR(status.st_mode):
            if path in self._entries:
                self._vanish(path)
            if not path or not self._ignore.skips(path, folder=True):
                self._enter(path)
        elif not self._ignore.skips(path, folder=False):
            if path in self._folders:
                self._vanish(path)
            self._check_file(path)

    def _check_file(self, path: str) -> None:
        before = self._entries.get(path)
        if before is None and len(self._entries) >= MAX_KNOWN_FILES:
            self.left_out = True
            return
        found = examine(self._root / path)
        if found is None:
            self._vanish(path)
            return
        after = found.fingerprint
        is_new = before is None or before.digest != after.digest
        if self._own.consume(path, found.sha256):
            self._before.pop(path, None)
        elif is_new and not self._silent:
            self._before.setdefault(path, before)
            if before is not None:
                self._texts.refresh(before.digest)
        self._record(path, after)
        if is_new and found.text is not None:
            self._texts.keep(after.digest, found.text, displace=not self._silent)

    def _record(self, path: str, entry: FileFingerprint) -> None:
        self._entries[path] = entry
        parent, _, name = path.rpartition("/")
        self._folders[parent].add(name)

    def _vanish(self, path: str) -> None:
        """Record that a file, or a folder with its content, was removed."""
        waiting = [path]
        while waiting:
            current = waiting.pop()
            children = self._folders.pop(current, None)
            if children is not None:
                self._source.unwatch(current)
                self._unwatched.discard(current)
                waiting.extend(_joined(current, name) for name in children)
            entry = self._entries.pop(current, None)
            if entry is None:
                continue
            if self._own.consume(current, None):
                self._before.pop(current, None)
            elif not self._silent:
                self._before.setdefault(current, entry)
        parent, _, name = path.rpartition("/")
        if path and parent in self._folders:
            self._folders[parent].discard(name)

    # Checking folders

    def _enter(self, folder: str) -> None:
        """Watch a folder and its subfolders, and compare all files in them, upper folders first."""
        waiting = deque([folder])
        while waiting:
            self._breathe()
            current = waiting.popleft()
            if current not in self._folders and len(self._folders) >= MAX_KNOWN_FOLDERS:
                self.left_out = True
                continue
            self._folders.setdefault(current, set())
            parent, _, name = current.rpartition("/")
            if current:
                self._folders[parent].add(name)
            # Watched before it is listed, so that a change in between is seen twice and not missed.
            has_room = len(self._folders) - len(self._unwatched) <= MAX_FOLDERS
            watched = has_room and self._source.watch(current)
            (self._unwatched.discard if watched else self._unwatched.add)(current)
            waiting.extend(self._list(current))

    def _list(self, folder: str) -> list[str]:
        """Compare the files in a folder with their last states; return its subfolders."""
        try:
            with os.scandir(self._root / folder) as found:
                entries = list(found)
        except (FileNotFoundError, NotADirectoryError):
            self._vanish(folder)
            return []
        except OSError:
            return []
        names: set[str] = set()
        below: list[str] = []
        index = self._index
        if index is not None and any(entry.name == ATTRIBUTES_FILE for entry in entries):
            # An untracked file of this name has not been read, and may name a filter.
            index = self._index = index if _joined(folder, ATTRIBUTES_FILE) in index.files else None
        for entry in entries:
            self._breathe()
            path = _joined(folder, entry.name)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if self._ignore.skips(path, folder=is_folder):
                continue
            names.add(entry.name)
            if path in (self._entries if is_folder else self._folders):
                self._vanish(path)
            if is_folder:
                below.append(path)
            elif index is not None and (blob := self._vouched_blob(index, path, status)):
                self._record(path, stated_fingerprint(status, blob))
            elif (known := self._entries.get(path)) is None or not known.looks_like(status):
                self._check_file(path)
        for name in self._folders.get(folder, set()) - names:
            self._vanish(_joined(folder, name))
        return below

    def _vouched_blob(self, index: Index, path: str, status: os.stat_result) -> str:
        """Return the git id of an unchanged file's contents; empty if unknown or too large to show."""
        if len(self._entries) >= MAX_KNOWN_FILES or status.st_size > MAX_TEXT:
            return ""
        blob = index.blob_of(path, status)
        # Frees memory for the new fingerprint, because a repository has many files.
        index.files.pop(path, None)
        return blob

    def _apply_rules(self, folder: str) -> None:
        """Add files that are no longer ignored, and drop those that are now, without reporting changes."""
        if folder not in self._folders:
            return
        reported = dict(self._before)
        with self._quietly():
            self._enter(folder)
        self._before = reported

    # Results

    def _differences(self) -> list[FileDifference]:
        changed = [
            (path, before, self._entries.get(path))
            for path, before in self._before.items()
            if (before and before.digest) != ((after := self._entries.get(path)) and after.digest)
        ]
        self._before.clear()
        texts: dict[bytes, bytes] = {}
        if len(changed) <= MAX_NAMED:
            shown = ((path, side) for path, *sides in changed if sides[1] for side in sides if side)
            texts = self._texts_of(shown)
        found = [
            FileDifference(
                path, before, after, *(entry and texts.get(entry.digest) for entry in (before, after))
            )
            for path, before, after in in_order(changed, key=itemgetter(0))
        ]
        current = {after.digest for _, _, after in changed if after is not None}
        for _, before, _ in changed:
            if before is not None and before.digest not in current:
                self._texts.drop(before.digest)
        return found

    def _texts_of(self, entries: Iterable[tuple[str, FileFingerprint]]) -> dict[bytes, bytes]:
        """Return the available texts of these files by digest."""
        found: dict[bytes, bytes] = {}
        missing: dict[str, tuple[str, int]] = {}
        for path, entry in entries:
            if entry.kind is not ContentKind.TEXT:
                continue
            text = self._texts.get(entry.digest)
            if text is None:
                missing[entry.digest.hex()] = path, entry.size
            else:
                found[entry.digest] = text
        wanted = {blob: size for blob, (_, size) in missing.items()}
        for blob, data in self._read_blobs(wanted) if wanted else ():
            if digest_of(data).hex() == blob and is_text(missing[blob][0], data):
                found[bytes.fromhex(blob)] = data
        return found

    def _knows(self, path: str) -> bool:
        return path in self._entries or path in self._folders

    def _exists(self, path: str) -> bool:
        return self._status(path) is not None

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return (self._root / path).lstat()
        except (OSError, ValueError):
            return None

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Record differences inside this block without reporting them."""
        self._silent = True
        try:
            yield
        finally:
            self._silent = False

    def _breathe(self) -> None:
        """Let other threads run from time to time. Raises `Stopped` on request."""
        if self._stop.is_set():
            raise Stopped
        if time.monotonic() - self._breathed > _STRETCH:
            time.sleep(_BREATH)
            self._breathed = time.monotonic()


def merged(first: list[FileDifference], second: list[FileDifference]) -> list[FileDifference]:
    """Merge the differences of two checks of different paths, sorted by path."""
    found = {item.path: item for item in (*first, *second)}
    return [found[path] for path in in_order(found)]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
