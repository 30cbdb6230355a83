"""The set of needed objects, found by reading every file that can name one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent.workspace.checkpoints.objects import store_error
from agent.workspace.checkpoints.step_log import Needs, StepLog
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.verification import json_files

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True)
class ReachableObjects:
    """The needed objects at one moment, and the steps that need them."""

    needs: tuple[tuple[str, Needs], ...]
    """Session and needs of each of its steps, line by line, oldest first."""
    held: frozenset[str]
    """Objects that baselines and pending restores name."""

    @cached_property
    def all_digests(self) -> frozenset[str]:
        return self.held.union(*(need.digests for _, need in self.needs))


class ReachabilityMarker:
    """Finds needed objects repeatedly at little cost: only new parts of files are read."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._lines: dict[str, StepLog] = {}
        self._files: dict[Path, tuple[tuple[int, int, int], frozenset[str]]] = {}

    def line(self, session: str) -> StepLog:
        """Return the step log of a session, cached between calls of `mark`."""
        if session not in self._lines:
            self._lines[session] = StepLog(self._store.lines, session, self._store.objects)
        return self._lines[session]

    def mark(self, seconds: float) -> ReachableObjects:
        """Return the objects that are needed now.

        Raises `BusyError` if the store is in use for longer than `seconds`. Raises `StoreError` if a file
        that names objects cannot be read.
        """
        # Most is read before the lock is taken: nobody waits for it.
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
        """Return every digest in a file, whatever its format is."""
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
