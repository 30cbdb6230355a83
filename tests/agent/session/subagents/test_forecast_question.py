"""What the person is asked before agents are sent: through the whole engine, against the scripted model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    AgentProgressed,
    AgentStarted,
    ApprovalAsked,
    Decision,
    ForecastAsked,
    RequestResolved,
    TurnEnded,
)
from agent.session.engine import Engine
from agent.session.spending.request_table import tokens_of_ended
from agent.session.subagents.agent_table import ENDED
from agent.session.subagents.forecast import FEW
from tests.agent.session.subagents.test_delegation import asked, results, team, until
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.team import report

ALWAYS = "subagents: {forecast_tokens: 0}\n"
TWO = [{"goal": "one"}, {"goal": "two"}]


def scripts(*calls: Any, **more: Any) -> dict[str, Any]:
    sends = calls or (call("delegate_task", tasks=TWO),)
    done = [say(report())] * 3
    return {"main": [*sends, say("Over.")], "one": done, "two": done, **more}


def cards(made: Bench) -> list[ForecastAsked]:
    return made.seen(ForecastAsked)


def answering(engine: Engine, *choices: Decision) -> None:
    """Answer what is asked, in order."""
    left = list(choices)

    def answer(event: Any) -> None:
        if isinstance(event, ForecastAsked):
            event.reply.set_result(left.pop(0))
        elif isinstance(event, ApprovalAsked):
            event.reply.set_result(Decision("once"))

    engine.stream.subscribe(answer)


async def ran(made: Bench, *choices: Decision, **options: Any) -> TurnEnded:
    async with made.engine(**{"attended": True, **options}) as engine:
        answering(engine, *choices)
        return await engine.run("Go.")


def rulings(made: Bench) -> list[Mapping[str, Any]]:
    lines = (made.home / "audit" / "audit-000001.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.thorough
async def test_a_large_fan_out_waits_until_the_person_has_seen_what_it_may_take(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), "budget: {session: {tokens: 900000}}\n") as made:
        async with made.engine(attended=True) as engine:
            engine.submit("Go.")
            await until(made, lambda: cards(made))
            (card,) = cards(made)
            assert made.seen(AgentStarted) == [] and asked(made, "one") == 0
            assert card.agent == "main" and card.forecast.goals == ("one", "two")
            assert card.forecast.models == (("custom/scripted", 2),)
            assert 0 < card.forecast.tokens.low < card.forecast.tokens.high <= 900_000
            assert card.forecast.money is None and card.forecast.from_past == 0
            rooms = [(room.owner, room.measure, room.ceiling) for room in card.rooms]
            assert rooms == [
                ("all agents of this session", "tokens", 2_000_000),
                ("this session", "tokens", 900_000),
            ]
            assert card.rooms[0].left == 2_000_000 and 0 < card.rooms[1].left < 900_000
            card.reply.set_result(Decision("once"))
            await engine.idle()
        assert results(made)[0]["outcome"] == "completed"
        assert [event.outcome for event in made.seen(RequestResolved)] == ["once"]


async def test_a_no_sends_nobody_and_tells_the_model_why(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), ALWAYS) as made:
        await ran(made, Decision("deny", "look yourself"))
        (result,) = results(made)
        assert result["error"] == "The user does not want these agents to be sent. They say: look yourself"
        assert made.seen(AgentStarted) == [] and asked(made, "one") == asked(made, "two") == 0


@pytest.mark.thorough
async def test_once_asks_again_and_for_the_session_asks_no_more(tmp_path: Path) -> None:
    sends = [call("delegate_task", goal="one")] * 3
    async with team(tmp_path, scripts(*sends), ALWAYS) as made:
        await ran(made, Decision("once"), Decision("session"))
        assert len(cards(made)) == 2
        assert [each["outcome"] for each in results(made)] == ["completed"] * 3


@pytest.mark.thorough
@pytest.mark.parametrize("threshold", ["null", "100000000"])
async def test_below_the_threshold_nobody_is_asked(tmp_path: Path, threshold: str) -> None:
    async with team(tmp_path, scripts(), f"subagents: {{forecast_tokens: {threshold}}}\n") as made:
        await ran(made)
        assert cards(made) == [] and results(made)[0]["outcome"] == "completed"


@pytest.mark.thorough
async def test_a_lone_agent_is_not_asked_about_on_a_guess(tmp_path: Path) -> None:
    lone = scripts(call("delegate_task", goal="one"))
    async with team(tmp_path, lone, "subagents: {forecast_tokens: 1}\n") as made:
        await ran(made)
        assert cards(made) == [] and asked(made, "one") == 1


@pytest.mark.thorough
async def test_one_card_is_enough_where_the_mode_would_ask_for_each_agent(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), ALWAYS) as made:
        await ran(made, Decision("once"), approve="careful")
        assert len(cards(made)) == 1 and made.seen(ApprovalAsked) == []
        sent = [each for each in rulings(made) if each["kind"] == "SpawnAgent"]
        assert [(each["judge"], each["outcome"]) for each in sent] == [("person", "allowed")] * 2


@pytest.mark.thorough
async def test_without_a_card_the_mode_asks_for_each_agent_as_ever(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), "subagents: {forecast_tokens: null}\n") as made:
        await ran(made, approve="careful")
        assert cards(made) == [] and len(made.seen(ApprovalAsked)) == 2


async def test_agents_that_a_rule_forbids_are_not_asked_about(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), ALWAYS) as made:
        (made.home / "permissions.yaml").write_text("rules:\n  delegate_task: deny\n")
        await ran(made, approve="normal")
        assert cards(made) == [] and "error" in results(made)[0]
        assert made.seen(AgentStarted) == []


async def test_an_interrupt_withdraws_the_question_and_sends_nobody(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), ALWAYS) as made, made.engine(attended=True) as engine:
        engine.submit("Go.")
        await until(made, lambda: cards(made))
        engine.interrupt()
        await engine.idle()
        assert [event.outcome for event in made.seen(RequestResolved)] == ["cancelled"]
        assert made.seen(AgentStarted) == [] and made.seen(TurnEnded)[-1].outcome == "interrupted"


@pytest.mark.thorough
async def test_nobody_there_sends_what_a_ceiling_bounds(tmp_path: Path) -> None:
    async with team(tmp_path, scripts(), ALWAYS) as made:
        await made.turn("Go.")
        assert cards(made) == [] and results(made)[0]["outcome"] == "completed"


@pytest.mark.thorough
@pytest.mark.parametrize("own", [True, False])
async def test_nobody_there_sends_nothing_unbounded_unless_each_has_a_budget(
    tmp_path: Path, own: bool
) -> None:
    sends = call("delegate_task", tasks=TWO, budget={"tokens": 400_000} if own else {})
    async with team(tmp_path, scripts(sends), "subagents: {forecast_tokens: 0, tokens: null}\n") as made:
        await made.turn("Go.")
        (result,) = results(made)
        assert result.get("outcome") == "completed" if own else "no ceiling bounds them" in result["error"]


@pytest.mark.thorough
async def test_an_agent_that_sends_others_is_named_and_shown_as_waiting(tmp_path: Path) -> None:
    middle = [call("delegate_task", goal="one"), say(report())]
    all_of_them = scripts(call("delegate_task", goal="middle"), middle=middle)
    async with team(tmp_path, all_of_them, ALWAYS) as made, made.engine(attended=True) as engine:
        engine.submit("Go.")
        await until(made, lambda: len(cards(made)) == 1)
        cards(made)[0].reply.set_result(Decision("once"))
        await until(made, lambda: len(cards(made)) == 2)
        card = cards(made)[1]
        assert card.agent == "agent-1" and card.rooms[0].owner == "all agents of this session"
        assert made.seen(AgentProgressed)[-1].state == "waiting"
        run = engine.scheduler.run("agent-1")
        assert run.waiting == 1
        card.reply.set_result(Decision("once"))
        await engine.idle()
        assert run.report is not None and run.report.outcome == "completed"
        assert run.waiting == 0


@pytest.mark.thorough
async def test_the_budget_of_a_call_bounds_what_is_foreseen(tmp_path: Path) -> None:
    sends = call("delegate_task", tasks=TWO, budget={"tokens": 30_000})
    async with team(tmp_path, scripts(sends), ALWAYS) as made:
        await ran(made, Decision("once"))
        assert cards(made)[0].forecast.tokens.high <= 60_000


@pytest.mark.thorough
async def test_agents_that_have_ended_tell_what_others_take(tmp_path: Path) -> None:
    sends = call("delegate_task", tasks=[{"goal": "one"}] * FEW)
    async with team(tmp_path, scripts(sends), ALWAYS) as made:
        async with made.engine(attended=True) as engine:
            answering(engine, Decision("once"), Decision("once"))
            await engine.run("Go.")
            database = engine.session.store.database
            taken = await database.read(lambda connection: tokens_of_ended(connection, ENDED))
            reports = [run.report for run in engine.scheduler.runs() if run.report]
            assert sorted(taken) == sorted(each.usage.tokens for each in reports) and len(taken) == FEW
        guess, learned = cards(made)[0], None
        made.server.requests.clear()
        made.events.clear()
        await ran(made, Decision("once"))
        learned = cards(made)[0]
        assert guess.forecast.from_past == 0 and learned.forecast.from_past == FEW
        assert learned.forecast.tokens.high < guess.forecast.tokens.high


async def test_goals_carry_no_control_bytes_to_the_person(tmp_path: Path) -> None:
    goal = "look\x1b]52;c;aGk=\x07 here"
    async with team(tmp_path, scripts(call("delegate_task", goal=goal)), ALWAYS) as made:
        await ran(made, Decision("deny"))
        assert cards(made)[0].forecast.goals == ("look here",)
        assert json.loads(json.dumps(cards(made)[0].to_json()))["forecast"]["goals"] == ["look here"]
