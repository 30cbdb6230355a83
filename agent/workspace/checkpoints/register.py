"""The workspace as a register of what was last seen at each path, and how it is brought up to date.

What is found changed is read and kept at once, so the contents before the next
change are always at hand: in the object store or, for files git tracks, in git's
own objects, as long as the bytes on the disk are exactly those. Blocking; one
thread at a time.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.workspace.checkpoints.baseline import Baseline
from agent.workspace.checkpoints.entries import NAMED, Change, Coverage, Entry, Kind, LeftOut
from agent.workspace.checkpoints.git_index import blob_id, tracked
from agent.workspace.checkpoints.manifest import Known, Look, is_settled, look, stamp_of
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.states import alike
from agent.workspace.checkpoints.taking import take
from agent.workspace.noise import is_noise
from tools.files.descriptors import read_bytes
from tools.files.threads import Stopped

Blobs = Callable[[Iterable[str]], Mapping[str, bytes]]
"""Contents of git objects by their ids; those that cannot be had are missing."""

NOT_YET = "was not read yet"
TOO_MUCH = "more than checkpoints keep beforehand"
GONE_FROM_GIT = "its contents were in git only, and are gone from there"
_GIT = "belongs to git"
_STRETCH, _BREATH = 0.004, 0.001
"""Seconds of work, and the pause after it, while nobody waits."""
_WHOLE = 50_000_000
"""Bytes above which git's copy of a file is not used: it would be held in memory as a whole."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept at most, in bytes."""

    file: int
    """Of one file."""
    beforehand: int
    """Of all files that nothing has changed yet."""


class Register:
    """Everything below `root` (resolved). `stop` ends a survey early."""

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        limits: Limits,
        blobs: Blobs,
        baseline: Baseline,
        stop: threading.Event,
    ) -> None:
        self._root = root
        self._objects = objects
        self._limits = limits
        self._blobs = blobs
        self._baseline = baseline
        self._stop = stop
        self._known: dict[str, Known] = {}
        self._closed: tuple[LeftOut, ...] = ()
        self._unsaved = 0
        self._breathed = 0.0
        self.surveyed = False
        """Whether everything there is was seen; contents may still be on their way into the store."""
        self.complete = False
        """Whether the contents of everything that is to be kept are at hand."""

    @property
    def files(self) -> int:
        return len(self._known)

    # Taking the workspace in

    def survey(self) -> tuple[Change, ...]:
        """See everything there is. Returns what changed since the workspace was last known, if it was."""
        known = self._baseline.load()
        changes: tuple[Change, ...] = ()
        if known is not None:
            self._known = known
            changes = self.changes()
        else:
            found = look(self._root, {})
            self._closed = tuple(found.left_out)
            self._known = {path: self._first(path, status, found) for path, status in found.changed.items()}
        self.surveyed = True
        return changes

    def _first(self, path: str, status: os.stat_result, found: Look) -> Known:
        stamp, settled = stamp_of(status), is_settled(status)
        if stat.S_ISREG(status.st_mode):
            mode = stat.S_IMODE(status.st_mode)
            entry = Entry(Kind.FILE, mode, status.st_size, status.st_mtime_ns, reason=NOT_YET)
            return Known(stamp, settled, replace(entry, twin=found.twin(path, status)))
        return Known(stamp, settled, take(self._root, path, None, limit=0))

    def keep_all(self) -> None:
        """Have the contents of all files at hand, those git has first. Raises `Stopped` and `StoreError`."""
        ids = tracked(self._root)
        waiting = [path for path, known in self._known.items() if _waits(known)]
        ours = [path for path in waiting if path in ids]
        for path in ours:
            self._breathe()
            self._confirm(path, ids[path])
        room = self._limits.beforehand
        others = sorted((path for path in waiting if _waits(self._known[path])), key=_rank)
        for path in others:
            self._breathe()
            known = self._known.get(path)
            if known is None or known.entry is None or not _waits(known):
                continue
            room -= known.entry.size
            if room < 0 or known.entry.size > self._limits.file:
                reason = TOO_MUCH if room < 0 else _larger(self._limits.file)
                room += known.entry.size
                self._known[path] = known._replace(entry=replace(known.entry, reason=reason))
            else:
                self._keep(path, known.entry.twin)
        self.complete = True
        self.save()

    def _confirm(self, path: str, blob: str) -> None:
        """Note that git has exactly these bytes, if that is so."""
        known = self._known.get(path)
        if known is None or known.entry is None or known.entry.size > min(_WHOLE, self._limits.file):
            return
        try:
            data, status = read_bytes(self._root / path, _WHOLE)
        except OSError:
            return
        if blob_id(data) == blob and stamp_of(status) == known.stamp:
            self._known[path] = known._replace(entry=replace(known.entry, reason=""), blob=blob)

    def _keep(self, path: str, twin: str = "") -> None:
        """Read a path and keep what it holds."""
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            self._known.pop(path, None)
            return
        entry = take(self._root, path, self._objects, limit=self._limits.file)
        if entry is None:
            self._known.pop(path, None)
            return
        self._known[path] = Known(stamp_of(status), is_settled(status), replace(entry, twin=twin))
        self._unsaved += 1

    # What changed

    def changes(self) -> tuple[Change, ...]:
        """Everything that is not as it was last seen, in order of the paths; it is known from now on."""
        found = look(self._root, self._known)
        self._closed = tuple(found.left_out)
        self._fetch([*found.changed, *found.gone])
        changes: list[Change] = []
        for path, status in found.changed.items():
            before = self._known.get(path)
            self._keep(path, found.twin(path, status))
            after = self._known.get(path)
            _add(changes, path, before and before.entry, after and after.entry)
        for path in found.gone:
            before = self._known.pop(path)
            _add(changes, path, before.entry, None)
        return tuple(sorted(changes, key=lambda change: change.path))

    def before(self, paths: Iterable[str]) -> dict[str, Entry | None]:
        """How paths stand now, contents kept, with each folder above them that is not there yet."""
        found: dict[str, Entry | None] = {}
        for path in paths:
            parts = path.split("/")
            for count in range(1, len(parts)):
                above = "/".join(parts[:count])
                if above not in found and take(self._root, above, None, limit=0) is None:
                    found[above] = None
            found[path] = take(self._root, path, self._objects, limit=self._limits.file)
        return found

    def after(self, noted: Mapping[str, Entry | None]) -> tuple[Change, ...]:
        """What became of paths since `before`; they are known as they are now."""
        changes: list[Change] = []
        for path in sorted(noted):
            self._keep(path)
            known = self._known.get(path)
            _add(changes, path, noted[path], known and known.entry)
        return tuple(changes)

    def coverage(self, changes: Iterable[Change]) -> Coverage:
        """What these changes leave open."""
        left = [item for item in self._closed if item.reason != _GIT]
        for change in changes:
            for entry in (change.before, change.after):
                if entry is not None and not entry.kept:
                    left.append(LeftOut(change.path, entry.reason or "is no file"))
                    break
        return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))

    def left_out(self) -> Coverage:
        """What could not be taken back if it were changed now, said beforehand."""
        left = [item for item in self._closed if item.reason != _GIT]
        groups: dict[tuple[str, str], list[str]] = {}
        for path, known in self._known.items():
            entry = known.entry
            if entry is not None and not entry.kept and not known.blob:
                groups.setdefault((path.split("/")[0], entry.reason or "is no file"), []).append(path)
        for (top, reason), paths in groups.items():
            if len(paths) <= 3:
                left += [LeftOut(path, reason) for path in paths]
            else:
                left.append(LeftOut(top, f"{len(paths):,} files: {reason}"))
        return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))

    def save(self) -> None:
        """Write the register down, for the next start. Raises `StoreError`."""
        self._baseline.save(self._known)
        self._unsaved = 0

    @property
    def wants_saving(self) -> bool:
        return self._unsaved > 200

    def _fetch(self, paths: Iterable[str]) -> None:
        """Bring contents that only git has into the store, for the paths about to be told of."""
        wanted = {
            path: known
            for path in paths
            if (known := self._known.get(path)) is not None and known.blob and known.entry is not None
        }
        if not wanted:
            return
        contents = self._blobs({known.blob for known in wanted.values()})
        for path, known in wanted.items():
            entry = known.entry
            assert entry is not None
            data = contents.get(known.blob)
            if data is None or blob_id(data) != known.blob:
                entry = replace(entry, reason=GONE_FROM_GIT)
            else:
                entry = replace(entry, digest=self._objects.put(data), reason="")
            self._known[path] = known._replace(entry=entry)

    def _breathe(self) -> None:
        """Let other threads in now and then, and stop when that is wanted."""
        if self._stop.is_set():
            raise Stopped
        if time.monotonic() - self._breathed > _STRETCH:
            time.sleep(_BREATH)
            self._breathed = time.monotonic()


def _waits(known: Known) -> bool:
    return known.entry is not None and known.entry.reason == NOT_YET and not known.blob


def _rank(path: str) -> tuple[int, str]:
    """Work of people before caches and what was fetched."""
    return sum(is_noise(part, folder=True) for part in path.split("/")), path


def _larger(limit: int) -> str:
    return f"larger than {limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"larger than {limit:,} bytes"


def _add(changes: list[Change], path: str, before: Entry | None, after: Entry | None) -> None:
    if not alike(before, after):
        changes.append(Change(path, before, after))
