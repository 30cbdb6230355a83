"""Restoring some hunks of a file and leaving the others unchanged."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from itertools import count

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore.hunks import MAX_BYTES, Hunks, divide, undivided_reason
from agent.workspace.checkpoints.restore.plan import without_agent_changes
from agent.workspace.checkpoints.restore.ref_plan import PartialRestore, PlanItem
from tools.text.safe_text import clean

CHANGED = "changed after its hunks were chosen"
_HEAD = re.compile(rb"^@@ -[0-9,]+ \+[0-9,]+ @@$", re.MULTILINE)


class WholeError(StoreError):
    """Raised if a file can only be restored as a whole; the message is the reason."""


class ChangedError(Exception):
    """Raised if the hunks of a file differ from the chosen ones; the message is the reason."""


@dataclass(frozen=True, slots=True)
class DividedPath:
    """A path in a plan, with the difference to its target divided into hunks."""

    item: PlanItem
    hunks: Hunks
    now: str
    """The SHA-256 of the current content, in hex."""
    then: str
    """The SHA-256 of the fully restored content, in hex."""
    merging: bool = False

    def part(self, numbers: Collection[int]) -> PartialRestore:
        """Return the choice to restore only these hunks. Raises `StoreError` for an unknown number."""
        try:
            self.hunks.check(numbers)
        except ValueError as error:
            raise StoreError(f"{self.item.path}: {error}.") from error
        return PartialRestore(self.now, self.then, frozenset(numbers), self.merging)


def divide_path(item: PlanItem, objects: ObjectStore, *, merging: bool = False) -> DividedPath:
    """Divide the difference between the current state and the target into hunks; with `merging`, the target
    is the merge result.

    Blocking. Raises `WholeError`.
    """
    now, then = item.now, item.target
    if item.state == "lost":
        raise WholeError(f"This stays as it is: {clean(item.reason)}.")
    if now is None:
        raise _whole("it is not there now")
    if then is None:
        raise _whole("it was not there then")
    if now.kind is not PathKind.FILE or then.kind is not PathKind.FILE:
        raise _whole("it is not a plain file")
    if now.digest is None or then.digest is None:
        raise _whole("its contents are not kept")
    if max(now.size, then.size) > MAX_BYTES:
        raise _whole(f"it is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        text, wanted = objects.read(now.digest), objects.read(then.digest)
    except StoreError as error:
        raise _whole("its contents are no longer in the checkpoints") from error
    digest = then.digest
    if merging:
        both = without_agent_changes(item, objects)
        if both is None:
            raise _whole("it is not text that could be merged")
        wanted = both.data
        digest = sha256(wanted).hexdigest()
    if reason := undivided_reason(text, wanted):
        raise _whole(f"it is {reason}")
    hunks = divide(text, wanted)
    if not hunks:
        raise _whole("its text is the same")
    return DividedPath(item, hunks, now.digest, digest, merging)


def part_entry(item: PlanItem, part: PartialRestore, objects: ObjectStore) -> PathEntry:
    """Return the state that a path has after restoring these hunks, and store its contents.

    The target's permissions are restored only if all hunks are restored without merging. Blocking. Raises
    `ChangedError`, and `StoreError` if storing fails.
    """
    now, then = item.now, item.target
    try:
        found = divide_path(item, objects, merging=part.merging)
        again = found.part(part.hunks)
    except StoreError:
        raise ChangedError(CHANGED) from None
    if again != part or now is None or then is None:
        raise ChangedError(CHANGED)
    if len(part.hunks) == len(found.hunks) and not part.merging:
        return then
    data = found.hunks.content_with(part.hunks)
    return PathEntry(PathKind.FILE, now.mode, len(data), 0, objects.add(data))


def numbered(item: PlanItem, patch: bytes, objects: ObjectStore) -> bytes:
    """Return the patch of a path, with its hunks numbered if they can be restored singly. Blocking."""
    try:
        divide_path(item, objects)
    except WholeError:
        return patch
    number = count(1)
    return _HEAD.sub(lambda head: head[0] + b" hunk %d" % next(number), patch)


def _whole(reason: str) -> WholeError:
    return WholeError(f"This file is taken or left as a whole: {reason}.")
