"""Random trees of agents, with everything that can go wrong: no ceiling is exceeded, nothing is left."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent_storm import storm


async def test_random_trees_of_agents_keep_every_ceiling(tmp_path: Path) -> None:
    found = await storm(tmp_path, runs=12, seed=5, wave=6)
    assert found.runs == 12
    assert found.agents > 12
    assert found.is_good, found
