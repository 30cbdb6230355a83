"""Records about files: the state of a path, the change to it by a step, and parts that were not covered.

A workspace has one log of **steps** per session (its *line*), numbered from 1. Step 0 is the workspace before
any change. Position `n` means the state after step `n`. A restore is a step like any other, so the log only
grows. Every state can be reached again: for each path, take the `before` of its first later change.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from tools.results import ToolError

StepKind = Literal["tool", "command", "restore", "outside"]
"""The cause of a step: a file tool, something that runs programs, a restore, or a change from outside the
session.
"""


class PathKind(Enum):
    """The kind of object at a path."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"
    """A socket, a device, or a pipe: it is noticed, but never stored or restored."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The state of a path. Two entries are the `same` if restoring either gives the same result."""

    kind: PathKind
    mode: int
    """The permission bits, such as 0o644; 0 for a link."""
    size: int = 0
    """The size of a file in bytes; 0 for other kinds."""
    modified: int = 0
    """The time of the last change of contents, in nanoseconds since the epoch."""
    digest: str | None = None
    """SHA-256 of a file's bytes in hex; None if the contents are not stored, and for other kinds."""
    target: str = ""
    """The target of a link, exactly as written."""
    twin: str = ""
    """Another path in the workspace of the same file (a hard link); usually empty."""
    reason: str = ""
    """The reason why the contents of a file are not stored; empty if they are."""
    inode: str = ""
    """The inode of a file with several hard links, inside or outside the workspace; usually empty."""
    attributes: str = ""
    """The names of attributes that a restore does not bring back, separated by spaces; usually empty."""

    @property
    def is_restorable(self) -> bool:
        """Return whether this state can be restored."""
        return self.kind is not PathKind.OTHER and (self.kind is not PathKind.FILE or self.digest is not None)

    def same(self, other: PathEntry | None) -> bool:
        """Return whether restoring either entry gives the same result. Times do not count."""
        if other is None or self.kind is not other.kind or self.mode != other.mode:
            return False
        if self.kind is PathKind.FILE:
            return self.digest is not None and self.digest == other.digest
        return self.target == other.target


@dataclass(frozen=True, slots=True)
class PathChange:
    """The state of one path before and after a step; None if nothing exists there.

    `path` is relative to the workspace, with `/` between its components. `.` is the workspace itself, of
    which only the mode counts. An absolute path is one of Hermes's own files outside of it (`is_outside`).
    Bytes of a name that are not UTF-8 are stored as lone surrogates, as by `os.fsdecode`.
    """

    path: str
    before: PathEntry | None
    after: PathEntry | None


def is_outside(path: str) -> bool:
    """Return whether a path is outside of the workspace: a note or a skill that a tool has written."""
    return path.startswith("/")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that a step could not cover, and the reason. A folder stands for all its content."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """The extent to which a step can be undone. `left_out` names at most `NAMED` paths; `more` counts the
    others.
    """

    left_out: tuple[LeftOut, ...] = ()
    more: int = 0

    @property
    def complete(self) -> bool:
        return not self.left_out and not self.more

    def sentence(self) -> str:
        """Return the coverage as a phrase for the user: `full`, or `without` some of the paths left out."""
        if self.complete:
            return "full"
        named = ", ".join(f"{item.path} ({item.reason})" for item in self.left_out[:3])
        others = len(self.left_out[3:]) + self.more
        return f"without {named}" + (f" and {others:,} more" if others else "")


NAMED = 100
"""The largest number of paths that a coverage names."""


_REFS = 5_000
"""The largest number of refs of one unit that are recorded in a step; with more, none are recorded."""


@dataclass(frozen=True, slots=True)
class UnitMark:
    """A unit (a repository or a database) in which a step changed files; see `units.yaml`."""

    kind: str
    """The kind of unit; empty for a work tree inside a unit, where files are ordinary again."""
    refs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The values of git refs before and after the step; empty if missing. See `git_refs`."""
    objects: str = ""
    """For a repository created by the step, the identity of its object store."""


@dataclass(frozen=True, slots=True)
class Step:
    """The changes to workspace files by one call, by one restore, or from outside the session."""

    number: int
    kind: StepKind
    session: str
    """The session that acted; the steps of a subagent are in the line of the session that started it."""
    call: str
    """The id of the tool call that made it; empty for steps of the user."""
    label: str
    """A line for the user: `write_file src/app.py`, `restored to step 12`. Cleaned, secrets masked."""
    created: float
    """The time in seconds since the epoch."""
    root: str
    """The workspace folder, with links resolved."""
    changes: tuple[PathChange, ...]
    coverage: Coverage = Coverage()
    git: str = ""
    """A line about its effect on repositories; empty if it has none."""
    units: Mapping[str, UnitMark] = field(default_factory=dict)
    """The units in which it changed files, by folder; steps of older versions have none."""
    place: str = ""
    """The identity of the workspace folder, see `root_identity`; empty in records of older versions."""
    perhaps: tuple[str, ...] = ()
    """Paths that the user may have changed while the command ran, see `possible_user_changes`."""


def undo_refusal() -> ToolError:
    """Return the error for a call that must not change anything because it could not be undone."""
    return ToolError(
        "Not done: how files stand now cannot be kept, so this could not be undone. Make room for the folder "
        "of Hermes (`hermes checkpoints gc`), or set checkpoints.enabled to false to work without undo."
    )


def entry_record(entry: PathEntry | None) -> list[Any] | None:
    """Return an entry as a list for JSON; None for a missing path."""
    if entry is None:
        return None
    record: list[Any] = [entry.kind.value, entry.mode, entry.size, entry.modified, entry.digest]
    rest = [entry.target, entry.twin, entry.reason, entry.inode, entry.attributes]
    return record + rest if any(rest) else record


def entry_of(record: Any) -> PathEntry | None:
    """Return the entry in a JSON record; None for None. Raises `ValueError` if it is invalid."""
    if record is None:
        return None
    try:
        kind, mode, size, modified, digest, *rest = record
        return PathEntry(PathKind(kind), int(mode), int(size), int(modified), digest, *map(str, rest))
    except (TypeError, ValueError) as error:
        raise ValueError("this is not a record of a file") from error


def change_record(change: PathChange) -> list[Any]:
    """Return a change as a list for JSON."""
    return [change.path, entry_record(change.before), entry_record(change.after)]


def change_of(record: Any) -> PathChange:
    """Return the change in a JSON record. Raises `ValueError` if it is invalid."""
    try:
        path, before, after = record
    except (TypeError, ValueError) as error:
        raise ValueError("this is not a record of a change") from error
    return PathChange(str(path), entry_of(before), entry_of(after))


def step_record(step: Step) -> dict[str, Any]:
    """Return a step as a JSON object, without its changes."""
    return {
        "number": step.number,
        "kind": step.kind,
        "session": step.session,
        "call": step.call,
        "label": step.label,
        "created": step.created,
        "root": step.root,
        "left_out": [[item.path, item.reason] for item in step.coverage.left_out],
        "more": step.coverage.more,
        **({"git": step.git} if step.git else {}),
        **(
            {"units": {place: _mark_record(mark) for place, mark in step.units.items()}} if step.units else {}
        ),
        **({"place": step.place} if step.place else {}),
        **({"perhaps": list(step.perhaps)} if step.perhaps else {}),
    }


def step_of(record: Mapping[str, Any], changes: tuple[PathChange, ...]) -> Step:
    """Return the step in a JSON record, with the given changes. Raises `ValueError` if it is invalid."""
    try:
        left_out = tuple(LeftOut(str(path), str(reason)) for path, reason in record["left_out"])
        return Step(
            number=int(record["number"]),
            kind=record["kind"],
            session=str(record["session"]),
            call=str(record["call"]),
            label=str(record["label"]),
            created=float(record["created"]),
            root=str(record["root"]),
            changes=changes,
            coverage=Coverage(left_out, int(record["more"])),
            git=str(record.get("git", "")),
            units={str(place): _mark_of(mark) for place, mark in record.get("units", {}).items()},
            place=str(record.get("place", "")),
            perhaps=tuple(map(str, record.get("perhaps", ()))),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("this is not a record of a step") from error


def _mark_record(mark: UnitMark) -> list[Any]:
    refs = mark.refs if len(mark.refs) <= _REFS else {}
    return [mark.kind, {name: list(values) for name, values in refs.items()}, mark.objects]


def _mark_of(record: Any) -> UnitMark:
    kind, refs, objects = record
    return UnitMark(str(kind), {str(name): (str(b), str(a)) for name, (b, a) in refs.items()}, str(objects))


TICK = 50_000_000
"""The nanoseconds within which two writes may leave the same time on a file."""
COARSE_TICK = 2_000_000_000
"""The same for file systems whose times have no fractions of seconds."""

Stamp = tuple[int, ...]


class KnownPath(NamedTuple):
    """The last seen state of a path. It is a named tuple, because a workspace has many of them."""

    stamp: Stamp
    settled: bool
    """True if any later change certainly leaves another stamp."""
    entry: PathEntry | None
    """The state; None while it has not been read."""
    blob: str = ""
    """The id of the git object with exactly these bytes, which the object store then need not have."""


def stamp_of(status: os.stat_result) -> Stamp:
    """Return values of a path's status that change whenever the path changes."""
    if stat.S_ISDIR(status.st_mode):
        # The entries of a folder are compared separately.
        return (status.st_mode,)
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(status: os.stat_result, now: int | None = None) -> bool:
    """Return whether every later write will give another stamp. `now` is in nanoseconds since the epoch.

    Only the change time counts, because no program can set it. The modification time may be anything, even in
    the future.
    """
    now = time.time_ns() if now is None else now
    tick = TICK if status.st_ctime_ns % 1_000_000_000 else COARSE_TICK
    return status.st_ctime_ns < now - tick


def unreadable(error: OSError) -> str:
    """Return the reason why something is left out, for an error in reading it."""
    return f"cannot be read: {(error.strerror or str(error)).lower()}"


def is_folder(entry: PathEntry | None) -> bool:
    return entry is not None and entry.kind is PathKind.FOLDER
