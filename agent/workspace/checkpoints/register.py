"""The workspace as a register of what was last seen at each path, and how it is brought up to date.

What is found changed is read and kept at once, so the contents before the next
change are always at hand: in the object store or, for files git tracks, in git's
own objects, as long as the bytes on the disk are exactly those. A look changes
nothing here: what it found counts when it is accepted, so a look whose outcome
could not be written down is simply made again. Blocking; one thread at a time.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.workspace.checkpoints.baseline import Baseline
from agent.workspace.checkpoints.entries import Change, Coverage, Entry, Kind, LeftOut
from agent.workspace.checkpoints.git_blobs import GitObjects
from agent.workspace.checkpoints.git_index import NO_INDEX, Index, blob_id, read_index
from agent.workspace.checkpoints.git_trust import bytes_are_gits
from agent.workspace.checkpoints.keeping import NOT_YET, Keeping
from agent.workspace.checkpoints.manifest import GIT, Known, Look, is_settled, look, stamp_of
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.openness import coverage_of, left_out_of
from agent.workspace.checkpoints.states import alike
from agent.workspace.checkpoints.taking import take
from agent.workspace.order import in_order
from tools.files.threads import Stopped

GONE_FROM_GIT = "its contents were in git only, and are gone from there"
TAKEN_ALONG = "belongs to git, and is gone"
_STRETCH, _BREATH = 0.004, 0.001
"""Seconds of work, and the pause after it, while nobody waits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept at most, in bytes."""

    file: int
    """Of one file."""
    beforehand: int
    """Of all files that nothing has changed yet."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found, not yet accepted."""

    changes: tuple[Change, ...]
    fresh: Mapping[str, Known | None]
    """What is known of each path from now on; None where nothing stands."""
    closed: tuple[LeftOut, ...] | None = None
    """Folders that were not looked into; None when only some paths were looked at."""
    taken_along: tuple[LeftOut, ...] = ()
    """What was never covered and is gone."""


class Register:
    """Everything below `root` (resolved) but the folder `ours`. `stop` ends work early."""

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        limits: Limits,
        git: GitObjects,
        baseline: Baseline,
        stop: threading.Event,
        ours: Path | None = None,
    ) -> None:
        self._root = root
        self._ours = ours
        self._objects = objects
        self._limits = limits
        self._git = git
        self._baseline = baseline
        self._stop = stop
        self._known: dict[str, Known] = {}
        self._closed: tuple[LeftOut, ...] = ()
        self._index = NO_INDEX
        self._keeping: Iterator[None] | None = None
        self._unsaved = 0
        self._breathed = 0.0
        self.hurried = False
        """Whether somebody waits: then no pauses are made."""
        self.complete = False
        """Whether the contents of everything that is to be kept are at hand."""
        self.left_out = Coverage()
        """What could not be taken back if it were changed now. Any thread may read it."""

    # Taking the workspace in

    def survey(self, *, news: bool) -> Found:
        """See everything there is. With `news`, what changed since it was last known is read and told."""
        known = self._baseline.load()
        self._index = read_index(self._root)
        self._known = known if known is not None else {}
        if known is not None and news:
            return self.changes()
        found = look(self._root, self._known, self._ours)
        trusted = bytes_are_gits(self._root, self._index, found.changed)
        index = self._index if trusted else NO_INDEX
        fresh: dict[str, Known | None] = dict.fromkeys(found.gone)
        for path, status in found.changed.items():
            fresh[path] = self._first(path, status, found, index)
        return Found((), fresh, tuple(found.left_out))

    def _first(self, path: str, status: os.stat_result, found: Look, index: Index) -> Known | None:
        stamp, settled = stamp_of(status), is_settled(status)
        if not stat.S_ISREG(status.st_mode):
            entry = take(self._root, path, None, limit=0)
            return Known(stamp, settled, entry) if entry is not None else None
        mode, twin = stat.S_IMODE(status.st_mode), found.twin(path, status)
        entry = Entry(Kind.FILE, mode, status.st_size, status.st_mtime_ns, twin=twin, reason=NOT_YET)
        tracked = index.files.get(path)
        # A file written no earlier than the index may have changed after git looked at it.
        seen = status.st_mtime_ns < index.written and status.st_ctime_ns < index.written
        if tracked is not None and settled and seen and tracked.describes(status):
            return Known(stamp, settled, entry, tracked.blob)
        return Known(stamp, settled, entry)

    def keep(self, seconds: float) -> bool:
        """Bring the contents of all files to hand, for so long; returns whether that is done.

        Raises `Stopped` and `StoreError`.
        """
        if self.complete:
            return True
        until = time.monotonic() + seconds
        if self._keeping is None:
            self._keeping = Keeping(
                self._root, self._objects, self._git, self._limits.file, self._limits.beforehand, self._known
            ).all(self._index)
        try:
            for _ in self._keeping:
                self._breathe()
                if time.monotonic() > until:
                    return False
        except BaseException:
            self._keeping = None
            raise
        self.complete = True
        self._note_left_out()
        self.save()
        return True

    # What changed

    def changes(self) -> Found:
        """Everything that is not as it was last seen, in order of the paths."""
        found = look(self._root, self._known, self._ours)
        fresh: dict[str, Known | None] = dict.fromkeys(found.gone)
        for path, status in found.changed.items():
            fresh[path] = self._seen(path, found.twin(path, status))
        changes = self._told(fresh)
        closed = tuple(found.left_out)
        there = {item.path for item in closed}
        gone = (item for item in self._closed if item.reason == GIT and item.path not in there)
        along = tuple(LeftOut(item.path, TAKEN_ALONG) for item in gone)
        return Found(changes, fresh, closed, along)

    def _told(self, fresh: Mapping[str, Known | None]) -> tuple[Change, ...]:
        """What makes the difference between what is known and `fresh`, in order of the paths."""
        different = [path for path, after in fresh.items() if not _as_before(self._known.get(path), after)]
        fetched = self._fetched(different)
        changes: list[Change] = []
        for path in in_order(different):
            before, after = fetched.get(path) or self._known.get(path), fresh[path]
            _add(changes, path, before and before.entry, after and after.entry)
        return tuple(changes)

    def before(self, path: str) -> tuple[Found, dict[str, Entry | None]]:
        """How a path stands now, contents kept, with each folder above it that is not there yet.

        First comes what somebody changed there since it was last seen.
        """
        noted: dict[str, Entry | None] = {}
        parts = path.split("/")
        for count in range(1, len(parts)):
            above = "/".join(parts[:count])
            if take(self._root, above, None, limit=0) is None:
                noted[above] = None
        now = self._seen(path, self._twin(path))
        noted[path] = now.entry if now is not None else None
        fresh = {path: now}
        # What was never seen is no news: the workspace may still be read.
        return Found(self._told(fresh) if path in self._known else (), fresh), noted

    def after(self, noted: Mapping[str, Entry | None]) -> Found:
        """What became of paths since `before`."""
        changes: list[Change] = []
        fresh: dict[str, Known | None] = {}
        for path in sorted(noted):
            fresh[path] = self._seen(path, self._twin(path))
            known = fresh[path]
            _add(changes, path, noted[path], known and known.entry)
        return Found(tuple(changes), fresh)

    def accept(self, found: Found) -> None:
        """What was found is what is known from now on."""
        for path, known in found.fresh.items():
            if known is None:
                self._known.pop(path, None)
            else:
                self._known[path] = known
        self._unsaved += len(found.fresh)
        closed = self._closed if found.closed is None else found.closed
        if found.fresh or closed != self._closed:
            self._closed = closed
            self._note_left_out()

    def coverage(self, found: Found) -> Coverage:
        """What the changes found leave open."""
        return coverage_of(found.changes, found.closed or (), found.taken_along)

    def save(self) -> None:
        """Write the register down, for the next start. Raises `StoreError`."""
        self._baseline.save({path: known for path, known in self._known.items() if known.entry is not None})
        self._unsaved = 0

    @property
    def wants_saving(self) -> bool:
        """Whether something is known that is not written down; contents only it names could be cleared."""
        return self.complete and self._unsaved > 0

    # Within

    def _seen(self, path: str, twin: str) -> Known | None:
        """What stands at a path, its contents kept. Raises `StoreError`."""
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            return None
        entry = take(self._root, path, self._objects, limit=self._limits.file)
        if entry is None:
            return None
        if entry.kind is not Kind.FILE or status.st_nlink < 2:
            twin = ""
        return Known(stamp_of(status), is_settled(status), replace(entry, twin=twin))

    def _twin(self, path: str) -> str:
        """The other name of a file, as far as it still is one."""
        known = self._known.get(path)
        twin = known.entry.twin if known is not None and known.entry is not None else ""
        try:
            same = bool(twin) and os.path.samestat((self._root / twin).lstat(), (self._root / path).lstat())
        except (OSError, ValueError):
            same = False
        return twin if same else ""

    def _fetched(self, paths: Iterable[str]) -> dict[str, Known]:
        """These paths with the contents that only git had, now in the store."""
        wanted: dict[str, list[str]] = {}
        sizes: dict[str, int] = {}
        for path in paths:
            known = self._known.get(path)
            if known is not None and known.blob and known.entry is not None:
                wanted.setdefault(known.blob, []).append(path)
                sizes[known.blob] = known.entry.size
        found: dict[str, Known] = {}
        for blob, data in self._git.read(sizes) if sizes else ():
            for path in wanted.pop(blob, ()):
                found[path] = self._with_contents(self._known[path], data)
        for path in (path for paths in wanted.values() for path in paths):
            found[path] = _lost(self._known[path])
        return found

    def _with_contents(self, known: Known, data: bytes) -> Known:
        entry = known.entry
        assert entry is not None
        if blob_id(data) != known.blob or len(data) != entry.size:
            return _lost(known)
        digest = self._objects.put(data)
        if entry.digest not in (None, digest):
            return _lost(known)
        return known._replace(entry=replace(entry, digest=digest, reason=""))

    def _note_left_out(self) -> None:
        self.left_out = left_out_of(self._known, self._closed)

    def _breathe(self) -> None:
        """Let other threads in now and then, and stop when that is wanted."""
        if self._stop.is_set():
            raise Stopped
        if not self.hurried and time.monotonic() - self._breathed > _STRETCH:
            time.sleep(_BREATH)
            self._breathed = time.monotonic()


def _lost(known: Known) -> Known:
    assert known.entry is not None
    return known._replace(entry=replace(known.entry, digest=None, reason=GONE_FROM_GIT))


def _as_before(before: Known | None, after: Known | None) -> bool:
    """Whether a path is as it was; of contents that are not kept only as far as a stamp can tell."""
    if before is None or after is None:
        return before is after
    if before.entry is None or after.entry is None:
        return False
    unread = before.entry.digest is None or after.entry.digest is None
    return before.stamp == after.stamp if unread else alike(before.entry, after.entry)


def _add(changes: list[Change], path: str, before: Entry | None, after: Entry | None) -> None:
    if not alike(before, after):
        changes.append(Change(path, before, after))
