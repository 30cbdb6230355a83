"""Comparison of state files by meaning, because commands that only read rewrite some of them.

`hg status` and `bzr status` write file times. A SELECT moves the log of SQLite into its database file.
`fossil status` records when it ran. The meaning of the files stays the same.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import struct
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step
from tools.kit.lazy_pattern import lazy_pattern

Read = Callable[[str], bytes | None]
"""A function that returns the contents of a workspace path at one moment; None if unavailable."""

LARGEST = 16_000_000
"""The size in bytes above which a database is not compared row by row."""
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")
_LOOKED_AT = frozenset({"recorded_time", "recorded_size", "mtime", "chnged"})
"""Columns in which Subversion and Fossil record the last seen times and sizes of work tree files."""
_HG_STATE = lazy_pattern(r"dirstate(\.[0-9a-f]{1,64})?")
_SECOND = b"dirstate-v2\n"
_NODE = struct.Struct(">IH2xIHII8xH12x")
_INSTRUCTIONS = 50_000_000
_BZR_TIMES = re.compile(rb"[0-9]+|[0-9a-f]{40}|[A-Za-z0-9+/]{32}")


def says_the_same(kind: str, rest: str, path: str, one: Read, other: Read) -> bool:
    """Return whether a state file or database at `path` holds equivalent data in both versions, even if its
    bytes differ; False if unknown.

    `kind` is the kind of its unit, `rest` its path in the unit. Blocking; never raises.
    """
    if kind == "hg" and _HG_STATE.fullmatch(rest):
        folder = path[: -len(rest)]
        return _listed_alike(lambda read: dirstate(read, folder), one, other)
    if kind == "bzr" and rest == "checkout/dirstate":
        return _listed_alike(lambda read: bzr_dirstate(read(path) or b""), one, other)
    base = next((path.removesuffix(each) for each in _BESIDE if path.endswith(each)), path)
    if path == f"{base}-shm":
        # It is derived from the log, and nothing depends on it.
        return any((data or b"").startswith(_SQLITE) for data in (one(base), other(base)))
    found = [(read(base), read(f"{base}-wal") or b"") for read in (one, other)]
    if not all(data is not None and data.startswith(_SQLITE) for data, _ in found):
        return False
    try:
        first, second = (rows(data or b"", log) for data, log in found)
        return first == second
    except (sqlite3.Error, OSError, ValueError):
        return False


def is_told_by_itself(path: str, known: Container[str], now: Read) -> bool:
    """Return whether a database log can be compared, for which its database file is needed.

    `known` contains the paths with a known earlier state. An empty log can always be compared.
    """
    base = path.removesuffix("-wal")
    return base == path or base in known or not now(path)


def dirstate(read: Read, folder: str) -> object:
    """Return the content of Mercurial's dirstate in `folder`: parents, and each file with its state.

    For the formats, see mercurial/helptext/internals/dirstate-v2.txt, and mercurial/dirstatemap.py for
    version 1. Raises `ValueError` for any other format, `struct.error` for incomplete data.
    """
    data = read(f"{folder}dirstate") or b""
    found: list[tuple[bytes, int, bytes]] = []
    if data.startswith(_SECOND):
        stem = data[125 : 125 + data[124]].decode("ascii")
        nodes = read(f"{folder}dirstate.{stem}") or b""
        waiting = [struct.unpack_from(">II", data, 76)]
        while waiting:
            start, count = waiting.pop()
            if start + count * _NODE.size > len(nodes) or len(found) > len(nodes):
                raise ValueError("the dirstate ends too early")
            for at in range(start, start + count * _NODE.size, _NODE.size):
                path, length, source, sources, below, children, flags = _NODE.unpack_from(nodes, at)
                # Tracked in the work tree, in the first parent, or with information from the second one.
                if flags & 7:
                    copied = nodes[source : source + sources]
                    found.append((nodes[path : path + length], flags & 7, copied))
                if below and children:
                    waiting.append((below, children))
        return data[12:76], sorted(found)
    if len(data) < 40:
        raise ValueError("no dirstate")
    at = 40
    while at < len(data):
        size, length = struct.unpack_from(">i4xI", data, at + 5)
        # -2: the file came from the other parent of a merge.
        found.append((data[at : at + 1], size == -2, data[at + 17 : at + 17 + length]))
        at += 17 + length
    if at != len(data):
        raise ValueError("the dirstate ends too early")
    return data[:40], sorted(found)


def bzr_dirstate(data: bytes) -> object:
    """Return the content of a Breezy dirstate without the sizes, digests and times of files. Raises
    `ValueError` for any other data.
    """
    lines = data.split(b"\n", 2)
    if not data.startswith(b"#bazaar dirstate") or len(lines) < 3:
        raise ValueError("no dirstate")
    return [b"" if _BZR_TIMES.fullmatch(field) else field for field in lines[2].split(b"\0")]


def rows(data: bytes, log: bytes) -> str:
    """Return a digest of the content of an SQLite database, including its write-ahead log.

    Raises `ValueError` if the database is too large, `sqlite3.Error` if it is unreadable.
    """
    if len(data) + len(log) > LARGEST:
        raise ValueError("the database is too large to be compared by its rows")
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "db").write_bytes(data)
        if log:
            (Path(folder) / "db-wal").write_bytes(log)
        with closing(sqlite3.connect(f"{folder}/db")) as base:
            # An attacker may have written the database.
            base.execute("pragma trusted_schema = off")
            base.set_progress_handler(lambda: True, _INSTRUCTIONS)
            base.text_factory = bytes
            tables = base.execute("select type, name, sql from sqlite_master order by name").fetchall()
            for kind, name, sql in tables:
                digest.update(repr((kind, name, sql)).encode())
                plain = name.decode().replace('"', '""')
                if kind != b"table" or name.startswith(b"sqlite_stat") or b"VIRTUAL" in (sql or b"").upper():
                    continue
                names = [row[1].decode() for row in base.execute(f'pragma table_info("{plain}")')]
                columns = ", ".join(
                    '"{}"'.format(each.replace('"', '""')) for each in names if each not in _LOOKED_AT
                )
                for row in base.execute(f'select {columns or 1} from "{plain}"'):
                    digest.update(repr(row).encode())
    return digest.hexdigest()


def _listed_alike(listed: Callable[[Read], object], one: Read, other: Read) -> bool:
    try:
        return listed(one) == listed(other)
    except (ValueError, IndexError, struct.error):
        return False


State = dict[str, PathEntry | None]
"""The states of paths; None if a path did not exist. A path that is not a key was never changed."""


def between(steps: Sequence[Step], after: int, upto: int) -> Sequence[Step]:
    """Return the steps with numbers above `after`, up to and including `upto`."""
    return steps[_behind(steps, after) : _behind(steps, upto)]


def targets(steps: Sequence[Step], position: int) -> State:
    """Return the state at `position` of each path that changed later."""
    found: State = {}
    for step in steps[_behind(steps, position) :]:
        for change in step.changes:
            found.setdefault(change.path, change.before)
    return found


def last_states(steps: Iterable[Step]) -> State:
    """Return each path's state after the last step that changed it."""
    return {change.path: change.after for step in steps for change in step.changes}


def difference(steps: Sequence[Step], first: int, second: int) -> tuple[PathChange, ...]:
    """Return the changes from position `first` to `second`, sorted by path; either may be the earlier one."""
    if first > second:
        return tuple(
            PathChange(each.path, each.after, each.before) for each in difference(steps, second, first)
        )
    found: dict[str, PathChange] = {}
    for step in between(steps, first, second):
        for change in step.changes:
            known = found.get(change.path)
            found[change.path] = PathChange(
                change.path, known.before if known else change.before, change.after
            )
    return tuple(found[path] for path in sorted(found) if not alike(found[path].before, found[path].after))


def breaks(steps: Sequence[Step], position: int = 0) -> dict[str, tuple[int, ...]]:
    """Return the paths that another program or the user changed between two steps after `position`.

    Each value lists the numbers of the steps that found another state than the previous step had left.
    """
    known: State = {}
    found: dict[str, list[int]] = {}
    for step in steps[_behind(steps, position) :]:
        for change in step.changes:
            if change.path in known and not alike(known[change.path], change.before):
                found.setdefault(change.path, []).append(step.number)
            known[change.path] = change.after
    return {path: tuple(numbers) for path, numbers in found.items()}


def alike(one: PathEntry | None, other: PathEntry | None) -> bool:
    """Return whether a restore treats two states as equal."""
    return other is None if one is None else one.same(other)


def _behind(steps: Sequence[Step], number: int) -> int:
    """Return the index of the first step with a number above `number`."""
    return bisect_right(steps, number, key=lambda step: step.number)
