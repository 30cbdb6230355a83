"""Recording of every call's file changes, as steps in the session's log.

Tools that write files announce the paths (`acting`), so only those are checked. Programs may write anywhere,
so the whole workspace is checked before and after them. Changes outside of any call become separate steps:
nothing is lost, and they are never attributed to the agent. Disk work happens in one thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints.coverage import GitCoverage, git_coverage
from agent.workspace.checkpoints.entries import (
    Coverage,
    LeftOut,
    PathChange,
    PathEntry,
    PathKind,
    Step,
    StepKind,
    is_outside,
    undo_refusal,
)
from agent.workspace.checkpoints.file_register import Baseline, CaptureLimits, FileRegister, FoundChanges
from agent.workspace.checkpoints.git_blobs import GitObjects
from agent.workspace.checkpoints.git_words import marked_line
from agent.workspace.checkpoints.meanwhile import net, path_count, possible_user_changes, steps_since
from agent.workspace.checkpoints.root_identity import FollowedRoot
from agent.workspace.checkpoints.store import CheckpointStore, own_folder
from agent.workspace.checkpoints.units import Units
from agent.workspace.project_tree import in_order
from tools.kit.threads import Stopped
from tools.services.actions import Action, DeletePath, RunCommand, RunScript, SendInput, WritePath
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice

log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE = 5.0
"""Seconds for which a command waits until the workspace was read, and its contents are available."""
FORMER = 40
"""The number of latest file states that are searched for earlier contents."""
LABEL = 200
"""The length limit on a step's label, in characters."""
SLICE, PAUSE = 0.1, 0.002
"""Seconds of reading contents at a time, and of the pause between two such times."""
SAVE_SECONDS = 120.0
"""Seconds between writes of the known state; cleanup may remove unnamed contents after five minutes."""

_PROGRAMS = (RunCommand, RunScript, SendInput)
UNREAD = Coverage((LeftOut(".", "the workspace was still being read"),))


@dataclass(slots=True)
class CallRecording:
    """The recording of one call while it runs."""

    call: str
    session: str
    label: str
    wide: bool = False
    """True if a program ran, so that anything may have changed."""
    blind: bool = False
    """True if it ran before the workspace was read."""
    links_out: bool = False
    """True if its programs could link a workspace file to a path outside, and change it through that."""
    noted: dict[str, PathEntry | None] = field(default_factory=dict)
    """The earlier states of paths that a tool announced."""
    commands: list[RunCommand] = field(default_factory=list)
    step: Step | None = None
    """The step of the call, once it has ended; None if nothing changed."""


class StepRecorder:
    """A recorder of the steps of the session `line` in the workspace `root` (resolved).

    `trouble` is called once with the reason if steps cannot be recorded. `further` are folders (resolved)
    outside of the workspace that tools write to. In those only paths that a tool announced are recorded.
    """

    def __init__(
        self,
        store: CheckpointStore,
        line: str,
        root: Path,
        limits: CaptureLimits,
        trouble: Callable[[str], None],
        *,
        further: Sequence[Path] = (),
    ) -> None:
        self.store = store
        self.root = root
        self._further = further
        self.limits = limits
        self.own_work: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
        """A function that returns a context for restoring files, in which watchers report no changes."""
        self.links_stay = False
        """True if programs in the sandbox cannot link a workspace file to a path outside of the workspace."""
        self.telling: asyncio.Task[None] | None = None
        """The task that reports what changed while the session was closed."""
        self._line = store.line(line)
        self._trouble = trouble
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermes-checkpoints")
        self._loop = asyncio.get_running_loop()
        self._git = GitObjects(root, self._loop, store.borrowed_folder)
        baseline = Baseline(store.baselines, root)
        ours = own_folder(store.folder, root)
        self._register = FileRegister(root, store.objects, limits, self._git, baseline, self._stop, ours)
        self._surveyed = asyncio.Event()
        self._at_hand = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._saver: asyncio.Task[None] | None = None
        self._open: list[CallRecording] = []
        self._last_wide: CallRecording | None = None
        """The last call that ran a program."""
        self._troubled = False
        self._position = self._line.last
        self._folder = FollowedRoot(root)
        self._missed: tuple[PathChange, ...] = ()
        self._keeps = True

    @property
    def position(self) -> int:
        """The number of the last step, which another process may have added."""
        with suppress(StoreError):
            return max(self._position, self._line.last)
        return self._position

    @property
    def line(self) -> str:
        """The id of the session whose step log is written."""
        return self._line.session

    def start(
        self, cut_off: str = "", label: str = "", *, since: float | None = None, keep: bool = True
    ) -> None:
        """Start to read the workspace, in the background.

        `cut_off` is a call that was interrupted by the end of an earlier process. Changes since the last
        known state are attributed to it. `since` is when the session was last active (seconds since the
        epoch); `missed_changes` returns later changes. Without `keep` nothing is written.
        """
        self._keeps = keep
        self._task = asyncio.create_task(self._survey(cut_off, label, since), name="checkpoints")
        self._saver = asyncio.create_task(self._save_now_and_then(), name="checkpoints-saver")

    async def stop(self) -> None:
        """Record what was not noticed yet, write the known state, and end the thread."""
        if self._stop.is_set():
            return
        if self._keeps and self._at_hand.is_set():
            await self.record_unseen()
        self._stop.set()
        if self._saver is not None:
            self._saver.cancel()
        await asyncio.gather(*(task for task in (self._task, self._saver) if task), return_exceptions=True)
        if self._keeps and self._register.wants_saving:
            await self._guarded(self._register.save)
        await asyncio.to_thread(self._thread.shutdown, wait=True)
        self._register.close()

    async def ready(self) -> None:
        """Wait until the whole workspace was read and its contents are stored."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def missed_changes(self) -> tuple[PathChange, ...]:
        """Return changes by others after the `since` given to `start`, once everything was read."""
        seen = asyncio.ensure_future(self._surveyed.wait())
        await asyncio.wait([seen, *([self._task] if self._task else [])], return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
        return self._missed

    @property
    def units(self) -> Units:
        """The repositories and databases last seen in the workspace."""
        return self._register.units

    def coverage(self) -> Coverage:
        """Return which paths could not be restored if they changed now."""
        return self._register.left_out if self._surveyed.is_set() else UNREAD

    def git_coverage(self, folder: Path) -> GitCoverage:
        """Return what undo covers in the repository that contains a folder (resolved)."""
        return git_coverage(self.root, folder, self.coverage())

    @asynccontextmanager
    async def during(self, call: str, label: str, session: str) -> AsyncIterator[CallRecording]:
        """Record changes made inside this block by actions that are announced to `acting`, as one step."""
        recording = CallRecording(call, session, clean(label)[:LABEL])
        self._open.append(recording)
        try:
            yield recording
        finally:
            # An interrupted call may have changed files too.
            await asyncio.shield(asyncio.ensure_future(self._finish(recording)))

    async def acting(self, call: str, action: Action, session: str = "") -> None:
        """Store the contents that an action of a call may change. Raises `ToolError` if that fails.

        `session` distinguishes agents with equal call ids. A call without a recording is ignored.
        """
        mine = (each for each in reversed(self._open) if session in ("", each.session))
        recording = next((each for each in mine if each.call == call), None)
        if recording is None:
            return
        match action:
            case WritePath() | DeletePath():
                await self._note(recording, action.path)
            case RunCommand():
                recording.commands.append(action)
                recording.links_out |= action.outside or not self.links_stay
                await self._widen(recording)
            case _ if isinstance(action, _PROGRAMS) or (action.effect and action.effect.runs_programs):
                confined = isinstance(action, RunScript) and action.sandboxed and self.links_stay
                recording.links_out |= not confined
                await self._widen(recording)

    async def restored_after(self, position: int) -> Step | None:
        """Return the newest restore after a position; None if there is none."""
        if self.position <= position:
            return None
        steps = await asyncio.to_thread(self._line.steps, position)
        return next((step for step in reversed(steps) if step.kind == "restore"), None)

    async def move_to(self, position: int, paths: Sequence[str], label: str) -> Step | None:
        """Restore these paths to a position as a separate step, no matter who changed them since.

        Returns None if nothing changed, or if it failed; the user is notified then. Never raises.
        """
        from agent.workspace.checkpoints.restore.plan import plan_restore, with_others

        def make_plan() -> RestorePlan:
            steps = self._line.steps()
            objects, limit = self.store.objects, self.limits.file
            plan = plan_restore(self.root, steps, position, objects, limit=limit, paths=paths)
            theirs = [step for step in steps if step.kind == "outside" and step.number > position]
            return with_others(plan, theirs, objects, limit=limit, paths=paths)

        plan = await self._guarded(make_plan)
        if plan is None or not plan.items:
            return None
        choices: dict[str, Choice] = {item.path: "checkpoint" for item in plan.items}
        try:
            return (await self.restore(plan, choices, session=self.line, label=clean(label)[:LABEL])).step
        except (HermesError, OSError) as error:
            self._trouble(f"What a program changed could not be taken back: {error}")
            return None

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the recorder's thread, between its other disk work, and return the result."""
        return await self._in_thread(work)

    async def restore(
        self, plan: RestorePlan, choices: Mapping[str, Choice], *, session: str, label: str
    ) -> Restored:
        """Carry out a restore plan as a separate step. Raises `StoreError`."""
        from agent.workspace.checkpoints.restore.apply import apply_restore

        def apply_plan() -> Restored:
            # Files that others built or wrote in between determine the times of restored files.
            dated = replace(plan, stood=self._register.times(plan.position)) if plan.items else plan
            return apply_restore(dated, choices, self.store, self.line, session=session, label=label)

        async with self.own_work():
            restored = await self.run(apply_plan)
            await self.adopt(change.path for change in (restored.step.changes if restored.step else ()))
        return restored

    async def adopt(self, paths: Iterable[str]) -> None:
        """Take the current state of these paths as known, and update the position."""
        # Paths outside the workspace are not scanned.
        wanted = dict.fromkeys(path for path in paths if not is_outside(path))
        await self._guarded(lambda: self._register.accept(self._register.after(wanted)))
        self._position = await self._in_thread(lambda: self._line.last)

    async def former(self, path: Path) -> tuple[bytes, ...]:
        """Return the known earlier contents of a file (resolved), as far as available. Never raises."""

        def read_former() -> tuple[bytes, ...]:
            name = str(path.relative_to(self.root))
            found, _ = self._register.before(name)
            changes = [*found.changes, *(each for step in self._line.steps() for each in step.changes)]
            entries = [entry for each in changes if each.path == name for entry in (each.before, each.after)]
            digests = [entry.digest for entry in entries if entry is not None and entry.digest]
            return tuple(map(self.store.objects.read, dict.fromkeys(digests[-FORMER:])))

        try:
            return await self._in_thread(read_former) if path.is_relative_to(self.root) else ()
        except (Stopped, HermesError, OSError):
            log.info("what a file held before is not at hand", exc_info=True)
            return ()

    async def catch_up(self) -> bool:
        """Record changes made by others so far as a separate step; return False if that is impossible now.

        That is the case while a program of the agent runs, or before the workspace was read.
        """
        if not self._at_hand.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._at_hand.wait()
        if not self._surveyed.is_set() or any(each.wide for each in self._open):
            return False
        return await self._guarded(self._record_others) is not None

    async def record_unseen(self) -> None:
        """Record changes that left no event and that no scan around a program found, as made by the last
        program.

        Does nothing while a program of the agent runs, or before the workspace was read.
        """
        if not self._register.is_whole and await self.catch_up():
            await self._guarded(self._record_unseen)

    # Within

    async def _survey(self, cut_off: str, label: str, since: float | None) -> None:
        if cut_off or since is not None:
            seen = await self._guarded(lambda: self._record_missed(cut_off, label, since))
        else:
            seen = await self._read_workspace()
        if seen:
            self._surveyed.set()
        with suppress(Stopped):
            while seen and self._keeps and await self._kept_on() is False:  # noqa: ASYNC110
                # Commands can use the thread in between.
                await asyncio.sleep(PAUSE)
        self._at_hand.set()

    async def _kept_on(self) -> bool | None:
        """Store file contents for a while; return whether none are left, or None if it failed."""
        return await self._guarded(lambda: self._register.keep(SLICE), idle=True)

    async def _read_workspace(self) -> bool | None:
        """Read the whole workspace in another thread, so that calls of file tools need not wait.

        Returns True, or None if it failed.
        """

        def apply_survey() -> bool:
            self._register.apply(survey)
            return True

        try:
            survey = await asyncio.to_thread(self._register.survey)
        except Stopped:
            return None
        return await self._guarded(apply_survey)

    def _record_missed(self, cut_off: str, label: str, since: float | None) -> bool:
        """Read the whole workspace, and record changes since the last known state as a step; return True."""
        began = self._line.last
        found = self._register.changes_since_last_session()
        seen_at = self._register.seen_at
        moment = seen_at if since is None else min(seen_at, since)
        earlier = steps_since(self.store, str(self.root), moment)
        known = [step for step in earlier if step.created > seen_at]
        missed = self._register.without_steps(found, known)
        if not self._keeps:
            self._missed = (*missed.changes, *self._register.redated_changes(found))
            return True
        if missed.changes and cut_off:
            self._append("command", self.line, cut_off, label, missed)
        elif missed.changes:
            self._append("outside", self.line, "", path_count(missed.changes, "changed in between"), missed)
        self._register.accept(found, self._position)
        if since is not None:
            theirs = (step for step in earlier if step.kind != "restore" or step.session != self.line)
            others = [step for step in theirs if step.created > since]
            self._missed = net([*others, *(step for step in self._line.steps(began) if not step.call)])
        return True

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if self._register.wants_saving:
                await self._guarded(self._register.save)

    async def _note(self, recording: CallRecording, path: Path) -> None:
        if any(path.is_relative_to(each) for each in self._further):
            relative = str(path)
        elif path.is_relative_to(self.root):
            relative = path.relative_to(self.root).as_posix()
        else:
            return
        if relative == ".":
            await self._widen(recording)
            return
        if relative in recording.noted:
            return
        noted = await self._guarded(lambda: self._note_path(relative, recording))
        if noted is None and not self._stop.is_set():
            raise undo_refusal()
        for each, entry in (noted or {}).items():
            recording.noted.setdefault(each, entry)
        entry = recording.noted.get(relative)
        if entry is not None and entry.kind is PathKind.FOLDER and not is_outside(relative):
            # A change of a folder affects everything in it.
            await self._widen(recording)

    def _follow(self) -> None:
        """Update the register after steps of another process, such as `hermes rollback`.

        Their changes are then not recorded again.
        """
        steps = self._line.steps(after=self._position)
        paths = {change.path for step in steps for change in step.changes if not is_outside(change.path)}
        if paths:
            self._register.accept(self._register.after(dict.fromkeys(paths)))
            self._position = steps[-1].number

    def _note_path(self, path: str, recording: CallRecording) -> dict[str, PathEntry | None]:
        self._follow()
        found, noted = self._register.before(path)
        if found.changes:
            # A running program or others made these changes; in both cases they are recorded first.
            running = next((each for each in self._open if each.wide and each is not recording), None)
            if running is not None:
                self._append("command", running.session, running.call, running.label, found)
            else:
                self._append_outside(found)
            self._register.accept(found, self._position)
        return noted

    async def _widen(self, recording: CallRecording) -> None:
        """Record changes made by others so far, because a program is about to run. Raises `ToolError`."""
        if recording.wide:
            return
        recording.wide = True
        self._register.hurried = True
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._at_hand.wait()
        self._register.hurried = False
        recording.blind = not self._surveyed.is_set()
        # Changes by a running program are recorded when it ends.
        others = any(each.wide for each in self._open if each is not recording)
        kept: bool | None = not self._at_hand.is_set()
        if not recording.blind:
            kept = await self._is_kept() and (others or await self._guarded(self._record_others))
        if not kept and not self._stop.is_set():
            recording.wide = recording.blind = False
            raise undo_refusal()

    async def _is_kept(self) -> bool:
        """Return False if contents could not be stored before, and the store still cannot be written.

        One file that does not fit on the disk does not stop a command.
        """
        if not self._keeps or not self._at_hand.is_set() or self._register.complete:
            return True
        probe = str(time.time_ns()).encode()
        return await self._guarded(lambda: self.store.objects.add(probe)) is not None

    def _record_others(self) -> bool:
        """Record changes made by others as a separate step; return True."""
        self._follow()
        found = self._register.changes()
        noted = {path for each in self._open for path in each.noted}
        others = tuple(change for change in found.changes if change.path not in noted)
        others = self._register.without_noise(others, found.units)
        fresh = {path: known for path, known in found.fresh.items() if path not in noted}
        found = replace(found, changes=others, fresh=fresh)
        if others:
            self._append_outside(found)
        self._register.accept(found, self._position)
        return True

    def _record_unseen(self) -> None:
        """Record changes that left no event, after those made by others were recorded."""
        found, ran = self._register.changes(whole=True), self._last_wide
        if found.changes and ran is not None:
            paths = tuple(change.path for change in found.changes)
            self._append("command", ran.session, ran.call, ran.label, found, perhaps=paths)
        self._register.accept(found, self._position)

    async def _finish(self, recording: CallRecording) -> None:
        try:
            if recording.wide or recording.noted:
                recording.step = await self._guarded(lambda: self._record_call(recording))
        finally:
            self._open.remove(recording)
            if recording.wide:
                self._last_wide = recording

    def _record_call(self, recording: CallRecording) -> Step | None:
        """Find the changes made by a call, and record them as a step; return None if there are none."""
        found = self._what_changed(recording)
        step, position = None, self._position
        if found.changes or found.taken_along or recording.blind:
            kind: StepKind = "command" if recording.wide else "tool"
            step = self._append(
                kind,
                recording.session,
                recording.call,
                recording.label,
                found,
                blind=recording.blind,
                perhaps=self._perhaps(recording, found),
            )
        self._register.accept(found, position)
        return step

    def _perhaps(self, recording: CallRecording, found: FoundChanges) -> tuple[str, ...]:
        """Return paths that the user may have changed during a command; empty if that cannot be judged."""
        if not recording.commands:
            return ()
        text = "\n".join([recording.label, *(each.command for each in recording.commands)])
        folder = recording.commands[-1].cwd
        return possible_user_changes(found.changes, text, folder, self.root, found.marks, self.store.objects)

    def _what_changed(self, recording: CallRecording) -> FoundChanges:
        noted = self._register.after(recording.noted)
        if not recording.wide or not self._surveyed.is_set():
            return noted
        wide = self._register.changes(whole=recording.links_out)
        # Paths announced by another call are left to that call, which knows their earlier state.
        known = {path for each in self._open for path in each.noted}
        changes = (*noted.changes, *(change for change in wide.changes if change.path not in known))
        fresh = {path: seen for path, seen in wide.fresh.items() if path not in known} | dict(noted.fresh)
        changes = tuple(in_order(changes, key=lambda change: change.path))
        return replace(wide, changes=changes, fresh=fresh, marks={**noted.marks, **wide.marks})

    def _append_outside(self, found: FoundChanges) -> None:
        self._append("outside", self.line, "", path_count(found.changes, "changed outside of calls"), found)

    def _append(
        self,
        kind: StepKind,
        session: str,
        call: str,
        label: str,
        found: FoundChanges,
        *,
        blind: bool = False,
        perhaps: tuple[str, ...] = (),
    ) -> Step:
        coverage = self._register.coverage(found)
        if blind:
            coverage = replace(coverage, left_out=(*UNREAD.left_out, *coverage.left_out))
        step = self._line.append(
            kind=kind,
            session=session,
            call=call,
            label=label,
            root=str(self.root),
            changes=found.changes,
            coverage=coverage,
            git=marked_line(found.changes, self.store.objects.read, found.marks),
            units=found.marks,
            place=self._folder.place(self._line.steps()[-1:], is_ours=kind == "command"),
            perhaps=perhaps,
        )
        self._position = step.number
        return step

    async def _guarded(self, work: Callable[[], T], *, idle: bool = False) -> T | None:
        """Return the result of disk work; None if it failed, which is reported to the user once.

        Other work is done before `idle` work. Raises `Stopped`.
        """
        try:
            return await self._in_thread(work, idle=idle)
        except Stopped:
            raise
        except Exception as error:
            if not isinstance(error, (HermesError, OSError)):
                log.exception("checkpoints")
            log.warning("checkpoints: %s", error)
            if not self._troubled:
                self._troubled = True
                self._trouble(f"What happens to files cannot be kept, so it cannot be undone: {error}")
            return None

    async def _in_thread(self, work: Callable[[], T], *, idle: bool = False) -> T:
        def sharing() -> T:
            self._register.waiting -= not idle
            with self.store.sharing():
                return work()

        self._register.waiting += not idle
        return await self._loop.run_in_executor(self._thread, sharing)
