"""Times of files that go back, so that no build takes an old result for a new one.

Where everything goes back, each file has its recorded time again, and so all of them their
order. Where something stays that is newer than a file which goes back, two things may be
true: what stays was built from the file (then the file has to look new), or the file was
built from what stays (then it must not). What a build makes is told by its bytes, and
failing that by the order that was recorded; in doubt a file counts as a source, because a
build too many costs less than one too few.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.file_writing import set_time
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.ignored_names import is_noise
from tools.kit.files import open_folder

_HEAD = 8_000
_STEP = 1_000
"""Nanoseconds between two files that are given the time of now."""
_DATED = (PathKind.FILE, PathKind.LINK)


@dataclass(frozen=True, slots=True)
class _Stayed:
    """A file that is not as it was at the position, and stays."""

    modified: int
    recorded: int
    """Its time at the position; 0 where it was not there."""
    is_result: bool


def with_times(
    root: Path, moves: Sequence[Move], known: Mapping[str, PathEntry | None], objects: ObjectStore
) -> list[Move]:
    """The moves, each with the time that its file is to have. Blocking.

    `known` is how all paths stood at the position that were changed since, by whoever it was; those that
    no move is about stay.
    """
    moving = {move.path for move in moves}
    stayed = list(_stayed(root, ((path, was) for path, was in known.items() if path not in moving)))
    newest = max((each.modified for each in stayed), default=0)
    new = {
        move.path
        for move in moves
        if (entry := move.wanted) is not None
        and entry.kind in _DATED
        and 0 < entry.modified < newest
        and _has_to_look_new(entry, [each for each in stayed if each.modified > entry.modified], objects)
    }
    if not new:
        return list(moves)
    ordered = sorted(
        (move for move in moves if move.path in new),
        key=lambda move: (move.wanted.modified if move.wanted else 0, move.path),
    )
    now = time.time_ns() - _STEP * len(ordered)
    at = {move.path: now + _STEP * number for number, move in enumerate(ordered)}
    return [
        replace(move, wanted=replace(move.wanted, modified=at[move.path]))
        if move.path in at and move.wanted is not None
        else move
        for move in moves
    ]


def redate(root: Path, done: Iterable[Move], wanted: Iterable[Move]) -> None:
    """Give files that went back other times than they got, as something stayed. Blocking."""
    for was, move in zip(done, wanted, strict=True):
        if was.wanted is not None and move.wanted is not None and was.wanted != move.wanted:
            with suppress(OSError), open_folder(root / move.parent if move.parent else root) as folder:
                set_time(folder, move.name, move.wanted)


def _has_to_look_new(entry: PathEntry, newer: Iterable[_Stayed], objects: ObjectStore) -> bool:
    if entry.kind is PathKind.FILE and _is_result(_stored_head(entry, objects)):
        return False
    # A text that was newer than all these texts may be made of them.
    return any(each.is_result or not each.recorded or each.recorded >= entry.modified for each in newer)


def _stayed(root: Path, paths: Iterable[tuple[str, PathEntry | None]]) -> Iterator[_Stayed]:
    for path, was in paths:
        # Nothing is built from what version control or a cache keeps.
        if any(is_noise(part, folder=True) for part in path.split("/")[:-1]):
            continue
        with suppress(OSError, ValueError):
            status = (root / path).lstat()
            recorded = was.modified if was is not None else 0
            if stat.S_ISDIR(status.st_mode) or status.st_mtime_ns == recorded:
                continue
            yield _Stayed(status.st_mtime_ns, recorded, _is_result(_head(root / path, status)))


def _is_result(head: bytes) -> bool:
    """Whether a file that begins like this is one that programs make: no text."""
    return b"\0" in head


def _stored_head(entry: PathEntry, objects: ObjectStore) -> bytes:
    if entry.digest is None:
        return b""
    try:
        return next(iter(objects.chunks(entry.digest)), b"")[:_HEAD]
    except StoreError:
        return b""


def _head(path: Path, status: os.stat_result) -> bytes:
    if not stat.S_ISREG(status.st_mode):
        return b""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, _HEAD, 0)
    finally:
        os.close(descriptor)
