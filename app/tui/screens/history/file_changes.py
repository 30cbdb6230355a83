"""Changes of files between two points: lines counted, and both sides to read.

Everything comes out of the checkpoints; the workspace is not looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind
from app.tui.screens.history.timeline_services import FileDifferenceRow, Sides
from tools.files.diffs import diff_texts

READABLE = 4_000_000
"""Bytes of a file that is compared."""
COUNTED = 200
"""Files whose lines are counted at once; of others it is only said that they changed."""
_SAMPLE = 8_000

Read = Callable[[str], Awaitable[bytes]]
"""Gives kept contents by their digest. Raises `HermesError`."""


class FileChanges:
    """Describes changes. What was counted once is kept, as older points share most of their files."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: dict[tuple[PathEntry | None, PathEntry | None], tuple[int, int] | str] = {}

    async def described(self, changes: Sequence[PathChange]) -> list[FileDifferenceRow]:
        """Each change with the lines that came and went, as far as they can be counted."""
        found = [await self._described(change) for change in changes[:COUNTED]]
        return [*found, *(_plain(change) for change in changes[COUNTED:])]

    async def sides(self, change: PathChange) -> Sides:
        """Both sides of a change."""
        try:
            before, after = await self._text(change.before), await self._text(change.after)
        except HermesError as error:
            return Sides(None, None, str(error))
        note = next((each.note for each in (before, after) if each.note), "")
        return Sides(before.after, after.after, note)

    async def _described(self, change: PathChange) -> FileDifferenceRow:
        plain = _plain(change)
        key = (change.before, change.after)
        if key not in self._known:
            sides = await self.sides(change)
            if sides.note:
                self._known[key] = sides.note
            else:
                diff = await asyncio.to_thread(diff_texts, sides.before or "", sides.after or "", "", "")
                self._known[key] = (diff.added, diff.removed)
        known = self._known[key]
        if isinstance(known, str):
            return FileDifferenceRow(plain.path, plain.kind, note=plain.note or known)
        return FileDifferenceRow(plain.path, plain.kind, *known, note=plain.note)

    async def _text(self, entry: PathEntry | None) -> Sides:
        """What stood at a path as text, in `after`."""
        if entry is None:
            return Sides(None, None)
        if entry.kind is PathKind.LINK:
            return Sides(None, f"{entry.target}\n")
        if entry.kind is PathKind.OTHER and entry.reason:
            return Sides(None, None, entry.reason)
        if entry.kind is not PathKind.FILE:
            return Sides(None, "")
        if entry.digest is None:
            return Sides(None, None, f"not kept: {entry.reason}")
        if entry.size > READABLE:
            return Sides(None, None, "too large to compare")
        data = await self._read(entry.digest)
        if b"\0" in data[:_SAMPLE]:
            return Sides(None, None, "binary")
        return Sides(None, await asyncio.to_thread(data.decode, "utf-8", "replace"))


def _plain(change: PathChange) -> FileDifferenceRow:
    """A change without its lines. Pure."""
    return FileDifferenceRow(change.path, kind_of(change.before, change.after), note=note_of(change))


def kind_of(before: PathEntry | None, after: PathEntry | None) -> Literal["added", "changed", "deleted"]:
    """What happened to a path. Pure."""
    return "added" if before is None else "deleted" if after is None else "changed"


def note_of(change: PathChange) -> str:
    """What lines do not tell: another kind of entry, another mode. Pure."""
    before, after = change.before, change.after
    one = after or before
    if one is None:
        return ""
    if one.kind is PathKind.OTHER and one.reason:
        return one.reason
    if before is None or after is None:
        return "" if one.kind is PathKind.FILE else one.kind.value
    if before.kind is not after.kind:
        return f"{before.kind.value} → {after.kind.value}"
    if before.mode != after.mode:
        return f"mode {before.mode:o} → {after.mode:o}"
    return "" if one.kind is PathKind.FILE else one.kind.value
