"""Opening of a session on which another process works."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agent.events import Noticed
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, call, say


def script(request: Any) -> Reply:
    last = request.body["messages"][-1]
    if last["role"] == "user" and last["content"] == "dredge the canal":
        return call("terminal", command="touch begun; while [ ! -e go ]; do sleep 0.05; done")
    return say("done")


async def until_begun(b: Bench) -> None:
    while not (b.workspace / "begun").exists():
        await asyncio.sleep(0.02)


async def test_a_second_window_leaves_out_the_turn_that_runs_in_the_first(tmp_path: Path) -> None:
    async with bench(tmp_path, script) as b, b.engine() as first:
        await first.run("hello")
        first.submit("dredge the canal")
        await until_begun(b)
        ended = await b.turn("second", resume_last=True)
        asked = json.dumps(b.server.requests[-1].body["messages"])
        assert ended.outcome == "done" and "hello" in asked and "second" in asked
        assert "dredge the canal" not in asked
        assert any("another window" in each.text for each in b.seen(Noticed))
        (b.workspace / "go").touch()
        await first.idle()
        said = [node.content for node in first.session.path if node.kind in ("user", "assistant")]
        assert said[-3:] == ["dredge the canal", "", "done"] and "second" not in said


async def test_a_second_window_begins_anew_while_the_first_turn_runs(tmp_path: Path) -> None:
    async with bench(tmp_path, script) as b, b.engine() as first:
        first.submit("dredge the canal")
        await until_begun(b)
        await b.turn("second", resume_last=True)
        asked = json.dumps(b.server.requests[-1].body["messages"])
        assert "second" in asked and "dredge the canal" not in asked
        (b.workspace / "go").touch()
        await first.idle()
