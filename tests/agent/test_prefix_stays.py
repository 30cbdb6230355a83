"""What was sent stays as it was sent, whatever is written beside the conversation."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from agent.events import PrefixBroken
from tests.support.engines import bench
from tests.support.model_server import Reply, call, say


async def test_a_hundred_turns_with_writes_of_all_kinds_leave_the_prefix_as_it_was(
    tmp_path: Path,
) -> None:
    def script(request: Any) -> Reply:
        last = request.messages[-1]
        if last["role"] == "tool":
            return say("Noted.")
        turn = sum(message["role"] == "user" for message in request.messages)
        match turn % 4:
            case 0:
                return call("memory", target="memory", action="add", content=f"fact {turn} of the shop")
            case 1:
                return call("skills_list")
            case 2:
                return call("memory", target="user", action="add", content=f"likes {turn}")
            case _:
                return say("Yes.")

    async with bench(tmp_path, script) as b:
        rules = b.workspace / "AGENTS.md"
        rules.write_text("Use spaces.\n")
        async with b.engine() as engine:
            for turn in range(100):
                ended = await engine.run(f"Message {turn}.")
                assert ended.outcome == "done", ended.error
                rules.write_text(f"Use {turn} spaces.\n")
        bodies = [request.body for request in b.server.requests]
        assert {str(body["tools"]) for body in bodies} == {str(bodies[0]["tools"])}
        for before, after in pairwise(bodies):
            assert after["messages"][: len(before["messages"])] == before["messages"]
        assert "Use spaces." in str(bodies[-1]["messages"][0])
        assert b.seen(PrefixBroken) == []
        assert not b.server.refusals
