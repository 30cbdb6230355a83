"""Checkpoints in the service of a session: opened with it, and what a person has to know about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.nodes import Node
from agent.errors import StoreError
from agent.events import Event, Noticed

if TYPE_CHECKING:
    from agent.core.config.schema import CheckpointSettings
    from agent.workspace.checkpoints.entries import PathChange, Step
    from agent.workspace.checkpoints.file_register import CaptureLimits
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.store import CheckpointStore

MEGABYTE = 1_000_000
PATIENCE = 10.0
"""Seconds that a session without a person waits until it is known what changed in between."""


async def open_recorder(
    home: Home,
    workspace: Path,
    line: str,
    settings: CheckpointSettings,
    emit: Callable[[Event], None],
    remember: Callable[[str], None],
    interrupted: Sequence[Node],
    closers: list[Callable[[], Awaitable[None]]],
    *,
    since: float | None = None,
    waits: bool = False,
    tidy: Callable[[], object] = lambda: None,
) -> StepRecorder | None:
    """The recorder of a session's steps, at work; None where steps are not kept, and the person is told why.

    `interrupted` are the results that recovery wrote for calls that were cut off, `since` is when
    the session was last at work (seconds since the epoch; None for a new one). `remember` receives
    notes for the model's next request; `waits` returns only when what changed in between is among them.
    `tidy` clears something else that grows.
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
        store, finished = await asyncio.to_thread(_opened, home)
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
        if waits:
            await asyncio.wait([telling], timeout=PATIENCE)
    return recorder


def _tidy(
    store: CheckpointStore, settings: CheckpointSettings, further: Callable[[], object]
) -> Callable[[], Awaitable[None]]:
    """Keep the store within its limits while the session runs."""
    from agent.workspace.checkpoints.background_cleanup import keep_tidy

    kept = keep_tidy(store, settings, None, further=further)
    return _stopping(asyncio.create_task(kept, name="checkpoints-tidy"))


def limits(settings: CheckpointSettings) -> CaptureLimits:
    """The settings in bytes. Half of what all checkpoints may take is for what nothing has changed yet."""
    from agent.workspace.checkpoints.file_register import CaptureLimits

    total = settings.max_total_mb * MEGABYTE
    return CaptureLimits(
        file=settings.max_file_mb * MEGABYTE, beforehand=total // 2, objects=settings.objects
    )


async def steps_of_all(
    store: CheckpointStore, line: str, root: Path, limits: CaptureLimits
) -> tuple[Step, ...]:
    """The steps of all sessions in a workspace, and at last what changed there since anybody looked.

    For a session that is over; nothing is written down, but contents are at hand. Raises `StoreError`.
    """
    from agent.workspace.checkpoints.entries import Step, UnitMark
    from agent.workspace.checkpoints.meanwhile import steps_since
    from agent.workspace.checkpoints.recorder import StepRecorder

    troubles: list[str] = []
    recorder = StepRecorder(store, line, root, limits, troubles.append)
    now = time.time()
    recorder.start(since=now, keep=False)
    try:
        news = await recorder.missed()
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


def _opened(home: Home) -> tuple[CheckpointStore, tuple[str, ...]]:
    """The store, and what became of restores that were cut off. Raises `StoreError`."""
    from agent.workspace.checkpoints.elapsed_age import read_clock
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
    remember: Callable[[str], None],
) -> None:
    """Tell what happened while the session was not at work, and what the call cut off had done.

    Steps of the session that `hermes rollback` took back are told as that, and not as done by others.
    """
    from agent.workspace.checkpoints.git_words import git_apart, git_line
    from agent.workspace.checkpoints.meanwhile import named
    from agent.workspace.ignore import IgnoreFiles

    def told(changes: Sequence[PathChange]) -> str:
        line = git_line(changes, recorder.store.objects.read, recorder.units)
        files = git_apart(changes, recorder.units).files
        return "; ".join(filter(None, (named(files), line)))

    missed = await recorder.missed()
    if missed:
        ignored = IgnoreFiles(recorder.root)
        missed = await asyncio.to_thread(
            lambda: [each for each in missed if not ignored.passes_over(each.path)]
        )
    steps = await asyncio.to_thread(recorder.store.line(recorder.line).steps)
    step = next((step for step in reversed(steps) if call and step.call == call), None)
    if step is not None:
        what = await asyncio.to_thread(told, step.changes)
        text = f"The call that was cut off had done this to files: {what} (step {step.number})."
        emit(Noticed(kind="recovery", text=text))
        remember(f"[{text}]")
    for back in steps:
        ours = back.kind == "restore" and back.session == recorder.line
        if ours and since is not None and back.created > since:
            what = await asyncio.to_thread(told, back.changes)
            text = f"Since this session was last at work, its steps were taken back ({back.label}): {what}."
            emit(Noticed(kind="files", text=text))
            remember(f"[{text} What was read of them before may no longer be so.]")
    if missed:
        what = await asyncio.to_thread(told, missed)
        text = f"Since this session was last at work, others did this to files: {what}."
        emit(Noticed(kind="files", text=text))
        remember(f"[{text} What was read of them before may no longer be so.]")


def _stopping(task: asyncio.Task[None]) -> Callable[[], Awaitable[None]]:
    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return stop
