"""No model output can break a session: any fault, cut at any byte, leaves one that continues."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from agent.events import ToolFinished, ToolStarted
from tests.support.cuts import BASE, Broken, cut, survives
from tests.support.engines import bench
from tests.support.faults import FAULTS
from tests.support.replies import by_step, calls, say

CONFIG = "model: {retries: 0}\n"
IMPATIENT = "model: {retries: 0, stall_timeout: 1.0}\n"
"""For answers that do not come; on a busy machine a whole one can take as long."""
STALLED = [name for name, fault in FAULTS.items() if fault.effect == "timeout"]
COMING = [name for name in FAULTS if name not in STALLED]
PER_SESSION = 22
"""Broken turns of one session."""


@pytest.mark.thorough
@pytest.mark.timeout(300)
async def test_every_fault_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    script = Broken()
    # Each request has all messages before it, so a new session is begun now and then.
    sessions = [(CONFIG, COMING[first : first + PER_SESSION]) for first in range(0, len(COMING), PER_SESSION)]
    sessions.append((IMPATIENT, STALLED))
    problems: dict[str, str] = {}
    async with bench(tmp_path, script) as b:
        for config, names in sessions:
            b.config(config)
            async with b.engine() as engine:
                for name in names:
                    problems[name] = await survives(b, engine, script, FAULTS[name](BASE))
    assert problems.keys() == FAULTS.keys()
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cuts", [16, pytest.param(400, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("how", ["fin", "rst", "clean"])
async def test_a_stream_cut_at_any_byte_leaves_a_session_that_goes_on(
    tmp_path: Path, how: str, cuts: int
) -> None:
    chance = random.Random(how)
    script = Broken()
    problems = {}
    async with bench(tmp_path, script) as b:
        b.config(CONFIG)
        async with b.engine() as engine:
            for number in range(cuts):
                name, at = chance.choice(COMING), int((number + chance.random()) * 2_500 / cuts)
                problem = await survives(b, engine, script, cut(name, at, how))  # type: ignore[arg-type]
                if problem:
                    problems[name, at] = problem
    assert problems == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("piece", ["a", "no such\ntool ", "\x1b[2J"], ids=["letters", "lines", "codes"])
async def test_the_error_for_an_endless_tool_name_is_one_short_line(tmp_path: Path, piece: str) -> None:
    async with bench(tmp_path, by_step([calls((piece * 6_000, {})), say("done")])) as b:
        await b.turn("go")
        (started,), (finished,) = b.seen(ToolStarted), b.seen(ToolFinished)
        error = json.loads(finished.result)["error"]
        beginning, _, offered = error.partition(". Tools on offer: ")
        assert len(beginning) < 100 and "read_file" in offered
        shown = (error, started.tool, finished.tool, started.display.verb, finished.display.summary)
        assert all(text.isprintable() and len(text) < 1_000 for text in shown)
