"""Saving the way as a skill is offered after a long task that succeeded, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import Noticed
from agent.knowledge.skills.viewing import LONG
from tests.support.engines import bench
from tests.support.replies import call, refuse, say


def looks(count: int, first: int = 0) -> list[Any]:
    return [call("terminal", command=f"echo {first + number}") for number in range(count)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("turns", "attended", "config", "expected"),
    [
        ([[*looks(LONG), say("done")]], True, "", 1),
        ([[*looks(LONG - 1), say("done")]], True, "", 0),
        ([[*looks(LONG), say("done")], [*looks(LONG, 50), say("again")]], True, "", 1),
        ([[*looks(6), say("done")], [*looks(6, 50), say("again")]], True, "", 0),
        ([[call("skill_view", name="planning"), *looks(LONG), say("done")]], True, "", 0),
        ([[*looks(LONG), refuse(400, "no")]], True, "", 0),
        ([[*looks(LONG), say("done")]], False, "", 0),
        ([[*looks(LONG), say("done")]], True, "skills:\n  offer: false\n", 0),
    ],
    ids=["long", "short", "once", "two-short", "with-a-skill", "failed", "unattended", "switched-off"],
)
async def test_the_offer_is_made_once_and_where_it_belongs(
    tmp_path: Path, turns: list[list[Any]], attended: bool, config: str, expected: int
) -> None:
    async with bench(tmp_path, [reply for turn in turns for reply in turn]) as b:
        b.config(config or "model: {}\n")
        async with b.engine(attended=attended) as engine:
            for _ in turns:
                await engine.run("go")
        assert sum("/save-skill" in each.text for each in b.seen(Noticed)) == expected
        assert "save-skill" not in str([request.body for request in b.server.requests])
