"""Cleanup of the store: old steps and unneeded objects are removed.

There are no reference counts. Every step log, register and pending restore is read for the objects that it
names (mark). Then objects that none of them names are removed (sweep). So no count can be wrong, and an
interrupted run simply starts again. The work is done in small pieces under the lock; between them other
processes can add objects.

Ages are in elapsed time instead of clock time. If a clock is set a year ahead, everything seems a year old. A
store that trusted it would delete the data of this morning. So the store records when it last read the clock.
However far the clock has advanced since, at most a day of it counts. After a month without use, data is only
a day older, and a wrong clock does no harm.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import PRIVATE_FILE
from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints.git_keep import tidy
from agent.workspace.checkpoints.objects import TEMPORARY, Stored, store_error
from agent.workspace.checkpoints.step_log import BusyError, MissingLineError, Needs, StepLog, usable_name
from agent.workspace.checkpoints.store import CheckpointStore, on_disk
from tools.kit.files import read_bytes, write_atomically

if TYPE_CHECKING:
    from agent.core.config.schema import CheckpointSettings

CLOCK_FILE = "clock"
MOST_SECONDS = 86_400.0
"""The largest time between two readings of the clock that counts."""
MAX_GAPS = 1_000
_MAX_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class ElapsedAge:
    """The clock readings of a store. Times are in seconds since the epoch, as given by the clock."""

    seen: float
    """The time of the last reading."""
    gaps: tuple[tuple[float, float], ...] = ()
    """Periods longer than `MOST_SECONDS` between two readings, as (start, end), in order."""

    def after_look(self, now: float) -> ElapsedAge:
        """Return the clock readings with another one at `now`."""
        # Later times, read before the clock was set back, do not count.
        gaps = [(start, min(end, now)) for start, end in self.gaps if start < now]
        if now - self.seen > MOST_SECONDS:
            gaps.append((self.seen, now))
        return ElapsedAge(now, tuple(gaps[-MAX_GAPS:]))

    def before(self, seconds: float, *, most: float = MOST_SECONDS) -> float:
        """Return the clock time that was `seconds` of elapsed time before the last reading.

        A gap between two readings counts at most `most` seconds.
        """
        moment = self.seen
        for start, end in reversed(self.gaps):
            seconds -= moment - end
            if seconds <= 0:
                return end - seconds
            seconds -= min(most, end - start)
            if seconds <= 0:
                return start
            moment = start
        return moment - seconds


def read_clock(folder: Path, now: float) -> ElapsedAge:
    """Record in the store at `folder` that the clock shows `now`, and return the clock readings.

    If the earlier record is invalid, no time before `now` counts. If the new one cannot be written, that is
    ignored, because a full disk must not prevent the cleanup of the store. Blocking; never raises.
    """
    known = _read(folder / CLOCK_FILE, now).after_look(now)
    data = json.dumps({"seen": known.seen, "gaps": known.gaps}).encode()
    with suppress(OSError):
        write_atomically(
            folder / CLOCK_FILE, data, PRIVATE_FILE, replace_any=True, durable=False, prefix=TEMPORARY
        )
    return known


def _read(path: Path, now: float) -> ElapsedAge:
    try:
        data, _ = read_bytes(path.parent.resolve() / path.name, _MAX_BYTES)
        found = json.loads(data)
        gaps = tuple((float(start), float(end)) for start, end in found["gaps"])
        known = ElapsedAge(float(found["seen"]), gaps)
    except FileNotFoundError:
        return ElapsedAge(now)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return _nothing_counts(now)
    moments = [moment for gap in known.gaps for moment in gap]
    sound = all(map(math.isfinite, (known.seen, *moments))) and moments == sorted(moments)
    return known if sound else _nothing_counts(now)


def _nothing_counts(now: float) -> ElapsedAge:
    return ElapsedAge(now, ((0.0, now),))


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Statistics of the checkpoint store."""

    sessions: int
    steps: int
    objects: int
    size: int
    """The size on disk in bytes, counting each file in whole blocks."""
    oldest: float | None
    """The time of the oldest step, in seconds since the epoch; None if there are none."""
    flaws: int
    """The number of unusable lines, records and steps."""


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """A damaged or missing part of the store."""

    place: str
    sentence: str


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The result of `verify`: counts and findings."""

    sessions: int
    steps: int
    objects: int
    problems: tuple[StoreFinding, ...]
    notes: tuple[StoreFinding, ...]
    """Faults that do not affect any step."""

    @property
    def sound(self) -> bool:
        return not self.problems


def status(store: CheckpointStore) -> StoreStatus:
    """Return the statistics of the store. Blocks. Raises `StoreError` if the folder cannot be read."""
    needs, problems = _lines(store)
    return StoreStatus(
        sessions=len(store.sessions()),
        steps=len(needs),
        objects=sum(len(store.objects.listing(shard)) for shard in store.objects.shards()),
        size=store.size(),
        oldest=min((need.created for _, need in needs), default=None),
        flaws=len(problems),
    )


def verify(store: CheckpointStore) -> StoreReport:
    """Read all step logs and objects; report damaged or missing parts with the affected steps.

    Blocks for as long as reading the whole store takes. Raises `StoreError` only if the folder cannot be
    read.
    """
    with store.sharing():
        needs, problems = _lines(store)
        owners: dict[str, str] = {}
        for session, need in needs:
            for digest in need.digests:
                owners.setdefault(digest, f"step {need.number} of session {session}")
        there = tuple(store.objects.names())
        damaged = [digest for digest in there if not store.objects.check(digest)]
        missing = sorted(owners.keys() - set(there))
        problems += [_loss(digest, "missing", owners) for digest in missing]
        problems += [_loss(digest, "damaged", owners) for digest in damaged if digest in owners]
        problems += _unreadable(store.pending)
        notes = [_unneeded(digest) for digest in damaged if digest not in owners]
        notes += _unreadable(store.baselines)
    return StoreReport(len(store.sessions()), len(needs), len(there), tuple(problems), tuple(notes))


def _lines(store: CheckpointStore) -> tuple[list[tuple[str, Needs]], list[StoreFinding]]:
    """Return the objects needed by all steps, with their sessions, and unusable parts of the step logs."""
    needs: list[tuple[str, Needs]] = []
    problems: list[StoreFinding] = []
    for session in store.sessions():
        line = StepLog(store.lines, session, store.objects)
        place = f"lines/{line.path.name}"
        try:
            needs += [(session, need) for need in line.needs()]
            problems += [StoreFinding(f"{place}:{flaw.place}", flaw.sentence) for flaw in line.flaws()]
        except StoreError as error:
            problems.append(StoreFinding(place, str(error)))
    return needs, problems


def _loss(digest: str, how: str, owners: Mapping[str, str]) -> StoreFinding:
    return StoreFinding(
        f"objects/{digest[:2]}/{digest}",
        f"The contents are {how}; {owners[digest]} is the first to need them.",
    )


def _unneeded(digest: str) -> StoreFinding:
    return StoreFinding(f"objects/{digest[:2]}/{digest}", "The contents are damaged, but no step needs them.")


def _unreadable(folder: Path) -> Iterator[StoreFinding]:
    """Yield findings for files in a folder that are not JSON with one value a line."""
    for path in json_files(folder):
        try:
            for line in path.read_bytes().splitlines() or [b""]:
                json.loads(line)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            yield StoreFinding(f"{folder.name}/{path.name}", "The file cannot be read.")


def json_files(folder: Path) -> tuple[Path, ...]:
    """Return the JSON files in a folder, sorted; none if it is missing. Raises `StoreError`."""
    with suppress(FileNotFoundError):
        try:
            names = [path for path in folder.iterdir() if not path.name.startswith(TEMPORARY)]
        except NotADirectoryError as error:
            raise store_error(error, folder, "read") from error
        return tuple(sorted(path for path in names if path.name.endswith(".json")))
    return ()


_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True)
class ReachableObjects:
    """The objects needed at one moment, and the steps that need them."""

    needs: tuple[tuple[str, Needs], ...]
    """Each step's session and needed objects, log by log, oldest first."""
    held: frozenset[str]
    """The objects that stored registers and pending restores name."""

    @cached_property
    def all_digests(self) -> frozenset[str]:
        return self.held.union(*(need.digests for _, need in self.needs))


class ReachabilityMarker:
    """A repeatable search for needed objects that reads only new parts of files."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._lines: dict[str, StepLog] = {}
        self._files: dict[Path, tuple[tuple[int, int, int], frozenset[str]]] = {}

    def line(self, session: str) -> StepLog:
        """Return the step log of a session, cached until the session disappears."""
        if session not in self._lines:
            self._lines[session] = StepLog(self._store.lines, session, self._store.objects)
        return self._lines[session]

    def mark(self, seconds: float) -> ReachableObjects:
        """Return the objects that are needed now.

        Raises `BusyError` if the store is in use for longer than `seconds`, and `StoreError` if a file that
        names objects cannot be read.
        """
        # Most objects are read before the lock is taken, so that no process waits for that.
        self._look()
        with self._store.alone(seconds):
            return self._look()

    def _look(self) -> ReachableObjects:
        sessions = self._store.sessions()
        for gone in self._lines.keys() - set(sessions):
            del self._lines[gone]
        needs = tuple((session, need) for session in sessions for need in self.line(session).needs())
        files = (*json_files(self._store.pending), *json_files(self._store.baselines))
        return ReachableObjects(needs, frozenset().union(*map(self._named_in, files)))

    def _named_in(self, path: Path) -> frozenset[str]:
        """Return every digest in a file, whatever its format; empty if it is missing. Raises `StoreError`."""
        try:
            status = path.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            known = self._files.get(path)
            if known is None or known[0] != stamp:
                found = frozenset(digest.decode() for digest in _DIGEST.findall(path.read_bytes()))
                known = self._files[path] = (stamp, found)
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise store_error(error, path, "read") from error
        return known[1]


YOUNG_SECONDS = 3600.0
"""Seconds since their last use for which objects and step logs are kept, needed or not."""
PRESSED_SECONDS = 300.0
"""The same seconds while the store exceeds its size limit."""
TARGET = 0.9
"""The share of the size limit that stays in use, so that cleanup does not start again at once."""
GIT_SHARE = 0.25
"""The share of the size limit for git objects that only the store still has."""
PAUSE_SECONDS = 0.005
WAIT_SECONDS = 2.0
"""Seconds that a piece waits for a process using the store; then the rest is left for the next time."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a cleanup so far."""

    sessions: int = 0
    """The number of deleted sessions whose step logs were removed."""
    steps: int = 0
    """The number of steps that can no longer be undone."""
    objects: int = 0
    freed: int = 0
    """The number of bytes freed on disk."""
    busy: bool = False
    """True if the store was in use, so that something is left for the next time."""


def collect(
    store: CheckpointStore,
    *,
    max_bytes: int,
    max_age: float,
    living: Collection[str] | None = None,
    now: float | None = None,
) -> Collected:
    """Bring the store under its limits: `max_bytes` on disk, no steps older than `max_age` seconds.

    The age is elapsed time (see `ElapsedAge`). `living` are the existing sessions; the step logs of others
    are deleted. None means unknown, so all are kept. Blocks until done; `collecting` does the same piece by
    piece.

    Raises `StoreError` if a step log, a register or a pending restore cannot be read. Nothing is removed
    then, because the objects that it needs are unknown.
    """
    done = Collected()
    for piece in collecting(store, max_bytes=max_bytes, max_age=max_age, living=living, now=now):
        done = piece
        time.sleep(PAUSE_SECONDS)
    return done


def collecting(
    store: CheckpointStore,
    *,
    max_bytes: int,
    max_age: float,
    living: Collection[str] | None = None,
    now: float | None = None,
) -> Iterator[Collected]:
    """Run `collect` piece by piece, yielding the result so far. Between pieces no lock is held."""
    clock = read_clock(store.folder, time.time() if now is None else now)
    run = _Run(store, max_bytes, max_age, clock)
    try:
        run.mark_again()
        yield run.done
        for session in run.lines_of_deleted(living):
            run.drop(session)
            yield run.done
        for session, floor in run.floors().items():
            run.prune(session, floor)
            yield run.done
        run.drop_old_baselines()
        run.tidy_git()
        run.mark_again()
        for shard in store.objects.shards():
            run.sweep(shard)
            yield run.done
        run.sweep_linked()
        run.sweep_unfinished()
    except BusyError:
        yield replace(run.done, busy=True)


def drop_sessions(folder: Path, sessions: Collection[str]) -> None:
    """Delete the steps of deleted sessions; `folder` is that of the store, and need not exist.

    Objects that only these steps named are removed by the next cleanup. Blocks. Raises `StoreError`.
    """
    if folder.exists():
        store = CheckpointStore(folder)
        for session in filter(usable_name, sessions):
            store.drop(session)


class _Run:
    """One run of the cleanup."""

    def __init__(self, store: CheckpointStore, max_bytes: int, max_age: float, clock: ElapsedAge) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._clock = clock
        self._oldest = clock.before(max_age)
        self._young = YOUNG_SECONDS
        self._marker = ReachabilityMarker(store)
        self._mark = ReachableObjects((), frozenset())
        self.done = Collected()

    def mark_again(self) -> None:
        self._mark = self._marker.mark(WAIT_SECONDS)

    def lines_of_deleted(self, living: Collection[str] | None) -> list[str]:
        """Return deleted sessions that still have step logs, except recently used ones, which may be new."""
        if living is None:
            return []
        return [
            session
            for session in self._store.sessions()
            if session not in living and self._is_old(self._marker.line(session).path)
        ]

    def drop(self, session: str) -> None:
        with self._store.alone(WAIT_SECONDS):
            self._store.drop(session)
        needs = tuple(each for each in self._mark.needs if each[0] != session)
        self._mark = ReachableObjects(needs, self._mark.held)
        self.done = replace(self.done, sessions=self.done.sessions + 1)

    def floors(self) -> dict[str, int]:
        """Return the last step to delete of each log: those too old, then the oldest until the rest fits."""
        objects = {stored.digest: stored for stored in self._objects()}
        floors = _expired_steps(self._mark, self._oldest)
        size = self._store.size()
        if size > self._max_bytes:
            self._young = PRESSED_SECONDS
        size -= _spare(self._mark, objects, floors)
        if size > self._max_bytes:
            floors |= _fitting(self._mark, objects, floors, size - int(self._max_bytes * TARGET))
        return floors

    def prune(self, session: str, floor: int) -> None:
        gone = sum(name == session and need.number <= floor for name, need in self._mark.needs)
        with self._store.alone(WAIT_SECONDS), suppress(MissingLineError):
            self._marker.line(session).prune(floor)
            self.done = replace(self.done, steps=self.done.steps + gone)

    def drop_old_baselines(self) -> None:
        for path in json_files(self._store.baselines):
            if _changed(path) < self._oldest:
                path.unlink(missing_ok=True)

    def tidy_git(self) -> None:
        """Remove kept git objects that no repository has any longer, if they are too old or take too much
        space.
        """
        with self._store.alone(WAIT_SECONDS):
            freed = tidy(self._store.borrowed_folder, int(self._max_bytes * GIT_SHARE), self._oldest)
        self.done = replace(self.done, freed=self.done.freed + freed)

    def sweep(self, shard: str) -> None:
        """Remove unneeded objects from the folder `shard`."""
        if all(stored.digest in self._mark.all_digests for stored in self._store.objects.listing(shard)):
            return
        used_before = self._clock.before(self._young, most=0.0)
        with self._store.alone(WAIT_SECONDS):
            # Checked again under the lock, because an object may have been used since.
            for stored in self._store.objects.listing(shard):
                if stored.digest not in self._mark.all_digests and stored.used < used_before:
                    self._store.objects.discard(stored.digest)
                    freed = self.done.freed + on_disk(stored.size)
                    self.done = replace(self.done, objects=self.done.objects + 1, freed=freed)

    def sweep_linked(self) -> None:
        """Remove unneeded hard links. That frees no space while the original file still exists."""
        used_before = self._clock.before(self._young, most=0.0)
        with self._store.alone(WAIT_SECONDS):
            for kept in self._store.objects.linked():
                if kept.digest not in self._mark.all_digests and kept.used < used_before:
                    self._store.objects.discard(kept.digest)
                    self.done = replace(self.done, freed=self.done.freed + on_disk(kept.size))

    def sweep_unfinished(self) -> None:
        """Remove temporary files left by killed processes."""
        store = self._store
        for folder in (store.folder, store.objects.folder, store.lines, store.baselines, store.pending):
            for path in folder.glob(TEMPORARY + "*"):
                if self._is_old(path):
                    path.unlink(missing_ok=True)

    def _objects(self) -> Iterator[Stored]:
        for shard in self._store.objects.shards():
            yield from self._store.objects.listing(shard)
        yield from self._store.objects.linked()

    def _is_old(self, path: Path) -> bool:
        return _changed(path) < self._clock.before(YOUNG_SECONDS, most=0.0)


def _changed(path: Path) -> float:
    """Return when a file changed last; infinity for a missing file, which never counts as old."""
    with suppress(FileNotFoundError):
        return path.lstat().st_mtime
    return math.inf


def _expired_steps(mark: ReachableObjects, oldest: float) -> dict[str, int]:
    """Return for each log the last step up to which all steps are older than `oldest`."""
    floors: dict[str, int] = {}
    kept: set[str] = set()
    for session, need in mark.needs:
        if need.created < oldest and session not in kept:
            floors[session] = need.number
        else:
            kept.add(session)
    return floors


def _spare(mark: ReachableObjects, objects: dict[str, Stored], floors: dict[str, int]) -> int:
    """Return the bytes freed by deleting steps up to `floors`, including objects already unneeded."""
    needed = set(mark.held)
    size = 0
    for session, need in mark.needs:
        if need.number > floors.get(session, 0):
            needed |= need.digests
        else:
            size += need.size
    return size + sum(on_disk(stored.size) for stored in objects.values() if stored.digest not in needed)


def _fitting(
    mark: ReachableObjects, objects: dict[str, Stored], floors: dict[str, int], excess: int
) -> dict[str, int]:
    """Return the last step to delete of each log to free `excess` more bytes, the oldest steps first."""
    left = [(session, need) for session, need in mark.needs if need.number > floors.get(session, 0)]
    counts = Counter(digest for _, need in left for digest in need.digests)
    found: dict[str, int] = {}
    # A log loses its steps in order, even if the clock was set back between two of them.
    latest: dict[str, float] = {}
    order: list[tuple[float, int]] = []
    for place, (session, need) in enumerate(left):
        latest[session] = max(latest.get(session, 0.0), need.created)
        order.append((latest[session], place))
    for _, place in sorted(order):
        if excess <= 0:
            break
        session, need = left[place]
        found[session] = need.number
        excess -= need.size
        counts.subtract(need.digests)
        freed = (digest for digest in need.digests if not counts[digest] and digest not in mark.held)
        excess -= sum(on_disk(objects[digest].size) for digest in freed if digest in objects)
    return found


log = logging.getLogger(__name__)

FIRST_SECONDS = 180.0
"""Seconds from the start of the program to the first cleanup, so that it does not slow the start."""
AGAIN_SECONDS = 6 * 3600.0
BUSY_SECONDS = 600.0
"""Seconds before a retry if the store was in use."""
REST_SECONDS = 0.05
"""Seconds between two pieces, so that cleanup uses little of a processor and of the disk."""


async def keep_tidy(
    store: CheckpointStore,
    settings: CheckpointSettings,
    living: Collection[str] | None,
    *,
    further: Callable[[], object] = lambda: None,
    first: float = FIRST_SECONDS,
) -> None:
    """Remove checkpoints beyond the limits, first after `first` seconds and then every few hours.

    `living` are the existing sessions (None: unknown, so all are kept). `further` cleans up something else.
    Each piece of work runs in a thread; a failure is logged and retried later. Runs until cancelled.
    """
    pause = first
    while True:
        await asyncio.sleep(pause)
        done = Collected(busy=True)
        try:
            done = await _collected(store, settings, living)
            await asyncio.to_thread(further)
        except (HermesError, OSError) as error:
            log.warning("checkpoints could not be cleared: %s", error)
        pause = BUSY_SECONDS if done.busy else AGAIN_SECONDS


async def _collected(
    store: CheckpointStore, settings: CheckpointSettings, living: Collection[str] | None
) -> Collected:
    pieces = collecting(
        store,
        max_bytes=settings.max_total_mb * 1_000_000,
        max_age=settings.max_age_days * 86_400,
        living=None if living is None else frozenset(living),
    )
    done = Collected()
    while (piece := await asyncio.to_thread(_next, pieces)) is not None:
        done = piece
        await asyncio.sleep(REST_SECONDS)
    return done


def _next(pieces: Iterator[Collected]) -> Collected | None:
    return next(pieces, None)
