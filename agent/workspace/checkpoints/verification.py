"""Verification of the store: its statistics, and the integrity of its content. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.objects import TEMPORARY, store_error
from agent.workspace.checkpoints.step_log import Needs, StepLog
from agent.workspace.checkpoints.store import CheckpointStore


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The statistics of the store."""

    sessions: int
    steps: int
    objects: int
    size: int
    """Bytes on the disk, each file in whole blocks."""
    oldest: float | None
    """The time of the oldest step, in seconds since the epoch; None without any."""
    flaws: int
    """The number of unusable lines, records and steps."""


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """A damaged or missing part of the store."""

    place: str
    sentence: str


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The result of `verify`."""

    sessions: int
    steps: int
    objects: int
    problems: tuple[StoreFinding, ...]
    notes: tuple[StoreFinding, ...]
    """Oddities without effect on any step."""

    @property
    def sound(self) -> bool:
        return not self.problems


def status(store: CheckpointStore) -> StoreStatus:
    """Return the statistics of the store. Blocks; raises `StoreError` if the folder cannot be read."""
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
    """Read all step logs and objects; return damaged or missing parts with the affected steps.

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
    """Return the objects needed by all steps, with their sessions, and the unusable parts of the step
    logs.
    """
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
    """Yield findings for the unreadable files in a folder of JSON files, one value a line."""
    for path in json_files(folder):
        try:
            for line in path.read_bytes().splitlines() or [b""]:
                json.loads(line)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            yield StoreFinding(f"{folder.name}/{path.name}", "The file cannot be read.")


def json_files(folder: Path) -> tuple[Path, ...]:
    """Return the JSON files of a folder, in order; none if it is missing."""
    with suppress(FileNotFoundError):
        try:
            names = [path for path in folder.iterdir() if not path.name.startswith(TEMPORARY)]
        except NotADirectoryError as error:
            raise store_error(error, folder, "read") from error
        return tuple(sorted(path for path in names if path.name.endswith(".json")))
    return ()
