"""What was sent stays as it was sent, whatever is written beside the conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.events import PrefixBroken, ToolFinished
from tests.support.engines import bench
from tests.support.model_server import Reply, call, say

CALLS: list[Callable[[int], Reply]] = [
    lambda turn: call("memory", target="memory", action="add", content=f"fact {turn} of the shop"),
    lambda _turn: call("skills_list"),
    lambda turn: call("memory", target="user", action="add", content=f"likes {turn}"),
    lambda turn: call(
        "save_learning", pattern=f"make part-{turn}", error_type="missing", fix=f"make all-{turn}"
    ),
    lambda turn: call("skill_view", name=("planning", "debugging", "test-first")[turn % 3]),
    lambda turn: call("read_file", path=f"part{turn - 2}/missing.txt"),
    lambda turn: call("skill_manage", action="create", name=f"way-{turn}", content=SKILL.format(turn=turn)),
    lambda _turn: say("Yes."),
]
"""What a turn begins with: each kind of write beside the conversation, and a look at what was written."""

WRITERS = ("memory", "skills_list", "memory", "save_learning", "skill_view", "", "skill_manage", "")
"""The tools of these calls that do what they are asked for."""

SKILL = """---
name: way-{turn}
description: How step {turn} is done. Use it when step {turn} is to be done.
---
Do step {turn}, then look at what came of it.
"""


@pytest.mark.parametrize("turns", [40, pytest.param(100, marks=pytest.mark.thorough)])
async def test_many_turns_with_writes_of_all_kinds_leave_the_prefix_as_it_was(
    tmp_path: Path, turns: int
) -> None:
    def script(request: Any) -> Reply:
        last = request.messages[-1]
        if last["role"] == "tool":
            return say("Noted.")
        turn = sum(message["role"] == "user" for message in request.messages)
        return CALLS[turn % len(CALLS)](turn)

    async with bench(tmp_path, script) as b:
        rules = b.workspace / "AGENTS.md"
        rules.write_text("Use spaces.\n")
        async with b.engine() as engine:
            for turn in range(turns):
                ended = await engine.run(f"Message {turn}.")
                assert ended.outcome == "done", ended.error
                rules.write_text(f"Use {turn} spaces.\n")
                (b.workspace / f"part{turn}").mkdir()
                (b.workspace / f"part{turn}" / "AGENTS.md").write_text(f"Part {turn} has rules of its own.\n")
        bodies = [request.body for request in b.server.requests]
        assert {str(body["tools"]) for body in bodies} == {str(bodies[0]["tools"])}
        for before, after in pairwise(bodies):
            assert after["messages"][: len(before["messages"])] == before["messages"]
        assert "Use spaces." in str(bodies[-1]["messages"][0])
        assert b.seen(PrefixBroken) == []
        outcomes = Counter((each.tool, each.outcome) for each in b.seen(ToolFinished))
        done = Counter(WRITERS[turn % len(CALLS)] for turn in range(1, turns + 1)) - Counter({"": turns})
        assert {tool: outcomes[tool, "done"] for tool in done} == done, outcomes
        assert "Part 3 has rules of its own." in str(bodies[-1]["messages"][1:])
        assert not b.server.refusals
