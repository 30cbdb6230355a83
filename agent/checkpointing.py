"""Checkpoints in the service of a session: opened with it, and what a person has to know about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import StoreError
from agent.events import Event, Noticed
from agent.home import Home
from agent.store.nodes import Node

if TYPE_CHECKING:
    from agent.config.schema import CheckpointSettings
    from agent.workspace.checkpoints.recorder import Recorder
    from agent.workspace.checkpoints.register import Limits
    from agent.workspace.checkpoints.store import CheckpointStore

MEGABYTE = 1_000_000


async def open_recorder(
    home: Home,
    workspace: Path,
    line: str,
    settings: CheckpointSettings,
    emit: Callable[[Event], None],
    remember: Callable[[str], None],
    interrupted: Sequence[Node],
    closers: list[Callable[[], Awaitable[None]]],
) -> Recorder | None:
    """The recorder of a session's steps, at work; None where steps are not kept, and the person is told why.

    `interrupted` are the results that recovery wrote for calls that were cut off. `remember`
    receives notes for the model's next request.
    """
    if not settings.enabled:
        return None
    from agent.workspace.checkpoints.aside import finish_aside
    from agent.workspace.checkpoints.recorder import Recorder
    from agent.workspace.checkpoints.territory import refusal

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
        await asyncio.to_thread(finish_aside, store.line(line))
        recorder = Recorder(store, line, workspace, limits(settings), warn)
    except StoreError as error:
        warn(f"What happens to files is not kept, so it cannot be undone: {error}")
        return None
    closers.append(recorder.stop)
    closers.append(_tidy(store, settings))
    started = [node for node in interrupted if "before this call started" not in node.content]
    call = str(started[0].data.get("call", "")) if started else ""
    tool = str(started[0].data.get("tool", "a call")) if started else ""
    recorder.start(call, f"{tool}, cut off" if call else "")
    if call:
        closers.append(_watch(recorder, call, emit, remember))
    return recorder


def _tidy(store: CheckpointStore, settings: CheckpointSettings) -> Callable[[], Awaitable[None]]:
    """Keep the store within its limits while the session runs."""
    from agent.workspace.checkpoints.tidying import keep_tidy

    task = asyncio.create_task(keep_tidy(store, settings, None), name="checkpoints-tidy")

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return stop


def limits(settings: CheckpointSettings) -> Limits:
    """The settings in bytes. Half of what all checkpoints may take is for what nothing has changed yet."""
    from agent.workspace.checkpoints.register import Limits

    total = settings.max_total_mb * MEGABYTE
    return Limits(file=settings.max_file_mb * MEGABYTE, beforehand=total // 2)


def _opened(home: Home) -> tuple[CheckpointStore, tuple[str, ...]]:
    """The store, and what became of restores that were cut off. Raises `StoreError`."""
    from agent.workspace.checkpoints.lived import look_at_clock
    from agent.workspace.checkpoints.restore.apply import finish_abandoned
    from agent.workspace.checkpoints.store import CheckpointStore

    store = CheckpointStore(home.checkpoints)
    look_at_clock(store.folder, time.time())
    return store, finish_abandoned(store)


def _watch(
    recorder: Recorder, call: str, emit: Callable[[Event], None], remember: Callable[[str], None]
) -> Callable[[], Awaitable[None]]:
    """Tell what the call that was cut off had done to files, once that is known."""

    async def tell() -> None:
        await recorder.ready()
        steps = await asyncio.to_thread(recorder.store.line(recorder.line).steps)
        step = next((step for step in reversed(steps) if step.call == call), None)
        if step is None:
            return
        paths = ", ".join(change.path for change in step.changes[:5])
        more = f" and {len(step.changes) - 5:,} more" if len(step.changes) > 5 else ""
        text = f"The call that was cut off had changed {paths}{more} (step {step.number})."
        emit(Noticed(kind="recovery", text=text))
        remember(f"[{text}]")

    task = asyncio.create_task(tell(), name="cut-off call")

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return stop
