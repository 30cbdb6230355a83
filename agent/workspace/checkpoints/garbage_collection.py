"""Cleanup of the store: old steps and unneeded objects are removed.

There are no reference counts. Every step log, register and pending restore is read for the objects that it
names (mark). Then objects that nothing names are removed (sweep). So no count can be wrong, and a killed run
simply starts again. The work is done in small pieces under the lock; between them other processes can add
objects.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.workspace.checkpoints.elapsed_age import ElapsedAge, read_clock
from agent.workspace.checkpoints.git_keep import tidy
from agent.workspace.checkpoints.objects import TEMPORARY, Stored
from agent.workspace.checkpoints.reachability import ReachabilityMarker, ReachableObjects
from agent.workspace.checkpoints.step_log import BusyError, MissingLineError, usable_name
from agent.workspace.checkpoints.store import CheckpointStore, on_disk
from agent.workspace.checkpoints.verification import (
    StoreFinding,
    StoreReport,
    StoreStatus,
    json_files,
    status,
    verify,
)

__all__ = [
    "Collected",
    "StoreFinding",
    "StoreReport",
    "StoreStatus",
    "collect",
    "collecting",
    "drop_sessions",
    "status",
    "verify",
]

YOUNG_SECONDS = 3600.0
"""Objects and lines used within this time are kept, named or not."""
PRESSED_SECONDS = 300.0
"""The same while the store is over its limit."""
TARGET = 0.9
"""Share of the limit left in use, so that cleanup does not start again at once."""
GIT_SHARE = 0.25
"""Share of the limit for git objects that only the store has."""
PAUSE_SECONDS = 0.005
WAIT_SECONDS = 2.0
"""Seconds a piece waits for a process that adds; after that the rest is left for the next time."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a cleanup so far."""

    sessions: int = 0
    """The number of removed lines of deleted sessions."""
    steps: int = 0
    """The number of steps that can no longer be undone."""
    objects: int = 0
    freed: int = 0
    """Bytes freed on disk."""
    busy: bool = False
    """Whether the store was in use, so that something is left for the next time."""


def collect(
    store: CheckpointStore,
    *,
    max_bytes: int,
    max_age: float,
    living: Collection[str] | None = None,
    now: float | None = None,
) -> Collected:
    """Bring the store under its limits: `max_bytes` on disk, no steps older than `max_age` seconds.

    The age is elapsed time (see `elapsed_age`). `living` are the existing sessions; the step logs of others
    are deleted. None means unknown, so all are kept. Blocks until done; `collecting` does the same piece by
    piece.

    Raises `StoreError` if a step log, a register or a pending restore cannot be read. Then nothing is
    removed, because the objects that it needs are unknown.
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
    """Run `collect` piece by piece, without a lock in between. Each piece blocks for a moment."""
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

    Objects that only these steps named are removed by the next collection. Blocks; raises `StoreError`.
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
        """Return the step logs of deleted sessions, except recently used ones, which may belong to a new
        session.
        """
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
            # Looked at again under the lock: it may have been asked for since.
            for stored in self._store.objects.listing(shard):
                if stored.digest not in self._mark.all_digests and stored.used < used_before:
                    self._store.objects.discard(stored.digest)
                    freed = self.done.freed + on_disk(stored.size)
                    self.done = replace(self.done, objects=self.done.objects + 1, freed=freed)

    def sweep_linked(self) -> None:
        """Remove unneeded hard links. That frees nothing while a file still has its first name."""
        used_before = self._clock.before(self._young, most=0.0)
        with self._store.alone(WAIT_SECONDS):
            for kept in self._store.objects.linked():
                if kept.digest not in self._mark.all_digests and kept.used < used_before:
                    self._store.objects.discard(kept.digest)
                    self.done = replace(self.done, freed=self.done.freed + on_disk(kept.size))

    def sweep_unfinished(self) -> None:
        """Remove unfinished files of killed processes."""
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
    """Return when a file changed; for a missing one a time that never counts as old."""
    with suppress(FileNotFoundError):
        return path.lstat().st_mtime
    return math.inf


def _expired_steps(mark: ReachableObjects, oldest: float) -> dict[str, int]:
    """Return the last step of each log of which all earlier steps are also older than `oldest`. Pure."""
    floors: dict[str, int] = {}
    kept: set[str] = set()
    for session, need in mark.needs:
        if need.created < oldest and session not in kept:
            floors[session] = need.number
        else:
            kept.add(session)
    return floors


def _spare(mark: ReachableObjects, objects: dict[str, Stored], floors: dict[str, int]) -> int:
    """Return the bytes freed by deleting steps up to `floors`, including objects already unneeded. Pure."""
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
    """Return the last step to delete of each log to free `excess` more bytes, the oldest steps first.
    Pure.
    """
    left = [(session, need) for session, need in mark.needs if need.number > floors.get(session, 0)]
    counts = Counter(digest for _, need in left for digest in need.digests)
    found: dict[str, int] = {}
    # A line loses its steps in their order, also where a clock was set back between two.
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
