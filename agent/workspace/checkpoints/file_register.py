"""The register of the last seen state of each path in the workspace, and its updates.

Changed files are read and stored at once, so the contents before the next change are always available. They
are in the object store or, for files that git tracks, in git's objects if those have exactly the same bytes.

A scan reads the disk and changes nothing here. Its result counts only when it is accepted, so a scan whose
result could not be written is simply repeated. Blocking; use it in one thread at a time.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.coverage import Uncovered, coverage_of
from agent.workspace.checkpoints.entries import (
    Coverage,
    KnownPath,
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    UnitMark,
    entry_of,
    entry_record,
    is_folder,
    is_outside,
    is_settled,
    stamp_of,
)
from agent.workspace.checkpoints.file_capture import capture_path, inode_of
from agent.workspace.checkpoints.git_blobs import GitObjects
from agent.workspace.checkpoints.git_index import NO_INDEX, Index, blob_id, read_index
from agent.workspace.checkpoints.git_settings import bytes_are_gits
from agent.workspace.checkpoints.objects import TEMPORARY, ObjectStore, store_error
from agent.workspace.checkpoints.precapture import NOT_YET, CaptureLimits, Precapture, waits
from agent.workspace.checkpoints.scan import ManifestScan, scan
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.unit_marks import changed_sides, disk, side, unit_marks, without_noise
from agent.workspace.checkpoints.units import NO_UNITS, TOP, Units, uncovered, units_among, within
from agent.workspace.checkpoints.watched_folders import WatchedFolders
from agent.workspace.project_tree import in_order
from tools.kit.files import write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import Stopped

FORMAT = 3
MAX_BYTES = 500_000_000
"""The size limit of the file in bytes: about two million paths."""
_BATCH = 2_000
_DIGEST = lazy_pattern(r"[0-9a-f]{64}")
_BLOB = lazy_pattern(r"(?:[0-9a-f]{40})?")
_ODD = lazy_pattern(r"(?:^|/)\.{0,2}(?:/|$)|\0")
"""A pattern for a path with an empty component, or with one that leads elsewhere."""


class Baseline:
    """The stored register of the workspace `root`, in a file in `folder` between sessions."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self.path = folder / f"{sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self.written = 0.0
        """The time when the result of `load` was written, in seconds since the epoch; 0 if there was none."""

    def load(self) -> dict[str, KnownPath] | None:
        """Return the stored state; None if it is missing, unreadable or that of another folder. Blocking."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "r", encoding="ascii") as lines:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                    return None
                head = json.loads(next(lines, "null"))
                if not isinstance(head, dict) or head.get("root") != str(self._root):
                    return None
                decode, modes = json.JSONDecoder().raw_decode, dict[int, int]()
                found = dict(_known_path(decode(line)[0], modes) for line in lines)
                # With an incomplete file, the missing paths would seem to be new.
                whole = head.get("format") == FORMAT and head.get("paths") == len(found)
                if not whole or not (head.get("inode", here := self._inode()) == here or self._stands(found)):
                    return None
                self.written = status.st_mtime
                return found
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return None

    def save(self, known: dict[str, KnownPath]) -> None:
        """Replace the stored state. Blocking. Raises `StoreError`."""
        try:
            private_folder(self._folder)
            batches = self._batches(known)
            write_atomically(
                self.path, batches, PRIVATE_FILE, replace_any=True, durable=False, prefix=TEMPORARY
            )
        except ConfigError as error:
            raise StoreError(str(error)) from error
        except OSError as error:
            raise store_error(error, self._folder, "written") from error

    def _stands(self, known: dict[str, KnownPath]) -> bool:
        """Return whether at least one file is exactly as known, including its time, as in a restored copy.

        Otherwise another project now has the path.
        """
        for path, each in known.items():
            if each.entry is not None and each.entry.kind is PathKind.FILE:
                with suppress(OSError):
                    status = (self._root / path).lstat()
                    if (status.st_size, status.st_mtime_ns) == (each.entry.size, each.entry.modified):
                        return True
        return False

    def _inode(self) -> int:
        """Return the inode of the folder, which restarts do not change; 0 if the folder does not exist."""
        with suppress(OSError):
            return self._root.stat().st_ino
        return 0

    def _batches(self, known: dict[str, KnownPath]) -> Iterator[bytes]:
        head = {"format": FORMAT, "root": str(self._root), "paths": len(known), "inode": self._inode()}
        lines = [json.dumps(head)]
        for path, each in known.items():
            lines.append(json.dumps([path, each.stamp, each.settled, entry_record(each.entry), each.blob]))
            if len(lines) >= _BATCH:
                yield ("\n".join(lines) + "\n").encode("ascii")
                lines = []
        yield ("\n".join(lines) + "\n").encode("ascii") if lines else b""


def _known_path(record: list, modes: dict[int, int]) -> tuple[str, KnownPath]:
    """Parse one path and its state from an untrusted file. Raises `ValueError` or `TypeError`."""
    path, stamp, settled, fields, blob = record
    stamp = tuple(map(int, stamp))
    if len(stamp) > 1:
        # A workspace has many paths, so equal numbers are stored once.
        mode, inode, size, modified, changed = stamp
        changed = modified if changed == modified else changed
        stamp = (modes.setdefault(mode, mode), inode, size, modified, changed)
        if fields[2:4] == [size, modified]:
            fields[1:4] = modes.setdefault(fields[1], fields[1]), size, modified
    entry = entry_of(fields)
    if entry is None or (path != TOP and _ODD.search(path)):
        raise ValueError("no path of a workspace")
    if not (entry.digest is None or _DIGEST.fullmatch(entry.digest)) or not _BLOB.fullmatch(blob):
        raise ValueError("no name of contents")
    return path, KnownPath(stamp, bool(settled), entry, blob)


GONE_FROM_GIT = "its contents were in git only, and are gone from there"
TAKEN_ALONG = "belongs to git, and is gone"
_MANY = 200
"""The number of files up to which all are read without asking git whether it has them."""
_STRETCH, _BREATH = 0.004, 0.001
"""The seconds of work, and of the pause after it, while no caller waits."""

WATCHED = 2_000
"""The number of workspace paths from which on watching folders saves time."""
LOOKED_AT = 20_000
"""The number of workspace paths up to which a restore checks all of them for newer times."""


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """The result of a scan of the disk, not yet accepted."""

    changes: tuple[PathChange, ...]
    fresh: Mapping[str, KnownPath | None]
    """The new known state of each path; None if nothing exists there."""
    closed: tuple[LeftOut, ...] | None = None
    """The folders that could not be read; None if only some paths were read."""
    taken_along: tuple[LeftOut, ...] = ()
    """Lost git objects that were never covered."""
    units: Units = NO_UNITS
    """The units found, if the whole workspace was read."""
    marks: Mapping[str, UnitMark] = field(default_factory=dict)
    """The marks to store for the units that changed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of reading a whole workspace for the first time, not yet applied to the register."""

    known: dict[str, KnownPath]
    """The state stored by the previous session."""
    found: FoundChanges
    index: Index


class FileRegister:
    """The last seen state of everything below `root` (resolved), except the folder `ours`. Setting `stop`
    ends work early.
    """

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        limits: CaptureLimits,
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
        self._watches = WatchedFolders(root)
        self.is_whole = True
        """True if the last scan found every change, even one without a file system event."""
        self._known: dict[str, KnownPath] = {}
        self._closed: tuple[LeftOut, ...] = ()
        self._units = NO_UNITS
        self._index = NO_INDEX
        self._keeping: Iterator[None] | None = None
        self._unsaved = 0
        self._redated: dict[str, tuple[int, PathEntry]] = {}
        """Files rewritten with the same bytes: after which position, and their earlier state."""
        self._breathed = 0.0
        self._uncovered = Uncovered()
        self._met: set[str] | None = set()
        """Paths named by calls before the first survey was applied; None from then on."""
        self.hurried = False
        """True if a caller waits, so that there are no pauses."""
        self.waiting = 0
        """The number of tasks waiting for the thread, for which storing contents pauses."""
        self.complete = False
        """True if all required contents are available."""
        self.left_out = Coverage()
        """The paths that could not be restored if they changed now. Any thread may read them."""

    def close(self) -> None:
        """Release the system's resources that scans hold."""
        self._watches.close()

    # The first scan of the workspace

    def survey(self) -> Survey:
        """Read the whole workspace and compare it with the state of the previous session. Raises `Stopped`.

        Does not change the register, so any thread may run it during calls. `apply` applies the result.
        """
        known = self._baseline.load() or {}
        found = scan(self._root, known, self._ours)
        unread = not known or len(found.changed) > _MANY or any(map(waits, known.values()))
        # The git index only tells which files need not be read.
        index = read_index(self._root) if unread else NO_INDEX
        trusted = bytes_are_gits(self._root, index, found.changed)
        fresh: dict[str, KnownPath | None] = dict.fromkeys(found.gone)
        # Removed one by one, because a status uses more memory than the record made from it.
        for path in tuple(found.changed):
            status = found.changed.pop(path)
            self._breathe()
            fresh[path] = self._first(path, status, found, index if trusted else NO_INDEX)
        return Survey(known, FoundChanges((), fresh, tuple(found.left_out), units=Units(found.units)), index)

    def apply(self, survey: Survey) -> None:
        """Apply a survey to the register, except for paths that calls changed in the meantime."""
        self._start_register(survey.known, survey.index)
        met = self._met or set()
        self._met = None
        fresh = {path: known for path, known in survey.found.fresh.items() if path not in met}
        self.accept(replace(survey.found, fresh=fresh))

    def changes_since_last_session(self) -> FoundChanges:
        """Return the changes since the previous session, instead of running a survey; empty without its
        state.
        """
        known = self._baseline.load()
        if known is None:
            survey = self.survey()
            self._start_register({}, survey.index)
            found = survey.found
        else:
            self._start_register(
                known, read_index(self._root) if any(map(waits, known.values())) else NO_INDEX
            )
            found = self.changes()
        self._met = None
        return found

    @property
    def units(self) -> Units:
        """The units found in the workspace by the last scan."""
        return self._units

    @property
    def seen_at(self) -> float:
        """The time when the previous session last wrote its state, in seconds since the epoch; 0 if it never
        did.
        """
        return self._baseline.written

    def _start_register(self, known: dict[str, KnownPath], index: Index) -> None:
        """Set the state of the previous session, except for paths that calls have named since."""
        met = self._met or set()
        self._known = {path: each for path, each in known.items() if path not in met} | self._known
        self._units = units_among(known)
        self._uncovered = Uncovered(self._known)
        self._index = index
        self._unsaved += not known

    def _first(
        self, path: str, status: os.stat_result, found: ManifestScan, index: Index
    ) -> KnownPath | None:
        stamp, settled = stamp_of(status), is_settled(status)
        if not stat.S_ISREG(status.st_mode):
            entry = capture_path(self._root, path, None, limit=0)
            return KnownPath(stamp, settled, entry) if entry is not None else None
        mode, twin = stat.S_IMODE(status.st_mode), found.twin(path, status)
        size, modified, inode = status.st_size, status.st_mtime_ns, inode_of(status)
        entry = PathEntry(PathKind.FILE, mode, size, modified, twin=twin, reason=NOT_YET, inode=inode)
        return KnownPath(stamp, settled, entry, index.blob_of(path, status) if settled else "")

    def keep(self, seconds: float) -> bool:
        """Read and store the contents of all files for at most `seconds`; return whether none are left.

        Raises `Stopped` and `StoreError`.
        """
        if self.complete:
            return True
        until = time.monotonic() + seconds
        if self._keeping is None:
            self._keeping = Precapture(
                self._root,
                self._objects,
                self._git,
                self._limits,
                self._known,
                _objects(self._root, self._units),
                self._units,
            ).all(self._index)
            # Contents stored from here on are saved for the next session.
            self._unsaved += any(waits(known) for known in self._known.values())
        try:
            for _ in self._keeping:
                self._breathe()
                if self.waiting or time.monotonic() > until:
                    return False
        except BaseException:
            self._keeping = None
            raise
        self.complete = True
        self._uncovered = Uncovered(self._known)
        self._note_left_out()
        if self._unsaved:
            self.save()
        return True

    # Changes

    def changes(self, *, whole: bool = False) -> FoundChanges:
        """Return all differences from the last seen state, sorted by path.

        With `whole` every folder is read, because a change may have left no event in the workspace.
        """
        watches = self._watches if len(self._known) >= WATCHED and not whole else None
        self.is_whole = watches is None
        found = scan(self._root, self._known, self._ours, units=self._units, watches=watches)
        met, units = Units(found.units), self._units | Units(found.units)
        fresh: dict[str, KnownPath | None] = dict.fromkeys(found.gone)
        for path, status in found.changed.items():
            fresh[path] = self._look_at(path, found.twin(path, status), units)
        closed = tuple(found.left_out)
        if any(units.part(path) for path in fresh):
            # Objects that repositories now refer to must exist when this state is restored.
            for _ in self._git.hold(_objects(self._root, met)):
                pass
        told = self._differences(fresh)
        marks = self._marks(told, fresh, units)
        changes = without_noise(told, units, marks, self._root, self._objects)
        kept = {each.path for each in changes}
        for each in told if len(told) > len(changes) else ():
            # An index with the same listing counts as unchanged, so the next step continues from it, unless
            # a file next to it, named by the index, appeared or disappeared.
            part = units.part(each.path)
            alone = not any(other.path.startswith(f"{each.path}.") for other in told)
            if each.path not in kept and each.before and part and part.role == "state" and alone:
                known = fresh[each.path]
                fresh[each.path] = known and known._replace(entry=each.before)
        wanted = units.of(kept).places
        marks = {place: mark for place, mark in marks.items() if place in wanted}
        return FoundChanges(changes, fresh, closed, self._taken_along(fresh), met, marks)

    def without_steps(self, found: FoundChanges, steps: Iterable[Step]) -> FoundChanges:
        """Return the changes found by a scan that are not part of the later `steps`. Blocking."""
        left = state_listings.last_states(steps)
        news = {change.path: change for change in found.changes}
        for path, entry in left.items():
            known = found.fresh[path] if path in found.fresh else self._known.get(path)
            seen = path in found.fresh or (known is not None and (entry is None or is_folder(entry)))
            if not is_outside(path) and (seen or not os.path.lexists(self._root / path)):
                news[path] = PathChange(path, entry, known and known.entry)
        units = self._units | found.units
        unknown = [each for each in news.values() if not alike(each.before, each.after)]
        changes = self.without_noise(in_order(unknown, key=lambda each: each.path), units)
        return replace(found, changes=changes, marks=self._marks(changes, found.fresh, units, left))

    def _marks(
        self,
        changes: Sequence[PathChange],
        fresh: Mapping[str, KnownPath | None],
        units: Units,
        left: Mapping[str, PathEntry | None] | None = None,
    ) -> dict[str, UnitMark]:
        """Return the marks for the units that `changes` affect; `left` is the state after later steps."""

        def before(path: str) -> PathEntry | None:
            if left and path in left:
                return left[path]
            known = self._known.get(path)
            return known and known.entry

        def after(path: str) -> PathEntry | None:
            known = fresh[path] if path in fresh else self._known.get(path)
            return known and known.entry

        read = self._objects.read
        return unit_marks(changes, units, side(before, read), side(after, read), self._root)

    def without_noise(self, changes: Sequence[PathChange], units: Units) -> tuple[PathChange, ...]:
        """Return the changes, or none if all of them only rewrite the same state of units."""
        known, now = {change.path for change in changes}, disk(self._root)
        told, _ = changed_sides(changes, self._objects.read)
        units |= self._units
        marks = unit_marks(changes, units, lambda path: (told if path in known else now)(path), now)
        return without_noise(changes, units, marks, self._root, self._objects, by_others=True)

    def _taken_along(self, fresh: Mapping[str, KnownPath | None]) -> tuple[LeftOut, ...]:
        """Return folders of git objects that no longer exist and of which no copy was kept."""
        places = (within(place, "objects") for place in self._units.places)
        gone = {place for place in places if place in fresh and fresh[place] is None}
        return tuple(LeftOut(item.path, TAKEN_ALONG) for item in self._git.uncovered() if item.path in gone)

    def _differences(self, fresh: Mapping[str, KnownPath | None]) -> tuple[PathChange, ...]:
        """Return the differences between the known state and `fresh`, sorted by path."""
        different = [path for path, after in fresh.items() if not _as_before(self._known.get(path), after)]
        # A session of an older version did not record the workspace folder itself.
        different = [path for path in different if path != TOP or path in self._known]
        fetched = self._fetch_contents(different)
        changes: list[PathChange] = []
        for path in in_order(different):
            before, after = fetched.get(path) or self._known.get(path), fresh[path]
            _add(changes, path, before and before.entry, after and after.entry)
        return tuple(changes)

    def before(self, path: str) -> tuple[FoundChanges, dict[str, PathEntry | None]]:
        """Return the changes at a path since the last scan, and the current states to compare with later.

        The states are those of the path, with its contents stored, and of each missing parent folder.
        """
        noted: dict[str, PathEntry | None] = {}
        parts = path.split("/")
        for count in range(1 + is_outside(path), len(parts)):
            above = "/".join(parts[:count])
            if capture_path(self._root, above, None, limit=0) is None:
                noted[above] = None
        now = self._look_at(path, self._twin(path), self._units)
        noted[path] = now.entry if now is not None else None
        fresh = {path: now}
        # A path never seen before is not a change, because the first scan may be unfinished.
        told = self._differences(fresh) if path in self._known else ()
        return FoundChanges(told, fresh, marks=self._marks(told, fresh, self._units)), noted

    def after(self, noted: Mapping[str, PathEntry | None]) -> FoundChanges:
        """Return the changes at the paths in `noted` since `before` returned these states."""
        changes: list[PathChange] = []
        fresh: dict[str, KnownPath | None] = {}
        for path in sorted(noted):
            fresh[path] = self._look_at(path, self._twin(path), self._units)
            known = fresh[path]
            _add(changes, path, noted[path], known and known.entry)
        return FoundChanges(tuple(changes), fresh, marks=self._marks(changes, fresh, self._units))

    def times(self, position: int) -> dict[str, PathEntry | None]:
        """Return the last known states of files of which only the time may have changed since a position.

        Up to `LOOKED_AT` paths, files are checked for that without reading them. Blocking.
        """
        seen: dict[str, PathEntry | None] = {}
        if len(self._known) <= LOOKED_AT:
            found = scan(self._root, self._known, self._ours, units=self._units)
            known = (self._known.get(path) for path in found.changed)
            seen = dict(zip(found.changed, (each and each.entry for each in known), strict=True))
        return seen | {path: entry for path, (after, entry) in self._redated.items() if after >= position}

    def redated_changes(self, found: FoundChanges) -> tuple[PathChange, ...]:
        """Return the changes found by a scan that concern only the time of a file."""
        pairs = ((path, self._known.get(path), after) for path, after in found.fresh.items())
        return tuple(
            PathChange(path, before.entry, after.entry)
            for path, before, after in pairs
            if before and after and _is_redated(before.entry, after.entry)
        )

    def accept(self, found: FoundChanges, position: int = 0) -> None:
        """Apply the result of a scan to the register; `position` is the step number before the scan."""
        # Paths outside the workspace are never scanned; only the steps record them.
        fresh = {path: known for path, known in found.fresh.items() if not is_outside(path)}
        for each in self.redated_changes(found):
            if each.before is not None:
                self._redated[each.path] = position, each.before
        for path, known in fresh.items():
            if known is None:
                self._known.pop(path, None)
            else:
                self._known[path] = known
            self._uncovered.note(path, known)
        if self._met is not None:
            self._met.update(fresh)
        self._unsaved += len(fresh)
        closed = self._closed if found.closed is None else found.closed
        if found.closed is not None:
            self._units = found.units
        if fresh or closed != self._closed:
            self._closed = closed
            self._note_left_out()

    def coverage(self, found: FoundChanges) -> Coverage:
        """Return which of the found changes cannot be restored."""
        return coverage_of(found.changes, found.closed or (), found.taken_along)

    def save(self) -> None:
        """Write the register for the next start. Raises `StoreError`."""
        self._baseline.save({path: known for path, known in self._known.items() if known.entry is not None})
        self._unsaved = 0

    @property
    def wants_saving(self) -> bool:
        """Return whether the register has data that is not written, so that its contents could be removed.

        Files that were seen but not read count too, because the next session finds changes by them.
        """
        return self._met is None and self._unsaved > 0

    # Within

    def _look_at(self, path: str, twin: str, units: Units) -> KnownPath | None:
        """Return the state of a path, and store its contents; None if it is missing. Raises `StoreError`."""
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            return None
        if reason := uncovered(units, path):
            return KnownPath(stamp_of(status), False, PathEntry(PathKind.OTHER, 0, reason=reason))
        link = self._limits.objects and units.role(path) == "contents"
        entry = capture_path(self._root, path, self._objects, limit=self._limits.file, link=link)
        if entry is None:
            return None
        if entry.kind is not PathKind.FILE or status.st_nlink < 2:
            twin = ""
        return KnownPath(stamp_of(status), is_settled(status), replace(entry, twin=twin))

    def _twin(self, path: str) -> str:
        """Return the other path of a file with two hard links; empty if it no longer has one."""
        known = self._known.get(path)
        twin = known.entry.twin if known is not None and known.entry is not None else ""
        try:
            same = bool(twin) and os.path.samestat((self._root / twin).lstat(), (self._root / path).lstat())
        except (OSError, ValueError):
            same = False
        return twin if same else ""

    def _fetch_contents(self, paths: Iterable[str]) -> dict[str, KnownPath]:
        """Copy contents that only git has into the store; return the new states of the paths."""
        wanted: dict[str, list[str]] = {}
        sizes: dict[str, int] = {}
        for path in paths:
            known = self._known.get(path)
            if known is not None and known.blob and known.entry is not None:
                wanted.setdefault(known.blob, []).append(path)
                sizes[known.blob] = known.entry.size
        found: dict[str, KnownPath] = {}
        for blob, data in self._git.read(sizes) if sizes else ():
            for path in wanted.pop(blob, ()):
                found[path] = self._with_contents(self._known[path], data)
        for path in (path for paths in wanted.values() for path in paths):
            found[path] = _without_contents(self._known[path])
        return found

    def _with_contents(self, known: KnownPath, data: bytes) -> KnownPath:
        entry = known.entry
        assert entry is not None
        if blob_id(data) != known.blob or len(data) != entry.size:
            return _without_contents(known)
        digest = self._objects.add(data)
        if entry.digest not in (None, digest):
            return _without_contents(known)
        return known._replace(entry=replace(entry, digest=digest, reason=""))

    def _note_left_out(self) -> None:
        self.left_out = self._uncovered.coverage((*self._closed, *self._git.uncovered()))

    def _breathe(self) -> None:
        """Pause briefly from time to time for other threads. Raises `Stopped` if `stop` is set."""
        if self._stop.is_set():
            raise Stopped
        if not self.hurried and time.monotonic() - self._breathed > _STRETCH:
            time.sleep(_BREATH)
            self._breathed = time.monotonic()


def _objects(root: Path, units: Units) -> list[Path]:
    """Return the object folders of the git repositories in the workspace."""
    return [root / place / "objects" for place, kind in units.places.items() if kind == "git"]


def _without_contents(known: KnownPath) -> KnownPath:
    assert known.entry is not None
    return known._replace(entry=replace(known.entry, digest=None, reason=GONE_FROM_GIT))


def _as_before(before: KnownPath | None, after: KnownPath | None) -> bool:
    """Return whether a path is unchanged. If its contents are not stored, its stamp is compared."""
    if before is None or after is None:
        return before is after
    if before.entry is None or after.entry is None:
        return False
    unread = before.entry.digest is None or after.entry.digest is None
    return before.stamp == after.stamp if unread else alike(before.entry, after.entry)


def _is_redated(before: PathEntry | None, after: PathEntry | None) -> bool:
    """Return whether a file has the same contents but another modification time."""
    if before is None or after is None or before.kind is not PathKind.FILE:
        return False
    return before.modified != after.modified and alike(before, after)


def _add(changes: list[PathChange], path: str, before: PathEntry | None, after: PathEntry | None) -> None:
    if not alike(before, after):
        changes.append(PathChange(path, before, after))
