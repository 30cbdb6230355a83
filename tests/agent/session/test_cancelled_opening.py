"""A session whose opening or closing is cancelled leaves nothing open, wherever the cancellation strikes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from agent.automation.unattended.session_automation import AUTOMATION
from agent.errors import HermesError
from agent.safety.sandbox.opening import _probe
from agent.session.engine import Engine
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


def opening(folder: Path) -> Coroutine[Any, Any, Engine]:
    environ = {
        "HERMES_HOME": str(folder / "home"),
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
    }
    (folder / "work").mkdir(parents=True, exist_ok=True)
    return open_engine(Options(workspace=folder / "work"), environ=environ, automation=AUTOMATION)


async def cut(work: Coroutine[Any, Any, Any], *waits: int) -> tuple[int, Any]:
    """How often a coroutine waited, and its result: None if it was cancelled."""
    running = Cut(work, *waits)

    async def run() -> Any:
        return await running

    try:
        result = await asyncio.create_task(run())
    except asyncio.CancelledError:
        result = None
    return running.seen, result


async def opened(folder: Path, *waits: int) -> tuple[int, bool]:
    """How often the opening waited, and whether it gave a session, which is closed."""
    seen, engine = await cut(opening(folder), *waits)
    if engine is not None:
        await engine.aclose()
    return seen, engine is not None


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


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_a_closing_that_is_cancelled_leaves_no_connection(tmp_path: Path, times: int) -> None:
    before = threads_of_connections()
    waits = times
    first = 0
    while first < waits:
        engine = await opening(tmp_path)
        await engine.stored.search("what was said before?")
        waits, _ = await cut(engine.aclose(), *range(first, first + times))
        async with asyncio.timeout(PATIENCE):
            while not threads_of_connections() <= before:
                await asyncio.sleep(0.01)
        first += STRIDE
    assert waits > STRIDE


async def test_an_opening_that_fails_ends_the_test_of_the_boundary_it_began(tmp_path: Path):
    _probe.cache_clear()
    missing = Options(workspace=tmp_path, settings={"model.default": "nobody/nothing"})
    with pytest.raises(HermesError):
        await open_engine(missing, environ={"HERMES_HOME": str(tmp_path / "home")}, automation=AUTOMATION)
    assert _probe.cache_info().currsize == 1
    assert not [each for each in threading.enumerate() if each.name == "probe"]
