"""A model that does the same again and again is told so, and in the end not obeyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolFinished
from tests.support.engines import bench
from tests.support.replies import Reply, by_step, call, calls, say


@pytest.mark.thorough
async def test_a_call_that_repeats_itself_is_stopped(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        last = request.messages[-1]["content"]
        return say("I give up.") if "Not run" in last else call("search", pattern="nowhere-to-be-found")

    async with bench(tmp_path, script) as b:
        assert (await b.turn("find it")).text == "I give up."
        assert len(b.seen(ToolFinished)) < 10


async def test_a_model_that_keeps_looking_and_finds_nothing_new_is_told(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        last = request.messages[-1]["content"]
        if "gave the same result" in last:
            return say("It is not there.")
        return call("search", pattern=f"nowhere-{len(request.messages)}")

    async with bench(tmp_path, script) as b:
        assert (await b.turn("find it")).text == "It is not there."
        assert len(b.seen(ToolFinished)) == 6


async def test_a_call_made_twice_in_one_message_runs_once(tmp_path: Path) -> None:
    twice = ("terminal", {"command": "echo x >> log"})
    async with bench(tmp_path, by_step([calls(twice, twice), say("ok")])) as b:
        await b.turn("go")
        assert (b.workspace / "log").read_text() == "x\n"
