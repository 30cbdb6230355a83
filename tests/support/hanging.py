"""What hangs, when something does not end in time: told in the test, or in a child on a signal."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agent.events import Event

LAST = 12
"""Events that are told, those that came last."""
FRAMES, AWAITS = ("cr_frame", "ag_frame", "gi_frame"), ("cr_await", "ag_await", "gi_yieldfrom")
"""Where coroutines, asynchronous generators and generators keep their frames and what they wait for."""


def tasks_here() -> str:
    """Where every task of the running loop waits."""
    told = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        if task is not asyncio.current_task():
            print(f"task {task.get_name()}:", *_places(task.get_coro()), sep="\n  ", file=told)
    return told.getvalue()


def _places(waits: Any) -> Iterable[str]:
    """Each place in which something waits for the next, outermost first."""
    while waits is not None:
        frame = next((found for name in FRAMES if (found := getattr(waits, name, None))), None)
        if frame is None:
            yield repr(waits)[:200]
            return
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        waits = next((found for name in AWAITS if (found := getattr(waits, name, None)) is not None), None)


def last_of(events: Sequence[Event]) -> str:
    """The last events, a line each."""
    return "\n".join(f"{event.agent} {str(event.to_json())[:300]}" for event in events[-LAST:])


def tell_on_signal(file: Path) -> None:
    """From now on this process writes into `file`, on SIGUSR1, where its tasks wait."""

    def told(*_: object) -> None:
        try:
            words = tasks_here()
        except RuntimeError as error:
            words = f"no loop runs: {error}\n{''.join(traceback.format_stack())}"
        part = file.with_suffix(".part")
        part.write_text(words or "no task waits", encoding="utf-8")
        part.replace(file)

    signal.signal(signal.SIGUSR1, told)


async def told_by(pid: int, file: Path) -> str:
    """What a process tells that was made to by `tell_on_signal`; its state where it says nothing."""
    os.kill(pid, signal.SIGUSR1)
    for _ in range(100):
        await asyncio.sleep(0.05)
        if file.exists():
            return file.read_text(encoding="utf-8")
    return f"process {pid} says nothing: {Path(f'/proc/{pid}/status').read_text()[:400]}"
