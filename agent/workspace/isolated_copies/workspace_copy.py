"""Isolated copies of a workspace, and the merging of changes from them.

A copy is used like the workspace and is independent of it. Its changes can be merged in whole or in part.
Merging is a restore whose target states are those of the copy. So the user's changes in the meantime are
conflicts, and the merge is a step that can be undone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import StoreError
from agent.workspace.checkpoints.entries import (
    NAMED,
    TICK,
    Coverage,
    KnownPath,
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Stamp,
    is_settled,
    stamp_of,
)
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.meanwhile import keep_detached
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import CHANGED_SINCE, Choice, PartialRestore, PlanItem
from agent.workspace.checkpoints.scan import scan
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.git import top_folder
from agent.workspace.isolated_copies import copy_folders, git_in_copies
from agent.workspace.isolated_copies.copy_folders import CopyRecord, Holder
from agent.workspace.isolated_copies.copy_folders import read as read_held
from agent.workspace.isolated_copies.copy_folders import write as write_held
from agent.workspace.isolated_copies.tree_copier import LEADS_BACK, TreeCopied, TreeCopier

if TYPE_CHECKING:
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.restore.apply import Restored

MOST = 4_000_000_000
"""The size limit in bytes of a copy if the file system cannot share blocks."""

BASE_GONE = "changed since by somebody else, and how it was when the copy was made is not known"
_UNKNOWN = PathEntry(PathKind.FILE, 0, reason=BASE_GONE)


class WorkspaceCopy:
    """A copy of the workspace of `recorder`, owned by this process until `close` or `leave`."""

    def __init__(
        self,
        recorder: StepRecorder,
        place: copy_folders.CopyFolder,
        root: Path,
        copied: TreeCopied,
        known: Mapping[str, KnownPath],
        *,
        held: CopyRecord | None = None,
    ) -> None:
        """Set up the object. `held` is the record of a copy made by an earlier process."""
        self.root = root
        """The folder of the copy, which its users see as the workspace."""
        self.origin = recorder.root
        self.position = recorder.position if held is None else held.position
        """The last step of the workspace when the copy was made."""
        self.coverage = _coverage(copied)
        """The parts of the workspace that the copy lacks."""
        self._recorder = recorder
        self._place = place
        self._copied = copied
        self._hidden = {item.path for item in copied.left_out}
        self._known = known
        self._bases: dict[str, PathEntry | None] = {} if held is None else dict(held.bases)
        """The first states of paths, where they are known better than from the workspace."""
        self._holder = None if held is None else held.holder
        self._reopened = held is not None
        """True if the workspace may have changed in between without a step."""

    @property
    def id(self) -> str:
        return self._place.id

    async def changes(self) -> tuple[PathChange, ...]:
        """Return the changes in the copy since it was made or last merged, and store their contents.

        Changes are sorted by path; git folders and files left out of the copy are excluded. Raises
        `StoreError`.
        """
        whole = await self._recorder.catch_up()
        return await asyncio.to_thread(self._changes, whole)

    async def plan_merge(self, paths: Collection[str] | None = None) -> RestorePlan:
        """Return the effect of merging on the workspace. Raises `StoreError`.

        `paths` are files, or folders with their content; needed parent folders are included. The target of an
        item is its state in the copy. A path also changed in the workspace is a conflict, which can be merged
        line by line.
        """
        changes = await self.changes()
        return await asyncio.to_thread(self._plan, changes, paths)

    async def merge(
        self, plan: RestorePlan, choices: Mapping[str, Choice] | None = None, *, session: str, label: str
    ) -> Restored:
        """Carry out a plan of `plan_merge` as a step of the workspace. Raises `StoreError`.

        Conflicts without a decision in `choices` are left as they are in the workspace.
        """
        restored = await self._recorder.restore(plan, choices or {}, session=session, label=label)
        if restored.step is not None:
            done = {change.path for change in restored.step.changes}
            # If only some hunks of a file were merged, the others remain to be decided.
            whole = done - {
                path for path, choice in (choices or {}).items() if isinstance(choice, PartialRestore)
            }
            self._bases |= {item.path: item.target for item in plan.items if item.path in whole}
            if self._holder is not None:
                await self.hold(self._holder)
        return restored

    async def hold(self, holder: Holder) -> None:
        """Keep the copy for `holder` after this process ends, until `close`. Raises `StoreError`."""
        self._holder = holder
        stamps = {path: (known.stamp, known.settled) for path, known in self._known.items()}
        held = CopyRecord(
            holder=holder,
            name=self.root.name,
            origin=self.origin,
            position=self.position,
            copied=self._copied,
            stamps=stamps,
            bases=dict(self._bases),
        )
        await asyncio.to_thread(write_held, self._place.folder, held)

    def leave(self) -> None:
        """Release a held copy. It stays on disk and can be taken over."""
        self._place.leave()

    async def keep(self, *, session: str, label: str) -> int:
        """Record the state of the copy in the step log of the workspace, without changing the workspace.

        Returns a position at which all files are as in the copy, so that they can be restored later. One step
        leads to that state, and another one back. Contents that cannot be stored are left out. Raises
        `StoreError`.
        """
        changes = [each for each in await self.changes() if each.after is None or each.after.is_restorable]
        recorder = self._recorder

        def keep_changes() -> int:
            return keep_detached(recorder.store, recorder.line, changes, str(self.origin), session, label)

        position = await recorder.run(keep_changes)
        await recorder.adopt(())
        return position

    async def close(self) -> None:
        """Remove the copy with its content. May be called again. Raises `StoreError`."""
        await asyncio.to_thread(self._place.remove)

    # Within

    def _changes(self, whole: bool) -> tuple[PathChange, ...]:
        store, limit = self._recorder.store, self._recorder.limits.file
        with store.sharing():
            found = scan(self.root, self._known, versions=False)
            paths = [path for path in (*found.changed, *found.gone) if not _lies_in(path, self._hidden)]
            later = self._later()
            changes: list[PathChange] = []
            for path in sorted(paths):
                after = capture_path(self.root, path, store.objects, limit=limit)
                status = found.changed.get(path)
                if after is not None and status is not None and (twin := found.twin(path, status)):
                    after = replace(after, twin=twin)
                before = self._before(path, later, whole)
                if not alike(before, after):
                    changes.append(PathChange(path, before, after))
        return tuple(changes)

    def _later(self) -> dict[str, PathEntry | None]:
        """Return the states of paths before their first change in the workspace after the copy was made."""
        found: dict[str, PathEntry | None] = {}
        for step in self._recorder.store.line(self._recorder.line).steps(self.position):
            for change in step.changes:
                found.setdefault(change.path, change.before)
        return found

    def _before(self, path: str, later: Mapping[str, PathEntry | None], whole: bool) -> PathEntry | None:
        """Return the state of a path when the copy was made, with its contents if they are available."""
        if path in self._bases:
            return self._bases[path]
        if path in self._copied.others:
            return self._copied.others[path]
        stamp = self._copied.files.get(path)
        if stamp is None:
            return None
        if path in later:
            earlier = later[path]
            return earlier if not self._reopened or _is_at(earlier, stamp) else _UNKNOWN
        store, limit = self._recorder.store, self._recorder.limits.file
        now = capture_path(self.origin, path, store.objects, limit=limit)
        try:
            trusted = whole and not self._reopened
            untouched = trusted or stamp_of((self.origin / path).lstat()) == stamp
        except OSError:
            untouched = False
        if not untouched:
            return _UNKNOWN
        self._bases[path] = now
        return now

    def _plan(self, changes: tuple[PathChange, ...], paths: Collection[str] | None) -> RestorePlan:
        objects, limit = self._recorder.store.objects, self._recorder.limits.file
        wanted = None if paths is None else _with_folders(changes, paths)
        items: list[PlanItem] = []
        with self._recorder.store.sharing():
            for change in changes:
                if wanted is not None and change.path not in wanted:
                    continue
                now = capture_path(self.origin, change.path, objects, limit=limit)
                if not alike(now, change.after):
                    items.append(_judge_change(change, now))
        return RestorePlan(str(self.origin), self.position, tuple(items))


async def make_copy(recorder: StepRecorder, copies: Path, *, most: int = MOST) -> WorkspaceCopy:
    """Copy the workspace of `recorder` into a new folder below `copies`.

    Files share disk blocks if the file system supports that. Otherwise a copy has at most `most` bytes, so
    folders that git ignores may be left out (see `coverage`). Raises `HermesError` if there is not enough
    space or the copy cannot be written; the copy is then removed.
    """
    await recorder.catch_up()
    seen = recorder.position
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_make, recorder, copies, most, stop))
    try:
        place, root, copied, known = await asyncio.shield(work)
        await recorder.catch_up()
        copy = WorkspaceCopy(recorder, place, root, copied, known)
        await asyncio.to_thread(_note_moved, copy, recorder, seen, copied)
    except BaseException:
        stop.set()
        (done,) = await asyncio.gather(work, return_exceptions=True)
        if not isinstance(done, BaseException):
            await asyncio.to_thread(done[0].remove)
        raise
    return copy


async def reopen(recorder: StepRecorder, copies: Path, id: str) -> WorkspaceCopy:
    """Take over a copy of `recorder`'s workspace that an earlier process held. Raises `StoreError`.

    When merging, changes of unknown origin are conflicts.
    """

    def take_folder() -> tuple[copy_folders.CopyFolder, CopyRecord]:
        place = copy_folders.reopen(copies, id)
        try:
            held = read_held(place.folder)
            if held.origin != recorder.root:
                raise StoreError(f"{place.folder} is a copy of {held.origin}, not of {recorder.root}.")
            if not (place.folder / held.name).is_dir():
                raise StoreError(f"The copy {place.folder} is no longer there.")
            return place, held
        except BaseException:
            place.leave()
            raise

    place, held = await asyncio.to_thread(take_folder)
    known = {path: KnownPath(stamp, settled, _UNKNOWN) for path, (stamp, settled) in held.stamps.items()}
    return WorkspaceCopy(recorder, place, place.folder / held.name, held.copied, known, held=held)


def _make(
    recorder: StepRecorder, copies: Path, most: int, stop: threading.Event
) -> tuple[copy_folders.CopyFolder, Path, TreeCopied, dict[str, KnownPath]]:
    source = recorder.root
    place = copy_folders.claim(copies)
    try:
        root = place.folder / (source.name or "workspace")
        root.mkdir(0o700)
        clones = copy_folders.clones(source, place.folder)
        left = () if clones else copy_folders.too_much(source, place.folder, most)
        skip = {item.path for item in left}
        copier = TreeCopier(source, root, clones=clones, stop=stop, skip=skip, ours=_ours(copies, source))
        copied = copier.run()
        bare = [place for place, kind in recorder.units.places.items() if kind == "git"]
        git_in_copies.redirect(source, root, copied.repositories, bare)
        copied.left_out += left
        if (top := top_folder(source)) is not None and top != source:
            copied.left_out.append(LeftOut(".git", "is that of a folder above the workspace"))
        # After this delay every change gives a file another stamp.
        time.sleep(TICK / 1_000_000_000)
        found = scan(root, {}, versions=False)
        now = time.time_ns()
        known = {
            path: KnownPath(stamp_of(status), is_settled(status, now), _UNKNOWN)
            for path, status in found.changed.items()
        }
        return place, root, copied, known
    except OSError as error:
        place.remove()
        raise StoreError(f"No copy of {source} can be made: {error.strerror or error}.") from error
    except BaseException:
        place.remove()
        raise


def _note_moved(copy: WorkspaceCopy, recorder: StepRecorder, seen: int, copied: TreeCopied) -> None:
    """Record the copied states of files that changed while the copy was made."""
    steps = recorder.store.line(recorder.line).steps(seen)
    moved = {change.path for step in steps if step.number <= copy.position for change in step.changes}
    with recorder.store.sharing():
        for path in sorted(moved | copied.restless):
            if path in copied.files:
                entry = capture_path(copy.root, path, recorder.store.objects, limit=recorder.limits.file)
                copy._bases[path] = entry


def _is_at(entry: PathEntry | None, stamp: Stamp) -> bool:
    """Return whether a stored file is the copied one, judged by size and time."""
    size, modified = stamp[2], stamp[3]
    return (
        entry is not None and entry.kind is PathKind.FILE and (entry.size, entry.modified) == (size, modified)
    )


def _judge_change(change: PathChange, now: PathEntry | None) -> PlanItem:
    """Return the plan item for merging a change into a path that has the state `now`."""
    path, base, target = change.path, change.before, change.after
    # Undoing this reversed change leads from the original state to the state in the copy.
    ours = (PathChange(path, target, base),)
    if now is not None and not now.is_restorable:
        reason = f"what stands there now cannot be kept: it {now.reason or 'is special'}"
        return PlanItem(path, now, target, "lost", reason)
    if target is not None and not target.is_restorable:
        return PlanItem(path, now, target, "lost", f"its contents cannot be kept: it {target.reason}")
    if base is not None and base.reason == BASE_GONE:
        return PlanItem(path, now, target, "conflict", BASE_GONE, ours)
    if not alike(now, base):
        return PlanItem(path, now, target, "conflict", CHANGED_SINCE, ours)
    return PlanItem(path, now, target, "change", "", ours)


def _with_folders(changes: tuple[PathChange, ...], paths: Collection[str]) -> set[str]:
    """Return the changed paths that `paths` include, with their new parent folders."""
    named = set(paths)
    wanted = {change.path for change in changes if "" in named or _lies_in(change.path, named)}
    above = {folder for path in wanted for folder in _above(path)}
    made = {change.path for change in changes if change.after is not None and change.path in above}
    return wanted | made


def _lies_in(path: str, folders: Collection[str]) -> bool:
    return path in folders or any(above in folders for above in _above(path))


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _coverage(copied: TreeCopied) -> Coverage:
    left = sorted(
        [*copied.left_out, *(LeftOut(path, LEADS_BACK) for path in copied.leading_back)],
        key=lambda item: item.path,
    )
    return Coverage(tuple(left[:NAMED]), max(0, len(left) - NAMED))


def _ours(copies: Path, source: Path) -> Path | None:
    """Return Hermes's home folder if it is in the workspace, else None."""
    folder = copies.resolve().parent
    return folder if source in folder.parents else None
