"""Agents outlive the process that sent them: they are found, marked, and continue where they stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.events import AgentEnded, AgentStarted
from agent.session.spending.metering import RequestTally
from tests.agent.session.subagents.test_delegation import asked, results, team, until
from tests.support.command import ROOT
from tests.support.engines import Bench
from tests.support.fanout_storm import Moment, fan_out
from tests.support.hanging import told_by
from tests.support.model_server import call, say
from tests.support.replies import Reply
from tests.support.team import report, task_of

WORKER = """
import asyncio, sys
from pathlib import Path
from agent.session.options import Options
from agent.session.runtime import open_engine

async def main():
    engine = await open_engine(Options(workspace=Path(sys.argv[1]), approve="all"))
    print(engine.session.id, flush=True)
    await engine.run("Go.")

asyncio.run(main())
"""


async def killed_while(made: Bench, wanted: Any) -> str:
    """The session of a process that was killed at the moment when `wanted` became true."""
    environ = {
        **os.environ,
        "HERMES_HOME": str(made.home),
        "OPENAI_BASE_URL": made.server.base_url,
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(made.workspace), stdout=asyncio.subprocess.PIPE, env=environ
    )
    assert process.stdout is not None
    session = (await process.stdout.readline()).decode().strip()
    try:
        await until(made, wanted)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    return session


@pytest.mark.thorough
async def test_after_a_kill_agents_are_marked_as_interrupted_and_go_on_without_paying_twice(
    tmp_path: Path,
) -> None:
    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 0:
            return call("write_file", path="first.txt", content="1")
        if "Continue where you stopped" in str(request.messages[-1]["content"]):
            return say(report("Went on."))
        return say("word " * 4_000, pace=0.02)

    tasks = [{"goal": "child"}, {"goal": "quick"}]
    scripts = {
        "main": [call("delegate_task", tasks=tasks), say("Resumed.")],
        "child": child,
        "quick": [say(report("Quick."))],
    }
    async with team(tmp_path, scripts) as made:
        session = await killed_while(made, lambda: asked(made, "child") >= 2 and asked(made, "quick"))
        await asyncio.sleep(0.2)
        first = next(request for request in made.server.requests if task_of(request) == "child")
        async with made.engine(resume=session) as engine:
            states = {run.id: run.standing for run in engine.scheduler.runs()}
            assert states["agent-1"] == "interrupted"
            assert states["agent-2"] in ("completed", "interrupted")
            run = engine.scheduler.run("agent-1")
            before = run.tally.tokens
            assert run.report is not None and run.report.error == "Hermes ended while it worked."
            assert run.tally.input > 0 and run.tally.assumed > 0
            assert engine.scheduler.account.spent.tokens >= before
            sent = len(made.server.requests)
            await engine.scheduler.resume("agent-1")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert (after.outcome, after.summary) == ("completed", "Went on.")
            assert "first.txt" in after.files or (made.workspace / "first.txt").exists()
            assert len(made.server.requests) == sent + 1
            assert after.usage.tokens > before
            again = made.server.requests[-1]
            assert again.messages[: len(first.messages)] == first.messages
        assert made.server.refusals == []


@pytest.mark.thorough
async def test_the_model_is_told_of_agents_that_were_cut_off(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="child"), say("I know.")],
        "child": lambda _: say("word " * 4_000, pace=0.02),
    }
    async with team(tmp_path, scripts) as made:
        session = await killed_while(made, lambda: asked(made, "child"))
        async with made.engine(resume=session) as engine:
            assert [event.agent for event in made.seen(AgentStarted)] == ["agent-1"]
            assert [event.outcome for event in made.seen(AgentEnded)] == ["interrupted"]
            assert (await engine.run("What now?")).text == "I know."
        texts = [str(message["content"]) for message in made.server.requests[-1].messages]
        assert any("agent-1 are marked as interrupted" in text for text in texts)
        async with made.engine(resume=session) as engine:
            await engine.run("And?")
        # Told once.
        texts = [str(message["content"]) for message in made.server.requests[-1].messages]
        assert sum("marked as interrupted" in text for text in texts) == 1


async def test_closing_the_session_interrupts_agents_and_they_are_known_next_time(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="child", background=True), say("Later.")],
        "child": [call("read_file", path="a"), lambda _: say("word " * 4_000, pace=0.02)],
    }
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            ended = await engine.run("Go.")
            await until(made, lambda: asked(made, "child") == 2)
        async with made.engine(resume=ended.session) as engine:
            assert engine.scheduler.run("agent-1").standing == "interrupted"
            assert engine.scheduler.run("agent-1").tally != RequestTally()
            assert engine.scheduler.run("agent-1").calls == 1
        assert results(made)[0]["started"] == ["agent-1"]


@pytest.mark.thorough
async def test_an_agent_that_was_cut_off_before_it_began_hears_its_task_when_it_goes_on(
    tmp_path: Path,
) -> None:
    waiting = {"goal": "second", "context": "Mind the yen."}
    scripts = {
        "main": [call("delegate_task", tasks=[{"goal": "first"}, waiting])],
        "first": lambda _: say("word " * 4_000, pace=0.02),
        "second": [say(report("Done after all."))],
    }
    async with team(tmp_path, scripts, "subagents: {at_once: 1}\n") as made:
        session = await killed_while(made, lambda: asked(made, "first"))
        async with made.engine(resume=session) as engine:
            await engine.scheduler.resume("agent-2", "Be quick.")
            (after,) = await engine.scheduler.wait(["agent-2"])
            assert (after.outcome, after.summary) == ("completed", "Done after all.")
        task, words = [str(m["content"]) for m in made.server.requests[-1].messages if m["role"] == "user"]
        assert task.startswith("Your task: second") and "Mind the yen." in task
        assert words == "Be quick."


HANGING = """
import asyncio, sys
from pathlib import Path
from tests.support.hanging import tell_on_signal

async def forever_and_a_day():
    await asyncio.Event().wait()

async def main():
    asyncio.create_task(forever_and_a_day(), name="agent-7")
    print("ready", flush=True)
    await asyncio.sleep(600)

tell_on_signal(Path(sys.argv[1]))
asyncio.run(main())
"""


async def test_a_process_that_hangs_tells_where_its_tasks_wait(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HANGING, str(tmp_path / "told"), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        said = await told_by(process.pid, tmp_path / "told")
    finally:
        process.kill()
        await process.wait()
    assert "task agent-7:" in said and "forever_and_a_day" in said


@pytest.mark.thorough
async def test_a_fan_out_that_is_killed_goes_on_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    kill = await fan_out(tmp_path, 2, [Moment(12, 0.02)])
    assert kill.problems == ()
    assert kill.kills == 1 and kill.cut_off > 0


@pytest.mark.thorough
@pytest.mark.timeout(600)
async def test_eight_kills_in_a_fan_out_lose_nothing(tmp_path: Path) -> None:
    for seed in range(10, 14):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance = Random(seed)
        moments = [Moment(chance.randint(0, 25), chance.uniform(0, 0.2)) for _ in range(2)]
        assert (await fan_out(folder, seed, moments)).problems == ()
