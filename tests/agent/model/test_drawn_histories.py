"""No demand on the form of a request ends a session: each one alone, and histories drawn by lot."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.model.dialect import names
from tests.support.demands import DEMANDS, Demand
from tests.support.dialect_walk import OF_DIALECTS, DialectWalk, draw_models
from tests.support.thorough import thoroughly

NAMED = [*(each for each in names() if each != "default"), "openai-responses"]


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda each: each.name)
async def test_what_a_server_insists_on_is_done(tmp_path: Path, demand: Demand) -> None:
    walk = DialectWalk(tmp_path, 5, {"strict": ("default", (demand,)), "other": ("default", ())})
    await walk.run(10)
    assert walk.undeclared() == []
    assert walk.most <= 5
    # What was learned holds: few requests are refused, and none for the same reason without end.
    assert len(walk.refused) <= 8, walk.refused


@pytest.mark.parametrize(
    "seeds", [range(12), *thoroughly(*(range(at, at + 50) for at in range(100, 1_100, 50)))]
)
async def test_drawn_histories_go_on_with_every_model(tmp_path: Path, seeds: range) -> None:
    stuck = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        walk = DialectWalk(folder, seed, draw_models(seed, NAMED))
        try:
            await walk.run(6)
        except Exception as error:
            stuck.append((seed, str(error), walk.refused[-6:]))
            continue
        assert (seed, walk.undeclared()) == (seed, [])
    assert stuck == []


def test_every_dialect_has_a_strict_server() -> None:
    assert set(OF_DIALECTS) == set(names()) - {"default", "anthropic"}
    assert {each for some in OF_DIALECTS.values() for each in some} <= {each.name for each in DEMANDS}
