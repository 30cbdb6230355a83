"""Turns that are stopped more than once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.session.conversation.live_session import LiveSession
from tests.support.engines import bench
from tests.support.replies import by_step, call, refuse


@pytest.mark.sample(2)
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


async def test_a_turn_that_is_stopped_while_its_failure_is_noted_tells_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = LiveSession.add
    async with bench(tmp_path, by_step([refuse(400, "no such reply")])) as b, b.engine() as engine:

        async def stopped_meanwhile(session: LiveSession, *what: Any) -> Any:
            engine.interrupt()
            await asyncio.sleep(0.01)
            return await keep(session, *what)

        monkeypatch.setattr(LiveSession, "add", stopped_meanwhile)
        ended = await asyncio.wait_for(engine.run("hello"), 60)
        assert ended.outcome == "failed" and "no such reply" in ended.error
        last = engine.session.path[-1]
        assert last.kind == "notice" and "no such reply" in last.content


async def test_a_message_that_is_stopped_before_its_turn_has_begun_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, by_step(["Never asked."])) as b, b.engine() as engine:
        place = engine.history.place

        async def slowly() -> Any:
            await asyncio.sleep(0.05)
            return await place()

        monkeypatch.setattr(engine.history, "place", slowly)
        turn = asyncio.create_task(engine.run("do this"))
        await asyncio.sleep(0.01)
        engine.interrupt()
        assert (await asyncio.wait_for(turn, 60)).outcome == "interrupted"
        assert [each.content for each in engine.session.path if each.kind == "user"] == ["do this"]
