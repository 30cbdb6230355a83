"""A session whose opening is cancelled leaves nothing open, wherever the cancellation strikes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from agent.automation.unattended.session_automation import AUTOMATION
from agent.session.options import Options
from agent.session.runtime import open_engine
from tests.support.waiting import PATIENCE

STRIDE = 3
"""Every third place where the opening waits is tried."""


class Cut:
    """Runs a coroutine, and cancels its task at the given waits: the first is 0."""

    def __init__(self, work: Coroutine[Any, Any, Any], *waits: int) -> None:
        self.work, self.waits, self.seen = work, waits, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self.work.__await__()
        sent: BaseException | None = None
        while True:
            try:
                waited = next(inner) if sent is None else inner.throw(sent)
            except StopIteration as end:
                return end.value
            if self.seen in self.waits:
                task = asyncio.current_task()
                assert task is not None
                task.get_loop().call_soon(task.cancel)
            self.seen += 1
            sent = None
            try:
                yield waited
            except BaseException as error:
                sent = error


def threads_of_connections() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "_connection_worker_thread" in each.name}


async def opened(folder: Path, *waits: int) -> tuple[int, bool]:
    """How often the opening waited, and whether a session came of it, which is closed."""
    environ = {
        "HERMES_HOME": str(folder / "home"),
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
    }
    (folder / "work").mkdir(parents=True, exist_ok=True)
    work = open_engine(Options(workspace=folder / "work"), environ=environ, automation=AUTOMATION)
    cut = Cut(work, *waits)

    async def run() -> Any:
        return await cut

    task = asyncio.create_task(run())
    try:
        engine = await task
    except asyncio.CancelledError:
        return cut.seen, False
    await engine.aclose()
    return cut.seen, True


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_an_opening_that_is_cancelled_leaves_no_connection(tmp_path: Path, times: int) -> None:
    waits, is_open = await opened(tmp_path)
    assert is_open and waits > 10
    before = threads_of_connections()
    for first in range(times, waits, STRIDE):
        await opened(tmp_path, *range(first, first + times))
        async with asyncio.timeout(PATIENCE):
            while not threads_of_connections() <= before:
                await asyncio.sleep(0.01)
