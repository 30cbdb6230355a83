"""The difference between two positions of a line of steps, as a patch that `git apply` takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from agent.errors import StoreError
from agent.session.export.git_form import (
    EXECUTABLE,
    LINK,
    PLAIN,
    PatchBlob,
    PatchSection,
    quoted,
    refused,
    sections,
)
from agent.workspace.checkpoints.entries import (
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    is_outside,
)
from agent.workspace.checkpoints.git_words import git_apart
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import NO_UNITS, Units
from tools.text.words import one_line

LARGEST = 20_000_000
"""Bytes of a file above which it is left out of a patch: nobody reads it, and git holds it in memory."""

_USUAL = (0o644, 0o664, 0o755, 0o775)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch says of one path."""

    path: str
    data: bytes
    added: int
    """Lines; 0 for binary contents."""
    removed: int


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, path by path, and what it cannot say."""

    files: tuple[FilePatch, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def data(self) -> bytes:
        """The patch, led by comment lines that name what is left out; git passes over those."""
        return b"".join([*map(_comment, self.left_out), self.body])

    @property
    def body(self) -> bytes:
        """The patch alone."""
        return b"".join(file.data for file in self.files)


class _LeftOutError(Exception):
    """A path cannot be told in a patch; the message is the reason."""


def patch_between(
    changes: Iterable[PathChange], objects: ObjectStore, *, text: bool = False, units: Units = NO_UNITS
) -> Patch:
    """`changes`, one per path, as a patch; with `text` one to be read, in which binaries are named only.

    Of `units` it is only said that they are no part of it. Blocking: reads the contents.
    """
    files: list[FilePatch] = []
    left_out: list[LeftOut] = []
    folders: list[PathChange] = []
    apart = git_apart(changes, units)
    repositories = {found.root if (found := units.part(each.path)) else each.path for each in apart.git}
    left_out += [LeftOut(folder, "where git stands is no part of a patch") for folder in repositories]
    for change in sorted(apart.files, key=lambda each: os.fsencode(each.path)):
        if _is_folder(change.before) or _is_folder(change.after):
            folders.append(change)
        try:
            found = _sections(change, objects, text)
        except _LeftOutError as reason:
            left_out.append(LeftOut(change.path, str(reason)))
            continue
        if found:
            added, removed = sum(each.added for each in found), sum(each.removed for each in found)
            files.append(FilePatch(change.path, b"".join(each.data for each in found), added, removed))
        left_out += _unsaid(change)
    told = {above for file in files for above in _above(file.path)}
    left_out += _folders(folders, told)
    return Patch(tuple(files), tuple(sorted(left_out, key=lambda item: os.fsencode(item.path))))


def _sections(change: PathChange, objects: ObjectStore, text: bool) -> list[PatchSection]:
    before, after = (_blob(entry, objects) for entry in (change.before, change.after))
    if before == after:
        return []
    if is_outside(change.path) and not text:
        raise _LeftOutError("lies outside of the workspace")
    if reason := refused(change.path):
        raise _LeftOutError(reason)
    return list(sections(os.fsencode(change.path), before, after, text=text))


def _blob(entry: PathEntry | None, objects: ObjectStore) -> PatchBlob | None:
    """What git sees of an entry: nothing of a folder. Raises `_LeftOutError`."""
    if entry is None or entry.kind is PathKind.FOLDER:
        return None
    if entry.kind is PathKind.LINK:
        return PatchBlob(LINK, os.fsencode(entry.target))
    if entry.kind is PathKind.OTHER or entry.digest is None:
        raise _LeftOutError(f"its contents were not kept: {entry.reason or 'it is no plain file'}")
    if entry.size > LARGEST:
        raise _LeftOutError(f"larger than {LARGEST // 1_000_000} MB")
    try:
        data = objects.read(entry.digest)
    except StoreError as error:
        raise _LeftOutError("its contents are no longer in the checkpoints") from error
    return PatchBlob(_git_mode(entry), data)


def _git_mode(entry: PathEntry) -> int:
    return EXECUTABLE if entry.mode & 0o100 else PLAIN


def _unsaid(change: PathChange) -> Iterable[LeftOut]:
    """Permissions that a patch does not bring along."""
    before, after = change.before, change.after
    if after is None or after.kind is not PathKind.FILE:
        return
    if before is not None and before.kind is PathKind.FILE:
        if before.mode != after.mode and _git_mode(before) == _git_mode(after):
            yield LeftOut(change.path, f"its permissions went from {before.mode:o} to {after.mode:o}")
    elif after.mode not in _USUAL:
        yield LeftOut(change.path, f"its permissions are {after.mode:o}")


def _folders(changes: Iterable[PathChange], told: set[str]) -> Iterable[LeftOut]:
    """Changes of folders that do not follow from those of the files below them."""
    for change in changes:
        if change.before is not None and change.after is not None and change.before.kind is change.after.kind:
            modes = f"{change.before.mode:o} to {change.after.mode:o}"
            yield LeftOut(change.path, f"the permissions of this folder went from {modes}")
        elif change.path not in told:
            what = "was made" if _is_folder(change.after) else "went away"
            yield LeftOut(change.path, f"an empty folder that {what}; git knows none")


def _is_folder(entry: PathEntry | None) -> bool:
    return entry is not None and entry.kind is PathKind.FOLDER


def _above(path: str) -> Iterable[str]:
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        yield path


def _comment(item: LeftOut) -> bytes:
    reason = one_line(item.reason)
    return b"# left out: %s (%s)\n" % (quoted(os.fsencode(item.path)), reason.encode())
