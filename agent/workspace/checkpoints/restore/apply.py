"""Carrying out a restore, and finishing an interrupted one.

Everything is decided and written down first. Then each path is changed separately, so an interrupted restore
can be finished by checking every path again. The restore becomes a step in the log, and can be undone like
any other.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.core.home import private_folder
from agent.errors import StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.databases import DatabaseFinder, FoundDatabase
from agent.workspace.checkpoints.entries import (
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    entry_of,
    entry_record,
    is_folder,
)
from agent.workspace.checkpoints.file_capture import attributes_of, capture_path
from agent.workspace.checkpoints.git_words import marked_line, step_paths
from agent.workspace.checkpoints.meanwhile import refusal
from agent.workspace.checkpoints.objects import TEMPORARY, ObjectStore, store_error, write_all
from agent.workspace.checkpoints.restore.files_in_use import spare_used
from agent.workspace.checkpoints.restore.git_group import (
    LEFT,
    POINTERS,
    RepositoryProvider,
    at_rest,
    collapsed,
    together,
    with_unit,
)
from agent.workspace.checkpoints.restore.hunk_restore import ChangedError, part_entry
from agent.workspace.checkpoints.restore.path_replacement import CHANGED, Move, Placer, redate, with_times
from agent.workspace.checkpoints.restore.plan import RestorePlan, without_agent_changes
from agent.workspace.checkpoints.restore.ref_plan import Choice, PartialRestore, PlanItem
from agent.workspace.checkpoints.restore.shared_plan import changed_elsewhere, with_inode
from agent.workspace.checkpoints.root_identity import identity, is_same, linked
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.unit_marks import disk, noise_sides, unit_marks
from agent.workspace.checkpoints.units import NO_UNITS, TOP, Units, above, kinds
from tools.kit.files import create_file, lock_file
from tools.text.safe_text import clean
from tools.text.words import plural

FORMAT = 1
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Pending:
    """A restore that was decided but is not finished."""

    id: str
    """The id of its step and of its temporary files."""
    line: str
    """The root session, to whose log the step belongs."""
    session: str
    """The session that acts."""
    label: str
    created: float
    root: str
    moves: tuple[Move, ...]
    units: Units = NO_UNITS
    """The units that contain paths to restore."""
    place: str = ""
    """The identity of `root`, see `root_identity`."""

    @property
    def call(self) -> str:
        """Return the call id of this restore's step, by which a second record of it is prevented."""
        return f"restore-{self.id}"

    @property
    def beside(self) -> str:
        """Return the prefix of the names of the restore's temporary files."""
        return f".hermes-{self.id}"


def new_restore(
    line: str,
    session: str,
    label: str,
    root: str,
    moves: Sequence[Move],
    now: float | None = None,
    *,
    units: Units = NO_UNITS,
) -> Pending:
    """Return a new restore that makes these moves; `now` is its time in seconds since the epoch."""
    created = time.time() if now is None else now
    place = identity(Path(root))
    return Pending(secrets.token_hex(6), line, session, label, created, root, tuple(moves), units, place)


@contextmanager
def record_restore(folder: Path, pending: Pending) -> Iterator[None]:
    """Keep a restore on disk while it is carried out in this block, and delete it only after success.

    Raises `StoreError` if it cannot be written; nothing was started then.
    """
    path = folder / f"{pending.id}{_SUFFIX}"
    try:
        private_folder(folder)
        beside = folder / f"{TEMPORARY}{pending.id}"
        descriptor = create_file(beside)
    except OSError as error:
        raise store_error(error, folder, "written") from error
    try:
        try:
            lock_file(descriptor)
            write_all(descriptor, json.dumps(_record(pending), separators=(",", ":")).encode())
            os.fsync(descriptor)
            beside.replace(path)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise store_error(error, folder, "written") from error
        yield
        with suppress(FileNotFoundError):
            path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def lock_interrupted(folder: Path) -> Iterator[list[tuple[Pending, Path]]]:
    """Yield the interrupted restores with their files, locked against other processes.

    Invalid files, and restores that are still running, are skipped.
    """
    found: list[tuple[Pending, Path]] = []
    opened: list[int] = []
    try:
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []:
            with suppress(OSError, ValueError):
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                opened.append(descriptor)
                if lock_file(descriptor, seconds=0) and os.path.samestat(os.fstat(descriptor), path.lstat()):
                    found.append((_pending(path.read_bytes()), path))
        yield found
    finally:
        for descriptor in opened:
            os.close(descriptor)


def forget(path: Path) -> None:
    """Delete the file of a finished restore. Raises `StoreError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise store_error(error, path.parent, "cleared") from error


def _record(pending: Pending) -> dict[str, object]:
    return {
        "format": FORMAT,
        "id": pending.id,
        "line": pending.line,
        "session": pending.session,
        "label": pending.label,
        "created": pending.created,
        "root": pending.root,
        "units": dict(pending.units.places),
        "place": pending.place,
        "moves": [[move.path, entry_record(move.now), entry_record(move.wanted)] for move in pending.moves],
    }


def _pending(data: bytes) -> Pending:
    """Parse the file of a restore. Raises `ValueError`."""
    record = json.loads(data)
    try:
        if record["format"] != FORMAT:
            raise ValueError("a format of another Hermes")
        moves = tuple(
            Move(str(path), entry_of(now), entry_of(wanted)) for path, now, wanted in record["moves"]
        )
        units = Units({str(place): str(kind) for place, kind in record.get("units", {}).items()})
        texts = (str(record[name]) for name in ("id", "line", "session", "label"))
        root, place = str(record["root"]), str(record.get("place", ""))
        return Pending(
            *texts, created=float(record["created"]), root=root, moves=moves, units=units, place=place
        )
    except (AttributeError, KeyError, TypeError, StoreError) as error:
        raise ValueError("this is not a restore") from error


log = logging.getLogger(__name__)

_OWNER = 0o300
_UNLIMITED = 1 << 62


class _KeptError(Exception):
    """Raised if a path must be left unchanged; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RestoredUnit:
    """A unit (a repository or a database) in which files were to be restored."""

    path: str
    """The path of its folder in the workspace."""
    kind: str
    reason: str = ""
    """The reason why all of it stays unchanged; empty if it was restored."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: the step, and the paths left unchanged."""

    step: Step | None
    """The step; None if nothing changed."""
    skipped: tuple[LeftOut, ...]
    """The paths left unchanged, with the reasons."""
    unnamed: tuple[str, ...] = ()
    """Restored paths that were changed while a command ran that does not name them: perhaps by the user."""
    remarks: tuple[str, ...] = ()
    """Further notes for the user, each a clause."""
    units: tuple[RestoredUnit, ...] = ()
    """The repositories and databases that were to be restored."""

    def what(self, done: str) -> str:
        """Return a summary of the result, such as `3 paths restored, 1 path removed, git: main 3f2a1c →
        9be044`; empty if nothing changed.
        """
        if self.step is None:
            return ""
        paths = step_paths(self.step)
        gone = {change.path for change in self.step.changes if change.after is None}.intersection(paths)
        counts = [(len(paths) - len(gone), done), (len(gone), "removed")]
        told = [f"{plural(count, 'path')} {word}" for count, word in counts if count]
        return ", ".join(filter(None, [*told, self.step.git])) or f"0 paths {done}"

    def taken_along(self) -> str:
        """Return which restored changes the user may have made, as a clause; empty if there are none."""
        if not self.unnamed:
            return ""
        more = f" and {len(self.unnamed) - 3:,} more" if len(self.unnamed) > 3 else ""
        return f"changed while a command ran, perhaps by you: {', '.join(map(clean, self.unnamed[:3]))}{more}"

    def sentence(self, done: str = "restored") -> str:
        """Return a sentence for the user; `done` is the word for what happened to the paths."""
        text = self.what(done) or "No file was changed"
        if self.unnamed:
            text += f"; {self.taken_along()}"
        text += "".join(f"; {clean(each)}" for each in self.remarks)
        if not self.skipped:
            return f"{text}."
        named = "; ".join(f"{clean(item.path)} {item.reason}" for item in self.skipped[:3])
        more = f"; and {len(self.skipped) - 3:,} more" if len(self.skipped) > 3 else ""
        stands = "it is" if len(self.skipped) == 1 else "they are"
        return f"{text}; {len(self.skipped):,} left as {stands}: {named}{more}."


def apply_restore(
    plan: RestorePlan,
    choices: Mapping[str, Choice],
    store: CheckpointStore,
    line: str,
    *,
    session: str,
    label: str,
    expect: Callable[[str, PathEntry | None], None] | None = None,
) -> Restored:
    """Carry out `plan`. A conflict without an entry in `choices` is left unchanged, other paths are restored.

    `line` is the root session, `session` the acting one. `expect` is called with each path before it is
    changed. Blocking. Raises `StoreError` if nothing could be started.
    """
    root = Path(plan.root)
    if not is_same(plan.place, plan.root, root):
        raise StoreError(f"{clean(plan.root)} is another folder by now; nothing was changed.")
    with store.sharing():
        moves, skipped = together(plan.items, plan.units, *_decide_moves(plan, choices, store.objects))
        spare = spare_used(root, moves, skipped, plan.units.group)
        known = {**plan.stood, **state_listings.targets(store.line(line).steps(plan.position), plan.position)}
        known |= {item.path: item.target for item in plan.items}
        moves, skipped = with_times(root, spare.moves, known, store.objects), spare.skipped
        remarks = (*spare.remarks, *changed_elsewhere(root, plan, moves))
        moves = [*moves, *_narrow_folders(root, moves)]
        pending = new_restore(line, session, label, plan.root, moves, units=plan.units)
        if not moves:
            units = _units(plan, skipped, spare.databases)
            return Restored(None, skipped, remarks=remarks, units=units)
        with record_restore(store.pending, pending):
            _make_again(root)
            failed = _carry_out(pending, store, expect)
            if failed:
                stays = {item.path for item in failed}
                done = [move for move in pending.moves if move.path not in stays]
                redate(root, done, with_times(root, done, known, store.objects))
            step = _append_step(store, pending, failed)
        stays = (*skipped, *collapsed(failed, plan.units))
        units = _units(plan, stays, spare.databases)
        remarks = (*remarks, *_without_attributes(root, step))
        return Restored(step, stays, _unnamed(plan, step), remarks, units)


def _without_attributes(root: Path, step: Step | None) -> tuple[str, ...]:
    """Return a clause about files that lost an access list, capabilities or attributes, in a tuple; else
    empty.
    """
    missing: dict[str, set[str]] = {}
    for change in step.changes if step is not None else ():
        if change.after is not None and change.after.attributes:
            now = attributes_of(root / change.path).split()
            missing[change.path] = set(change.after.attributes.split()).difference(now)
    paths = [path for path, names in missing.items() if names]
    if not paths:
        return ()
    more = f" (and of {len(paths) - 1:,} more)" if len(paths) > 1 else ""
    return (f"{', '.join(sorted(missing[paths[0]]))} of {paths[0]}{more} did not come back",)


def _units(
    plan: RestorePlan, skipped: Iterable[LeftOut], databases: Mapping[str, str]
) -> tuple[RestoredUnit, ...]:
    reasons = {item.path: item.reason for item in skipped}
    names = {
        folder: kinds()[plan.units.kind(folder)].told
        for item in plan.items
        if (folder := plan.units.group(item.path))
    }
    names = {**databases, **names}
    return tuple(RestoredUnit(each, names[each], reasons.get(each, "")) for each in sorted(names))


def _unnamed(plan: RestorePlan, step: Step | None) -> tuple[str, ...]:
    """Return restored paths that the user may have changed; files that existed before come first."""
    done = {change.path for change in step.changes} if step is not None else set()
    items = (each for each in plan.items if each.unnamed and each.path in done)
    return tuple(each.path for each in sorted(items, key=lambda each: (each.target is None, each.path)))


def finish_abandoned(store: CheckpointStore) -> tuple[str, ...]:
    """Finish every interrupted restore; return a sentence for the user about each. Blocking.

    A restore in a missing workspace is finished when that exists again, and one that fails because the disk
    is full when there is room. Others do not wait for them.
    """
    told: list[str] = []
    with lock_interrupted(store.pending) as found:
        for pending, path in found:
            root = Path(pending.root)
            if not root.is_dir() or not is_same(pending.place, pending.root, root):
                continue
            try:
                told.append(_finish(pending, path, store))
            except StoreError as error:
                told.append(f"A restore that was cut off is not finished ({clean(pending.label)}): {error}")
    return tuple(filter(None, told))


def _finish(pending: Pending, path: Path, store: CheckpointStore) -> str:
    """Finish one restore and delete its file; return a sentence for the user, or an empty text.

    Raises `StoreError`.
    """
    with store.sharing():
        if any(step.call == pending.call for step in store.line(pending.line).steps()):
            forget(path)
            return ""
        if strange := _strange(pending, store.objects):
            forget(path)
            return f"A restore that was cut off is not finished: {strange}."
        left = _tidy_up(pending, store.objects)
        failed = _carry_out(pending, store, None, again=True)
        stays = collapsed(failed, pending.units)
        restored = Restored(_append_step(store, pending, failed), (*left, *stays))
        forget(path)
    return f"A restore that was cut off is finished ({clean(pending.label)}): {restored.sentence()}"


def _strange(pending: Pending, objects: ObjectStore) -> str:
    """Return a path that a restore by Hermes never changes, and why, as a clause; empty if there is none."""
    told = ((move.path, refusal(move.path, move.wanted, objects)) for move in pending.moves)
    return next((f"{clean(path)} {reason}" for path, reason in told if reason), "")


def _decide_moves(
    plan: RestorePlan, choices: Mapping[str, Choice], objects: ObjectStore
) -> tuple[list[Move], list[LeftOut]]:
    moves: list[Move] = []
    skipped: list[LeftOut] = []
    for item in plan.items:
        # A unit is selected by its folder, as shown to the user.
        chosen = choices.get(item.path) or choices.get(plan.units.group(item.path))
        choice = chosen or ("mine" if item.state == "conflict" else "checkpoint")
        if item.state == "lost" or choice == "mine":
            skipped.append(LeftOut(item.path, item.reason or LEFT))
            continue
        try:
            wanted = _wanted_entry(item, choice, objects)
        except (ChangedError, _KeptError) as reason:
            skipped.append(LeftOut(item.path, str(reason)))
            continue
        wanted = with_inode(item, wanted)
        if not alike(item.now, wanted):
            moves.append(Move(item.path, item.now, wanted))
    return moves, skipped


def _wanted_entry(item: PlanItem, choice: Choice, objects: ObjectStore) -> PathEntry | None:
    """Return the target state of a path. Raises `_KeptError` or `ChangedError` if it must not be changed."""
    if isinstance(choice, PartialRestore):
        return part_entry(item, choice, objects)
    if choice != "merge":
        return item.target
    result = without_agent_changes(item, objects)
    if result is None or item.now is None:
        raise _KeptError("is not text that could be merged")
    return PathEntry(PathKind.FILE, item.now.mode, len(result.data), 0, objects.add(result.data))


def _narrow_folders(root: Path, moves: Sequence[Move]) -> Iterable[Move]:
    """Yield read-only folders in which something must change, as moves that restore their mode afterwards."""
    known = {move.path for move in moves}
    for parent in sorted({move.parent or TOP for move in moves} - known):
        entry = capture_path(root, parent, None, limit=0)
        if entry is not None and entry.kind is PathKind.FOLDER and entry.mode & _OWNER != _OWNER:
            yield Move(parent, entry, entry)


def _make_again(root: Path) -> None:
    """Create a removed workspace folder again. If its parent is missing, that is reported later."""
    with suppress(OSError):
        root.mkdir()


def _carry_out(
    pending: Pending,
    store: CheckpointStore,
    expect: Callable[[str, PathEntry | None], None] | None,
    *,
    again: bool = False,
) -> list[LeftOut]:
    """Carry out all moves; return the paths left unchanged, with the reasons.

    If a part of a unit or of a database cannot be restored, its other parts are put back.
    """
    with at_rest(Path(pending.root), pending.moves, pending.units, pending.beside) as busy:
        failed = _move(pending, store, expect, busy, again=again)
        if torn := _torn(pending, failed):
            back = tuple(Move(move.path, move.wanted, move.now) for move, _ in torn)
            stuck = _move(replace(pending, moves=back), store, expect, {})
            failed |= {move.path: reason for move, reason in torn if move.path not in stuck}
    return [LeftOut(path, reason) for path, reason in sorted(failed.items())]


def _torn(pending: Pending, failed: Mapping[str, str]) -> list[tuple[Move, str]]:
    """Return the completed moves in units and databases in which other moves failed, with the reasons."""
    if not failed:
        return []
    finder = DatabaseFinder(Path(pending.root), (move.path for move in pending.moves))

    def whole(path: str) -> str | FoundDatabase | None:
        return pending.units.group(path) or finder.of(path)

    reasons = {whole(path): reason for path, reason in failed.items()}
    reasons.pop(None, None)
    made = ((move, whole(move.path)) for move in pending.moves if move.path not in failed)
    return [(move, reasons[its]) for move, its in made if its in reasons]


def _move(
    pending: Pending,
    store: CheckpointStore,
    expect: Callable[[str, PathEntry | None], None] | None,
    busy: Mapping[str, str],
    *,
    again: bool = False,
) -> dict[str, str]:
    """Carry out all moves except those in `busy` units; return the paths left unchanged, with the reasons."""
    units = pending.units
    provider = RepositoryProvider(Path(pending.root), store, units)
    free = [move for move in pending.moves if units.group(move.path) not in busy]
    staying = {**busy, **{item.path: item.reason for item in provider.provide(free)}}
    run = _Run(pending, store.objects, expect, again, staying)
    provider.clear(move for move in free if move.path not in staying and move.path not in run.failed)
    run.carry_out(provider.complete)
    return run.failed


class _Run:
    """One pass over the moves of a restore."""

    def __init__(
        self,
        pending: Pending,
        objects: ObjectStore,
        expect: Callable[[str, PathEntry | None], None] | None,
        again: bool,
        staying: Mapping[str, str],
    ) -> None:
        self._root = Path(pending.root)
        self._units = pending.units
        stays = with_unit(pending.moves, self._units, staying)
        reason = next(iter(staying.values()), "")
        self.failed = {path: staying.get(self._units.group(path) or path, reason) for path in stays}
        self._moves = [
            (number, self._current(move, again))
            for number, move in enumerate(pending.moves)
            if move.path not in self.failed
        ]
        self._placer = Placer(self._root, objects, pending.beside, _UNLIMITED)
        self._expect = expect

    def carry_out(self, complete: Callable[[], None]) -> None:
        """Remove paths, deepest first; then create folders, then files; set modes of folders last.

        In a unit, files named by other files are written before those, so the unit is always complete.
        `complete` is called when all files exist.
        """
        for _, move in sorted(self._moves, key=_depth):
            if is_folder(move.now):
                self._placer.relax(move)
        moving = [(number, move) for number, move in self._moves if not alike(move.now, move.wanted)]
        needed = {
            folder
            for _, move in moving
            if move.wanted is not None
            for folder in (*above(move.path), move.path)
        }
        going = [each for each in sorted(moving, key=_depth, reverse=True) if _must_go(each[1])]
        # The content of a folder that a file replaces must be removed first.
        turning = {move.path for _, move in going if move.wanted is not None}
        of_units = {
            move.path
            for _, move in going
            if self._units.part(move.path) and turning.isdisjoint(above(move.path))
        } - needed
        waiting = of_units | {folder for path in of_units for folder in above(path)}
        late = [each for each in going if each[1].path in waiting]
        self._clear(each for each in going if each[1].path not in waiting)
        for number, move in sorted(moving, key=lambda each: (_names_others(each[1]), _depth(each))):
            if move.path not in self.failed and move.wanted is not None:
                self._make(number, move)
        self._clear(late)
        for number, move in moving:
            if move.wanted is not None and move.wanted.twin and move.path not in self.failed:
                self._do(move, lambda move=move, number=number: self._placer.join(move, number))
        for _, move in sorted(self._moves, key=_depth, reverse=True):
            if is_folder(move.wanted) and move.path not in self.failed:
                self._do(move, lambda move=move: self._placer.set_mode(move))
            elif is_folder(move.now) and move.path in self.failed:
                self._placer.set_mode(Move(move.path, move.now, move.now))
        complete()

    def _clear(self, going: Iterable[tuple[int, Move]]) -> None:
        for number, move in going:
            self._do(move, lambda move=move, number=number: self._placer.clear_away(move, number))

    def _make(self, number: int, move: Move) -> None:
        if is_folder(move.wanted):
            if not is_folder(move.now):
                self._do(move, lambda: self._placer.make_folder(move))
            return
        # A folder at this path has already been removed.
        free = Move(move.path, None, move.wanted) if is_folder(move.now) else move
        self._do(move, lambda: self._placer.place(free, number))

    def _do(self, move: Move, act: Callable[[], str]) -> None:
        if self._expect is not None:
            self._expect(move.path, move.wanted)
        reason = act()
        if reason:
            self.failed[move.path] = reason

    def _current(self, move: Move, again: bool) -> Move:
        """Return what is still to be done for a move; with `again` an earlier attempt may have done a part of
        it.
        """
        if not again:
            return move
        found = capture_path(self._root, move.path, None, limit=_UNLIMITED)
        if alike(found, move.wanted):
            return Move(move.path, move.wanted, move.wanted)
        if is_folder(found) and is_folder(move.wanted):
            return Move(move.path, found, move.wanted)
        if found is None:
            # Removed by the first attempt or by others, so that the wanted state can be restored.
            return Move(move.path, None, move.wanted)
        return move


def _append_step(store: CheckpointStore, pending: Pending, failed: Sequence[LeftOut]) -> Step | None:
    left = {item.path for item in failed}
    changes = tuple(
        PathChange(move.path, move.now, move.wanted)
        for move in pending.moves
        if move.path not in left and not alike(move.now, move.wanted)
    )
    if not changes:
        return None
    root = Path(pending.root)
    before, _ = noise_sides(changes, root, store.objects)
    marks = unit_marks(changes, pending.units, before, disk(root), root)
    return store.line(pending.line).append(
        kind="restore",
        session=pending.session,
        call=pending.call,
        label=pending.label,
        root=pending.root,
        changes=changes,
        created=pending.created,
        git=marked_line(changes, store.objects.read, marks),
        units=marks,
        place=_place(pending, store),
    )


def _place(pending: Pending, store: CheckpointStore) -> str:
    """Return the identity of the restored folder, joined with that of the last step made there."""
    steps = [step for step in store.line(pending.line).steps() if step.root == pending.root]
    here = identity(Path(pending.root))
    return linked(steps[-1].place, here) if steps else here


def _tidy_up(pending: Pending, objects: ObjectStore) -> list[LeftOut]:
    """Handle the temporary files of an interrupted restore; return the paths left unchanged, with the
    reasons.
    """
    placer = Placer(Path(pending.root), objects, pending.beside, _UNLIMITED)
    told = ((move.path, placer.tidy(move, number)) for number, move in enumerate(pending.moves))
    return [LeftOut(path, reason) for path, reason in told if reason and reason != CHANGED]


def _must_go(move: Move) -> bool:
    """Return whether the object at the path must be removed before a new one can be put there."""
    if move.now is None:
        return False
    return move.wanted is None or is_folder(move.now) != is_folder(move.wanted)


def _names_others(move: Move) -> bool:
    """Return whether a file lists other files and therefore must be written after them."""
    return move.path.rpartition("/")[2] in POINTERS


def _depth(item: tuple[int, Move]) -> tuple[int, str]:
    path = item[1].path
    return -1 if path == TOP else path.count("/"), path
