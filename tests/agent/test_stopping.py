"""Turns that are stopped more than once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.engines import bench
from tests.support.replies import by_step, call


@pytest.mark.parametrize("steps", [1, 2, 4, 8, 16, 32, 64])
async def test_a_turn_that_is_stopped_twice_ends_all_the_same(tmp_path: Path, steps: int) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="sleep 30")])) as b, b.engine() as engine:
        turn = asyncio.create_task(engine.run("wait"))
        for _ in range(steps):
            await asyncio.sleep(0)
        engine.interrupt()
        for _ in range(steps):
            await asyncio.sleep(0)
        engine.interrupt()
        ended = await asyncio.wait_for(turn, 60)
        assert ended.outcome == "interrupted"
