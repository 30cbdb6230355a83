"""Agents of other programs, as real processes that speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.events import (
    AgentEnded,
    AgentProgressed,
    ApprovalAsked,
    Decision,
    StepTaken,
    TextAdded,
    ToolFinished,
    ToolStarted,
)
from tests.agent.session.subagents.test_delegation import results, team, until
from tests.support.engines import Bench
from tests.support.model_server import call, say

PROGRAM = Path(__file__).parents[3] / "support" / "foreign_agent.py"


@asynccontextmanager
async def other(folder: Path, way: str, command: str = "") -> AsyncIterator[Bench]:
    """A bench whose settings name one other program."""
    line = command or shlex.join([sys.executable, str(PROGRAM), way])
    config = f"subagents: {{forecast_tokens: null}}\nagents: {{other: {{command: {json.dumps(line)}}}}}\n"
    script = {"main": [call("delegate_task", goal="do it", agent="other"), say("Over.")]}
    async with team(folder, script, config) as made:
        (made.workspace / "there.txt").write_text("what was there\n")
        yield made


@pytest.mark.thorough
async def test_its_files_permissions_and_words_pass_through_hermes(tmp_path: Path) -> None:
    async with other(tmp_path, "good") as made, made.engine(approve=None, attended=True) as engine:
        turn = asyncio.create_task(engine.run("Send it."))
        asked: list[ApprovalAsked] = []
        while not turn.done():
            for each in made.seen(ApprovalAsked):
                if each not in asked:
                    asked.append(each)
                    each.reply.set_result(Decision("deny" if "run.txt" in each.headline else "once"))
            await asyncio.sleep(0.01)
        assert turn.result().outcome == "done"
        (result,) = results(made)
        said = result["agents"][0]["summary"] if "agents" in result else str(result)
        assert "read what was there" in said and "wrote made.txt" in said
        # Guarded places are asked about; what a person denied was not allowed for ever either.
        assert "not config" in said and "no; yes" in said
        assert any("touch run.txt" in each.headline for each in asked)
        assert (made.workspace / "made.txt").read_text() == "made by another\n"
        assert "".join(each.text for each in made.seen(TextAdded) if each.agent != "main").startswith(
            "Outcome"
        )
        begun = [each.display.subject for each in made.seen(ToolStarted) if each.agent != "main"]
        ended = [each.outcome for each in made.seen(ToolFinished) if each.agent != "main"]
        assert begun == ["look around", "touch run.txt", "edit"]
        assert ended == ["done", "denied", "interrupted"]
        # What it wrote without asking is in the step as well, so that it can be taken back.
        (step,) = [each for each in made.seen(StepTaken) if each.agent != "main"]
        assert {"made.txt", "unasked.txt"} <= set(step.paths)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("way", "command", "cause"),
    [
        ("", "/nowhere/at/all", "there is no program"),
        ("dies", "", "no licence found"),
        ("sign-in", "", "signed in"),
        ("leaves", "", "ended with 3 before it answered"),
    ],
)
async def test_what_goes_wrong_is_one_sentence(way: str, command: str, cause: str, tmp_path: Path) -> None:
    async with other(tmp_path, way, command) as made:
        assert (await made.turn("Send it.")).outcome == "done"
        (ended,) = made.seen(AgentEnded)
        assert ended.outcome == "failed" and cause in str(results(made)), results(made)
        # Nobody knows what a program spends before it says so.
        assert {(each.tokens, each.cost) for each in [*made.seen(AgentProgressed), ended]} == {(None, None)}
        assert "Traceback" not in str(results(made))


@pytest.mark.thorough
async def test_one_that_hangs_is_stopped_with_its_turn(tmp_path: Path) -> None:
    async with other(tmp_path, "hangs") as made, made.engine() as engine:
        turn = asyncio.create_task(engine.run("Send it."))
        await until(made, lambda: any(each.agent != "main" for each in made.seen(TextAdded)))
        engine.interrupt()
        assert (await turn).outcome == "interrupted"
        assert (made.workspace / "cancelled.txt").exists()
        # What it started in a session of its own, as agents do with a shell, ends with it.
        stat = Path("/proc", (made.workspace / "shell.pid").read_text(), "stat")
        await until(made, lambda: not stat.exists() or stat.read_text().split(") ")[1][0] == "Z")
