"""Opening of the checkpoints of a session, and reports about them to the user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.core.home import Home
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import Node
from agent.errors import StoreError
from agent.events import Event, Noticed
from agent.session.conversation.live_session import LiveSession
from agent.session.export.patch import Patch, patch_between
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.git_words import step_names
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.hunk_restore import divide_path, numbered
from agent.workspace.checkpoints.restore.plan import RestorePlan, check_position, inside, plan_back
from agent.workspace.checkpoints.restore.ref_plan import Choice
from tools.results import ToolError
from tools.services.checkpoints import (
    ChangesSince,
    Checkpoints,
    FileStep,
    PermitBack,
    PointList,
    RestoreResult,
    SavedPoint,
)
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.config.schema import CheckpointSettings
    from agent.session.history.navigation import HistoryNavigation
    from agent.workspace.checkpoints.file_register import CaptureLimits
    from agent.workspace.checkpoints.store import CheckpointStore


MEGABYTE = 1_000_000
PATIENCE = 10.0
"""Seconds that an unattended session waits to learn what changed while it was closed."""


async def open_recorder(
    home: Home,
    workspace: Path,
    line: str,
    settings: CheckpointSettings,
    emit: Callable[[Event], None],
    remember: Callable[[str, str], None],
    interrupted: Sequence[Node],
    closers: list[Callable[[], Awaitable[None]]],
    *,
    since: float | None = None,
    waits: bool = False,
    tidy: Callable[[], object] = lambda: None,
) -> StepRecorder | None:
    """Return the running recorder of a session's steps; None if steps are not kept. A notice says why, unless
    the settings disable it.

    `interrupted` are the results that recovery wrote for calls that were interrupted. `since` is when the
    session was last at work (seconds since the epoch; None for a new session). `remember` receives notes for
    the model's next request; with `waits`, the function waits up to `PATIENCE` seconds for those on changes
    made in between. `tidy` cleans up other growing data.
    """
    if not settings.enabled:
        return None
    from agent.workspace.checkpoints.meanwhile import finish_detached
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.root_identity import refusal

    def warn(text: str) -> None:
        emit(Noticed(kind="warning", text=text))

    reason = await asyncio.to_thread(refusal, workspace, home)
    if reason:
        warn(f"What happens to files is not kept here, so it cannot be undone: {reason}.")
        return None
    try:
        store, finished = await asyncio.to_thread(_open_store, home)
        for text in finished:
            emit(Noticed(kind="recovery", text=text))
        await asyncio.to_thread(finish_detached, store.line(line))
        written = [each.resolve() for each in (home.memories, home.skills)]
        recorder = StepRecorder(store, line, workspace, limits(settings), warn, further=written)
    except StoreError as error:
        warn(f"What happens to files is not kept, so it cannot be undone: {error}")
        return None
    closers.append(recorder.stop)
    closers.append(_tidy(store, settings, tidy))
    started = [node for node in interrupted if "before this call started" not in node.content]
    call = str(started[0].data.get("call", "")) if started else ""
    tool = str(started[0].data.get("tool", "a call")) if started else ""
    recorder.start(call, f"{tool}, cut off" if call else "", since=since)
    if call or since is not None:
        telling = asyncio.create_task(_tell(recorder, call, since, emit, remember), name="changed in between")
        closers.append(_stopping(telling))
        recorder.telling = telling
        if waits:
            await asyncio.wait([telling], timeout=PATIENCE)
    return recorder


def _tidy(
    store: CheckpointStore, settings: CheckpointSettings, further: Callable[[], object]
) -> Callable[[], Awaitable[None]]:
    """Start a task that keeps the store within its limits; return a function that stops it."""
    from agent.workspace.checkpoints.garbage_collection import keep_tidy

    kept = keep_tidy(store, settings, None, further=further)
    return _stopping(asyncio.create_task(kept, name="checkpoints-tidy"))


def limits(settings: CheckpointSettings) -> CaptureLimits:
    """Return the limits for recording from the settings, with sizes in bytes.

    Half of the total limit is for the contents of files that have not been changed yet.
    """
    from agent.workspace.checkpoints.file_register import CaptureLimits

    total = settings.max_total_mb * MEGABYTE
    return CaptureLimits(
        file=settings.max_file_mb * MEGABYTE, beforehand=total // 2, objects=settings.objects
    )


async def steps_of_all(
    store: CheckpointStore, line: str, root: Path, limits: CaptureLimits
) -> tuple[Step, ...]:
    """Return the steps of all sessions in a workspace; changes since the newest one are added as a last step.

    For a session that has ended: nothing is recorded, but contents are available. Raises `StoreError`.
    """
    from agent.workspace.checkpoints.entries import Step, UnitMark
    from agent.workspace.checkpoints.meanwhile import steps_since
    from agent.workspace.checkpoints.recorder import StepRecorder

    troubles: list[str] = []
    recorder = StepRecorder(store, line, root, limits, troubles.append)
    now = time.time()
    recorder.start(since=now, keep=False)
    try:
        news = await recorder.missed_changes()
    finally:
        await recorder.stop()
    if troubles:
        raise StoreError(troubles[0])
    steps = await asyncio.to_thread(steps_since, store, str(root), 0.0)
    if not news:
        return steps
    places = recorder.units.of(change.path for change in news).places
    marks = {place: UnitMark(kind) for place, kind in places.items()}
    return (*steps, Step(0, "outside", "", "", "changed since", now, str(root), news, units=marks))


def _open_store(home: Home) -> tuple[CheckpointStore, tuple[str, ...]]:
    """Return the store, and sentences about interrupted restores that were completed. Raises `StoreError`."""
    from agent.workspace.checkpoints.garbage_collection import read_clock
    from agent.workspace.checkpoints.restore.apply import finish_abandoned
    from agent.workspace.checkpoints.store import CheckpointStore

    store = CheckpointStore(home.checkpoints)
    read_clock(store.folder, time.time())
    return store, finish_abandoned(store)


async def _tell(
    recorder: StepRecorder,
    call: str,
    since: float | None,
    emit: Callable[[Event], None],
    remember: Callable[[str, str], None],
) -> None:
    """Report changes made while the session was closed, and those of the call that was interrupted.

    Steps that `hermes rollback` reverted are reported as such, and not as changes by other programs.
    """
    from agent.workspace.checkpoints.git_words import git_apart, git_line
    from agent.workspace.checkpoints.meanwhile import change_names
    from agent.workspace.ignore import IgnoreFiles

    def describe(changes: Sequence[PathChange]) -> str:
        line = git_line(changes, recorder.store.objects.read, recorder.units)
        files = git_apart(changes, recorder.units).files
        return "; ".join(filter(None, (change_names(files), line)))

    missed = await recorder.missed_changes()
    if missed:
        ignored = IgnoreFiles(recorder.root)
        missed = await asyncio.to_thread(
            lambda: [each for each in missed if not ignored.passes_over(each.path)]
        )
    steps = await asyncio.to_thread(recorder.store.line(recorder.line).steps)
    step = next((step for step in reversed(steps) if call and step.call == call), None)
    if step is not None:
        what = await asyncio.to_thread(describe, step.changes)
        text = f"The call that was cut off had done this to files: {what} (step {step.number})."
        emit(Noticed(kind="recovery", text=text))
        remember(f"[{text}]", text)
    for back in steps:
        ours = back.kind == "restore" and back.session == recorder.line
        if ours and since is not None and back.created > since:
            what = await asyncio.to_thread(describe, back.changes)
            text = f"Since this session was last at work, its steps were taken back ({back.label}): {what}."
            emit(Noticed(kind="files", text=text))
            remember(f"[{text} What was read of them before may no longer be so.]", text)
    if missed:
        what = await asyncio.to_thread(describe, missed)
        text = f"Since this session was last at work, others did this to files: {what}."
        emit(Noticed(kind="files", text=text))
        remember(f"[{text} What was read of them before may no longer be so.]", text)


def _stopping(task: asyncio.Task[None]) -> Callable[[], Awaitable[None]]:
    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return stop


T = TypeVar("T")

LISTED = 20
"""The maximum number of steps in a list."""


class CheckpointService(Checkpoints):
    """Checkpoints of one session, as `tools.services.checkpoints.Checkpoints` defines them.

    `history` returns the history; it is called only when it is needed.
    """

    def __init__(
        self, session: LiveSession, recorder: StepRecorder, history: Callable[[], HistoryNavigation]
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._history = history
        self._line = recorder.store.line(recorder.line)

    async def save(self, name: str) -> SavedPoint:
        label = one_line(name)
        if not label:
            raise ToolError("A checkpoint needs a name; give it a word or two.")
        if label.isdecimal():
            raise ToolError(f"{label} would be taken for the number of a step; choose a name with a letter.")
        node = self._session.path[-1].id
        for mark in await self._marks():
            if mark.node == node:
                raise ToolError(f"This place has a name already: {mark.label}.")
            if mark.label.casefold() == label.casefold():
                raise ToolError(f"There is a checkpoint {mark.label} already; choose another name.")
        mark = await self._session.store.mark(self._session.id, node, label=label)
        return SavedPoint(mark.label, self._recorder.position)

    async def list(self) -> PointList:
        steps = await asyncio.to_thread(self._line.steps)
        saved = [SavedPoint(mark.label, await self._position(mark)) for mark in await self._marks()]
        newest = tuple(map(_step, steps[-LISTED:]))
        return PointList(self._recorder.position, self._line.floor, tuple(saved), newest)

    async def diff(self, reference: str, path: str = "") -> ChangesSince:
        position = await self._resolve(reference)
        plan = await self._plan(position, path)
        objects = self._recorder.store.objects

        def draw() -> tuple[Patch, str]:
            patch = patch_between(
                [PathChange(item.path, item.target, item.now) for item in plan.items],
                objects,
                text=True,
                units=plan.units,
            )
            if not path or len(plan.items) != 1:
                return patch, patch.body.decode("utf-8", "replace")
            return patch, numbered(plan.items[0], patch.body, objects).decode("utf-8", "replace")

        patch, text = await asyncio.to_thread(draw)
        return ChangesSince(
            position,
            clean(text),
            len(patch.files),
            patch.added,
            patch.removed,
            tuple((clean(item.path), clean(item.reason)) for item in patch.left_out),
        )

    async def restore(
        self, reference: str, permit: PermitBack, path: str = "", hunks: Sequence[int] = ()
    ) -> RestoreResult:
        position = await self._resolve(reference)
        plan = await self._plan(position, path)
        moving = tuple(item for item in plan.shown_items if item.state == "change")
        choices = await self._choose_hunks(plan, hunks) if hunks else {}
        if not moving:
            return RestoreResult(position, None, (), _skipped_items(plan))
        root = Path(plan.root)
        await permit(
            position,
            tuple(root / item.path for item in moving if item.target is not None),
            tuple(root / item.path for item in moving if item.target is None),
        )
        restored = await self._recorder.restore(
            plan, choices, session=self._session.id, label=f"back to step {position}"
        )
        paths = step_names(restored.step) if restored.step else ()
        left = tuple((clean(item.path), clean(item.reason)) for item in restored.skipped)
        number = restored.step.number if restored.step else None
        return RestoreResult(position, number, tuple(map(clean, paths)), left)

    async def branch(self, name: str) -> str:
        return await self._history().branch(name)

    async def _marks(self) -> list[NodeMark]:
        marks = await self._session.store.marks(self._session.id)
        return [mark for mark in marks if mark.label]

    async def _position(self, mark: NodeMark) -> int:
        return await self._history().position_of(mark.node)

    async def _resolve(self, reference: str) -> int:
        """Return the position that a name or number refers to. Raises `ToolError`."""
        wanted = one_line(reference)
        if not wanted:
            raise ToolError("Say which one: name is the name of a checkpoint, or the number of a step.")
        if wanted.isdecimal() and len(wanted) < 12:
            return int(wanted)
        marks = await self._marks()
        mark = next((mark for mark in marks if mark.label.casefold() == wanted.casefold()), None)
        if mark is None:
            known = ", ".join(mark.label for mark in marks[-LISTED:])
            hint = f"there are {known}" if known else "none was saved yet"
            raise ToolError(f"There is no checkpoint {wanted}; {hint}. The number of a step is taken too.")
        return await self._position(mark)

    async def _choose_hunks(self, plan: RestorePlan, hunks: Sequence[int]) -> dict[str, Choice]:
        """Return the choice that restores only these hunks of the one file in a plan.

        A file that other programs have changed is left alone. Raises `ToolError` if the plan has several
        files.
        """
        if len(plan.items) > 1:
            raise ToolError("Hunks are those of one file; the path is a folder.")
        item = next(iter(plan.items), None)
        if item is None:
            return {}
        found = await asyncio.to_thread(divide_path, item, self._recorder.store.objects)
        part = found.part(frozenset(hunks))
        return {item.path: part} if item.state == "change" else {}

    async def _plan(self, position: int, path: str = "") -> RestorePlan:
        recorder = self._recorder
        await recorder.record_unseen()

        def make_plan() -> RestorePlan:
            check_position(self._line, position)
            paths = (inside(recorder.root, path, recorder.root),) if path else None
            return plan_back(
                self._line,
                recorder.root,
                position,
                recorder.store.objects,
                limit=recorder.limits.file,
                paths=paths,
            )

        return await recorder.run(make_plan)


def _step(step: Step) -> FileStep:
    return FileStep(step.number, clean(step.label), step.created, len(step_names(step)))


def _skipped_items(plan: RestorePlan) -> tuple[tuple[str, str], ...]:
    return tuple(
        (clean(item.path), clean(item.reason)) for item in plan.shown_items if item.state != "change"
    )
