"""Reading and storing the contents of all files in a workspace before any of them changes.

Files whose contents git has are only compared with git's data, and not stored again. Everything else is
stored, the user's own work before caches and downloads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from agent.workspace.checkpoints.entries import KnownPath, is_settled, stamp_of
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.git_blobs import GitObjects
from agent.workspace.checkpoints.git_index import Index, blob_id
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import NO_UNITS, Units
from agent.workspace.ignore import is_noise
from agent.workspace.project_tree import in_order
from tools.kit.files import read_bytes

NOT_YET = "was not read yet"
TOO_MUCH = "more than checkpoints keep beforehand"
_FEW = 500
"""The number of paths up to which each is looked up separately instead of listing the store."""
WHOLE = 50_000_000
"""The size in bytes above which git's copy of a file is not used, because it would be held in memory."""


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """The size limits of stored contents, in bytes."""

    file: int
    """The limit on one file."""
    beforehand: int
    """The limit on all files together that are stored before any change."""
    objects: bool = True
    """True if contents of git-lfs and git-annex get hard links, whatever their size."""


class Precapture:
    """One pass over all files in `known`, whose entries it updates."""

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        git: GitObjects,
        limits: CaptureLimits,
        known: dict[str, KnownPath],
        places: Iterable[Path] = (),
        units: Units = NO_UNITS,
    ) -> None:
        self._root = root
        self._objects = objects
        self._git = git
        self._largest = limits.file
        self._room = limits.beforehand
        self._known = known
        self._places = places
        """Folders of git objects in the workspace."""
        self._units = units
        self._links = limits.objects
        self._stored: set[str] = set()
        """The digests of contents that were in the store at the start."""

    def all(self, index: Index) -> Iterator[None]:
        """Store the contents of all files; yields after each file, when the caller may change `known`."""
        self._stored = set()
        for shard in self._objects.shards() if len(self._known) > _FEW else ():
            self._stored.update(stored.digest for stored in self._objects.listing(shard))
            yield
        yield from self._confirm_all(index)
        yield from self._git.hold(self._places)
        there: set[str] = set()
        for portion in self._git.present(self._blobs()):
            there |= portion
            yield
        for path in [path for path, known in self._known.items() if known.blob and known.blob not in there]:
            self._distrust(path)
        yield from self._keep_rest()

    def _confirm_all(self, index: Index) -> Iterator[None]:
        """Compare the files with the contents that git's index claims."""
        for path in list(self._known):
            known = self._known.get(path)
            tracked = index.files.get(path)
            if known is None or known.entry is None:
                continue
            if known.entry.reason == NOT_YET and tracked is not None:
                self._confirm(path, known, tracked.blob)
            elif known.blob:
                if index.top is not None and (tracked is None or tracked.blob != known.blob):
                    self._distrust(path)
                continue
            elif known.entry.digest is None or self._has(known.entry.digest):
                continue
            else:
                self._distrust(path)
            yield

    def _has(self, digest: str) -> bool:
        """Return whether contents are in the store; those seen at the start are not looked up again."""
        return digest in self._stored or self._objects.has(digest)

    def _confirm(self, path: str, known: KnownPath, blob: str) -> None:
        assert known.entry is not None
        if known.entry.size > min(WHOLE, self._largest):
            self._distrust(path)
            return
        try:
            data, status = read_bytes(self._root / path, WHOLE)
        except OSError:
            return
        if stamp_of(status) != known.stamp or self._stands(path, known) is None:
            # The file is changing now, so git may have the only copy of its earlier content.
            return
        if blob_id(data) == blob:
            entry = replace(known.entry, reason="", digest=sha256(data).hexdigest())
            self._known[path] = known._replace(entry=entry, blob=blob)
        else:
            self._distrust(path)

    def _distrust(self, path: str) -> None:
        """Record that a file may differ from git's data, so that its contents are stored here."""
        known = self._known.get(path)
        if known is not None and known.entry is not None:
            entry = replace(known.entry, digest=None, reason=NOT_YET)
            self._known[path] = known._replace(entry=entry, blob="")

    def _blobs(self) -> set[str]:
        return {known.blob for known in list(self._known.values()) if known.blob}

    def _keep_rest(self) -> Iterator[None]:
        waiting = [path for path, known in self._known.items() if waits(known)]
        for path in in_order(waiting, key=self._rank):
            known = self._known.get(path)
            if known is None or known.entry is None or not waits(known):
                continue
            if self._units.role(path) == "contents":
                self._keep(path, known, link=self._links)
            elif known.entry.size > self._largest:
                self._leave(path, known, _larger(self._largest))
            elif known.entry.size > self._room:
                self._leave(path, known, TOO_MUCH)
            else:
                self._room -= known.entry.size
                self._keep(path, known)
            yield

    def _leave(self, path: str, known: KnownPath, reason: str) -> None:
        assert known.entry is not None
        self._known[path] = known._replace(entry=replace(known.entry, reason=reason))

    def _keep(self, path: str, known: KnownPath, *, link: bool = False) -> None:
        """Read and store a file if it is unchanged since it was seen; otherwise a later scan finds the
        change.
        """
        assert known.entry is not None
        if self._stands(path, known) is None:
            return
        entry = capture_path(self._root, path, self._objects, limit=self._largest, link=link)
        status = self._stands(path, known, again=link)
        if entry is not None and status is not None:
            entry = replace(entry, twin=known.entry.twin)
            self._known[path] = KnownPath(stamp_of(status), is_settled(status), entry, known.blob)

    def _rank(self, path: str) -> tuple[int, str]:
        """Return the sort key of a file: repository data, then the user's work, then caches and downloads."""
        if self._units.group(path):
            return -1, path
        return sum(is_noise(part, folder=True) for part in path.split("/")), path

    def _stands(self, path: str, known: KnownPath, *, again: bool = False) -> os.stat_result | None:
        """Return the status of a file if it is unchanged since it was seen, else None.

        With `again` its change time does not count, because creating a hard link changes that.
        """
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            return None
        told = len(known.stamp) - again
        return status if stamp_of(status)[:told] == known.stamp[:told] else None


def waits(known: KnownPath) -> bool:
    """Return whether the contents of a file have not been read yet."""
    return known.entry is not None and known.entry.reason == NOT_YET and not known.blob


def _larger(limit: int) -> str:
    return f"larger than {limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"larger than {limit:,} bytes"
