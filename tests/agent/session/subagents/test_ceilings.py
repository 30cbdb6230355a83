"""What becomes of a ceiling that stands in the way: through the whole engine, against the scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    AgentEnded,
    AgentProgressed,
    CeilingAsked,
    CeilingReply,
    Noticed,
    RequestResolved,
    ToolFinished,
    TurnEnded,
)
from agent.session.engine import Engine
from tests.agent.session.subagents.test_delegation import asked, results, team, until
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.team import report

Reply = Callable[[CeilingAsked], CeilingReply]
LOOK = call("todo_read")
SLOW = call("terminal", command="sleep 60")


def again(request: CeilingAsked) -> CeilingReply:
    return CeilingReply("raised", request.again)


def stop(_request: CeilingAsked) -> CeilingReply:
    return CeilingReply("stopped")


def settings(**subagents: Any) -> str:
    pairs = ", ".join(f"{name}: {value}" for name, value in {"forecast_tokens": "null", **subagents}.items())
    return f"subagents: {{{pairs}}}\n"


def sends(*goals: str, **more: Any) -> list[Any]:
    return [call("delegate_task", tasks=[{"goal": goal, **more} for goal in goals]), say("Over.")]


def asks(made: Bench) -> list[CeilingAsked]:
    return made.seen(CeilingAsked)


def answering(engine: Engine, reply: Reply) -> None:
    def answer(event: Any) -> None:
        if isinstance(event, CeilingAsked):
            event.reply.set_result(reply(event))

    engine.stream.subscribe(answer)


async def ran(made: Bench, reply: Reply) -> TurnEnded:
    async with made.engine(attended=True) as engine:
        answering(engine, reply)
        return await engine.run("Go.")


@pytest.mark.thorough
async def test_a_ceiling_of_all_agents_is_raised_and_the_agent_goes_on(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [LOOK, say(report())]}
    async with team(tmp_path, scripts, settings(tokens=10_000)) as made:
        await ran(made, again)
        (result,) = results(made)[-1]["results"]
        assert result["outcome"] == "completed"
        first = asks(made)[0]
        assert (first.agent, first.owner, first.measure) == (
            "agent-1",
            "all agents of this session",
            "tokens",
        )
        assert (first.ceiling, first.again % 10_000, first.setting) == (10_000, 0, "subagents.tokens")
        assert first.used + first.needed > 10_000 and first.again >= first.used + first.needed
        ceilings = [each.ceiling for each in asks(made)]
        assert ceilings == sorted(set(ceilings))
        assert "from 10,000 tokens to " in made.seen(Noticed)[0].text


@pytest.mark.thorough
async def test_a_stop_ends_the_agent_with_what_there_is(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [call("todo_read", text="I found half."), say(report())]}
    async with team(tmp_path, scripts, settings(turns=2)) as made:
        await ran(made, stop)
        (result,) = results(made)[-1]["results"]
        assert result["outcome"] == "budget" and len(asks(made)) == 1
        assert asks(made)[0].setting == "subagents.turns"


@pytest.mark.thorough
async def test_an_agent_that_has_used_up_its_requests_goes_on_with_more(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [LOOK, LOOK, LOOK, LOOK, say(report())]}
    async with team(tmp_path, scripts, settings(turns=3)) as made:
        await ran(made, again)
        (result,) = results(made)[-1]["results"]
        assert result["outcome"] == "completed" and asked(made, "one") == 5
        assert [each.ceiling for each in asks(made)] == [3]


@pytest.mark.thorough
async def test_one_answer_ends_all_that_reach_the_same_ceiling(tmp_path: Path) -> None:
    goals = ("one", "two", "three")
    scripts: dict[str, Any] = {goal: [say(report())] for goal in goals}
    scripts["main"] = sends(*goals)
    async with team(tmp_path, scripts, settings(tokens=100)) as made:
        await ran(made, stop)
        assert [each["outcome"] for each in results(made)[-1]["results"]] == ["budget"] * 3
        assert len(asks(made)) == 1


@pytest.mark.thorough
async def test_one_raise_lets_all_go_on_that_wait_for_it(tmp_path: Path) -> None:
    goals = ("one", "two", "three")
    scripts: dict[str, Any] = {goal: [say(report())] for goal in goals}
    scripts["main"] = sends(*goals)
    async with team(tmp_path, scripts, settings(tokens=100)) as made:
        await ran(made, lambda request: CeilingReply("raised", 900_000))
        assert [each["outcome"] for each in results(made)[-1]["results"]] == ["completed"] * 3
        assert len(asks(made)) == 1


async def test_a_budget_that_a_sender_chose_ends_without_a_question(tmp_path: Path) -> None:
    scripts = {"main": sends("one", budget={"tokens": 100}), "one": [say(report())]}
    async with team(tmp_path, scripts, settings()) as made:
        await ran(made, again)
        (result,) = results(made)[-1]["results"]
        assert result["outcome"] == "budget" and asks(made) == []
        assert "hermes config set" not in result["reason"]


@pytest.mark.thorough
async def test_nobody_there_is_asked_nothing(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [say(report())]}
    async with team(tmp_path, scripts, settings(tokens=100)) as made:
        await made.turn("Go.")
        assert results(made)[-1]["results"][0]["outcome"] == "budget" and asks(made) == []


@pytest.mark.thorough
async def test_the_agent_that_asks_waits_while_others_go_on(tmp_path: Path) -> None:
    scripts = {
        "main": sends("one", "two"),
        "one": [LOOK, LOOK, say(report())],
        "two": [say(report("Two is done."))],
    }
    async with team(tmp_path, scripts, settings(turns=2)) as made, made.engine(attended=True) as engine:
        engine.submit("Go.")
        await until(made, lambda: asks(made) and made.seen(AgentEnded))
        assert [event.agent for event in made.seen(AgentEnded)] == ["agent-2"]
        states = [event.state for event in made.seen(AgentProgressed) if event.agent == "agent-1"]
        assert states[-1] == "waiting"
        asks(made)[0].reply.set_result(CeilingReply("raised", 10))
        await engine.idle()
        assert results(made)[-1]["outcome"] == "completed"


@pytest.mark.thorough
async def test_a_kill_withdraws_the_question(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [say(report())]}
    async with team(tmp_path, scripts, settings(tokens=100)) as made:
        async with made.engine(attended=True) as engine:
            engine.submit("Go.")
            await until(made, lambda: asks(made))
            ended = await engine.scheduler.kill("agent-1")
            await engine.idle()
        assert ended.outcome == "killed" and asked(made, "one") == 0
        assert [event.outcome for event in made.seen(RequestResolved)] == ["cancelled"]


@pytest.mark.thorough
async def test_a_kill_leaves_the_question_to_the_next_that_waits(tmp_path: Path) -> None:
    scripts = {"main": sends("one", "two"), "one": [say(report())], "two": [say(report())]}
    async with team(tmp_path, scripts, settings(tokens=100)) as made:
        async with made.engine(attended=True) as engine:
            engine.submit("Go.")
            await until(made, lambda: asks(made))
            await until(made, lambda: all(run.waiting for run in engine.scheduler.runs()))
            await engine.scheduler.kill(asks(made)[0].agent)
            await until(made, lambda: len(asks(made)) == 2)
            asks(made)[1].reply.set_result(CeilingReply("raised", 900_000))
            await engine.idle()
        outcomes = sorted(each["outcome"] for each in results(made)[-1]["results"])
        assert outcomes == ["completed", "killed"]


@pytest.mark.thorough
@pytest.mark.parametrize("reply", [again, stop])
async def test_time_that_is_over_is_asked_about_too(tmp_path: Path, reply: Reply) -> None:
    scripts = {"main": sends("one"), "one": [SLOW, say(report())]}
    async with team(tmp_path, scripts, settings(seconds=0.3)) as made:
        async with made.engine(attended=True) as engine:
            engine.submit("Go.")
            await until(made, lambda: asks(made))
            (asking,) = asks(made)
            assert (asking.measure, asking.setting) == ("seconds", "subagents.seconds")
            if reply is stop:
                asking.reply.set_result(stop(asking))
                await engine.idle()
                assert results(made)[-1]["results"][0]["outcome"] == "budget"
                return
            asking.reply.set_result(CeilingReply("raised", 600.0))
            await until(made, lambda: not engine.scheduler.run("agent-1").waiting)
            await asyncio.sleep(0.5)
            assert not engine.scheduler.run("agent-1").is_over
            engine.interrupt()
            await engine.idle()


async def test_the_ceiling_of_the_session_is_raised_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, LOOK, say("Done.")]}
    async with team(tmp_path, scripts, "budget: {session: {turns: 2}}\n") as made:
        ended = await ran(made, again)
        assert (ended.outcome, ended.text) == ("done", "Done.")
        (asking,) = asks(made)
        assert (asking.agent, asking.owner, asking.ceiling, asking.again) == ("main", "this session", 2, 4)
        assert asking.setting == "budget.session.turns"


async def test_a_session_that_stops_at_its_ceiling_asks_again_in_the_next_turn(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, LOOK, say("Done.")]}
    async with team(tmp_path, scripts, "budget: {session: {turns: 1}}\n") as made:
        async with made.engine(attended=True) as engine:
            answering(engine, stop)
            first = await engine.run("Go.")
            assert first.outcome == "budget" and len(asks(made)) == 1
            await engine.run("And now?")
            assert len(asks(made)) == 2


@pytest.mark.thorough
async def test_the_ceiling_of_the_day_is_raised_too(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, say("Done.")]}
    async with team(tmp_path, scripts, "budget: {day: {tokens: 100}}\n") as made:
        ended = await ran(made, lambda request: CeilingReply("raised", 900_000))
        assert ended.outcome == "done" and len(asks(made)) == 1
        assert (asks(made)[0].owner, asks(made)[0].setting) == ("this day", "budget.day.tokens")


async def test_a_price_that_is_not_known_is_no_question_of_more(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, say("Done.")]}
    async with team(tmp_path, scripts, "budget: {session: {money: 1}}\n") as made:
        ended = await ran(made, again)
        assert ended.outcome == "budget" and asks(made) == []
        assert made.seen(ToolFinished) == []


async def test_an_interrupt_withdraws_the_question_of_the_session(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, say("Done.")]}
    async with team(tmp_path, scripts, "budget: {session: {turns: 1}}\n") as made:
        async with made.engine(attended=True) as engine:
            engine.submit("Go.")
            await until(made, lambda: asks(made))
            engine.interrupt()
            await engine.idle()
        assert [event.outcome for event in made.seen(RequestResolved)] == ["cancelled"]
        assert made.seen(TurnEnded)[-1].outcome == "interrupted"
