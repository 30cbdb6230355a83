"""Records about files: how a path stood, how a step changed it, and what was not seen.

A workspace has one line of **steps** per session, numbered from 1. Step 0 is
the workspace before anything was done. Position `n` means: after step `n`. A
restore is a step like any other, so the line only ever grows, and every state
on it can be reached again by taking the `before` of the first later change of
each path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from tools.results import ToolError

StepKind = Literal["tool", "command", "restore", "outside"]
"""What made a step: a file tool, something that runs programs, a restore, or somebody else than the agent."""


class PathKind(Enum):
    """What stands at a path."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"
    """A socket, a device, a pipe: noticed, never kept and never restored."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """How a path stood. Two entries are `same` when restoring one gives what the other describes."""

    kind: PathKind
    mode: int
    """Permission bits, such as 0o644; 0 for a link, which has none of its own."""
    size: int = 0
    """Bytes of a file; 0 for the rest."""
    modified: int = 0
    """Time of the last change of contents in nanoseconds since the epoch."""
    digest: str | None = None
    """SHA-256 of a file's bytes in hex; None when the contents are not kept, and for the rest."""
    target: str = ""
    """Where a link leads, exactly as it is written in it."""
    twin: str = ""
    """Another path of the workspace that is the same file (a hard link); empty for most."""
    reason: str = ""
    """Why the contents of a file are not kept; empty when they are."""
    inode: str = ""
    """The number of a file that has several names, here or elsewhere; empty for most."""
    attributes: str = ""
    """Names of what no restore gives back, parted by spaces; empty for most, and where nobody looked."""

    @property
    def kept(self) -> bool:
        """Whether this state can be made again."""
        return self.kind is not PathKind.OTHER and (self.kind is not PathKind.FILE or self.digest is not None)

    def same(self, other: PathEntry | None) -> bool:
        """Whether nothing that a restore would bring back tells the two apart. Times do not count."""
        if other is None or self.kind is not other.kind or self.mode != other.mode:
            return False
        if self.kind is PathKind.FILE:
            return self.digest is not None and self.digest == other.digest
        return self.target == other.target


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path before and after a step; None where there was or is nothing.

    `path` is relative to the workspace, `/` between its parts, and `.` for the workspace itself, of which
    only the mode counts; an absolute one is a file of Hermes outside of it (`is_outside`). Bytes of a name
    that are no UTF-8 travel as lone surrogates, as `os.fsdecode` makes them.
    """

    path: str
    before: PathEntry | None
    after: PathEntry | None


def is_outside(path: str) -> bool:
    """Whether a path of a change lies outside of the workspace: notes and skills, which tools write too."""
    return path.startswith("/")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path (a folder stands for all below it) that a step could not cover, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a step can vouch for. `left_out` names at most `NAMED` paths; `more` counts the others."""

    left_out: tuple[LeftOut, ...] = ()
    more: int = 0

    @property
    def complete(self) -> bool:
        return not self.left_out and not self.more

    def sentence(self) -> str:
        """For a person: `full`, or what is left out."""
        if self.complete:
            return "full"
        named = ", ".join(f"{item.path} ({item.reason})" for item in self.left_out[:3])
        others = len(self.left_out[3:]) + self.more
        return f"without {named}" + (f" and {others:,} more" if others else "")


NAMED = 100
"""Paths a coverage names at most."""


_REFS = 5_000
"""Refs of one unit that a step writes down; of a step with more, what the files say is enough."""


@dataclass(frozen=True, slots=True)
class UnitMark:
    """A unit that a step changed files of; see `units`."""

    kind: str
    """Empty for a work tree within one, where files are ordinary again."""
    refs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What refs of git pointed to, before and after; empty for one that was not there. See `git_refs`."""
    objects: str = ""
    """Of a repository that the step made: what tells whether its objects are still those."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one call, restore or person did to the files of a workspace."""

    number: int
    kind: StepKind
    session: str
    """The session that acted; a child's steps stand in the line of the session that delegated to it."""
    call: str
    """The tool call that made it; empty for steps of a person."""
    label: str
    """One line for a person: `write_file src/app.py`, `restored to step 12`. Cleaned, secrets masked."""
    created: float
    """Seconds since the epoch."""
    root: str
    """The workspace, resolved."""
    changes: tuple[PathChange, ...]
    coverage: Coverage = Coverage()
    git: str = ""
    """What it did to repositories, in one plain line; empty where it did nothing to them."""
    units: Mapping[str, UnitMark] = field(default_factory=dict)
    """The units it changed files of, by their folders; steps of older versions have none."""
    place: str = ""
    """Which folder the workspace was, see `root_identity`; empty in a record of an older Hermes."""
    perhaps: tuple[str, ...] = ()
    """Paths that a person may have changed while the command ran, see `perhaps_by_others`."""


def undo_refusal() -> ToolError:
    """Why a call may not change anything: what it did could not be taken back."""
    return ToolError(
        "Not done: how files stand now cannot be kept, so this could not be undone. Make room for the folder "
        "of Hermes (`hermes checkpoints gc`), or set checkpoints.enabled to false to work without undo."
    )


def entry_record(entry: PathEntry | None) -> list[Any] | None:
    """An entry as JSON can hold it."""
    if entry is None:
        return None
    record: list[Any] = [entry.kind.value, entry.mode, entry.size, entry.modified, entry.digest]
    rest = [entry.target, entry.twin, entry.reason, entry.inode, entry.attributes]
    return record + rest if any(rest) else record


def entry_of(record: Any) -> PathEntry | None:
    """The entry of a record. Raises `ValueError` when it is none."""
    if record is None:
        return None
    try:
        kind, mode, size, modified, digest, *rest = record
        return PathEntry(PathKind(kind), int(mode), int(size), int(modified), digest, *map(str, rest))
    except (TypeError, ValueError) as error:
        raise ValueError("this is no record of a file") from error


def change_record(change: PathChange) -> list[Any]:
    """A change as JSON can hold it."""
    return [change.path, entry_record(change.before), entry_record(change.after)]


def change_of(record: Any) -> PathChange:
    """The change of a record. Raises `ValueError` when it is none."""
    try:
        path, before, after = record
    except (TypeError, ValueError) as error:
        raise ValueError("this is no record of a change") from error
    return PathChange(str(path), entry_of(before), entry_of(after))


def step_record(step: Step) -> dict[str, Any]:
    """A step as JSON can hold it (ASCII only, so that odd names survive), without its changes."""
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
    """The step of a record. Raises `ValueError` when it is none."""
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
        raise ValueError("this is no record of a step") from error


def _mark_record(mark: UnitMark) -> list[Any]:
    refs = mark.refs if len(mark.refs) <= _REFS else {}
    return [mark.kind, {name: list(values) for name, values in refs.items()}, mark.objects]


def _mark_of(record: Any) -> UnitMark:
    kind, refs, objects = record
    return UnitMark(str(kind), {str(name): (str(b), str(a)) for name, (b, a) in refs.items()}, str(objects))
