"""What the person decided for a session holds in every process that works on it later."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import CeilingReply, Decision, Event, ForecastAsked, Noticed
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError
from agent.session.spending.decisions import Decisions
from tests.agent.session.subagents.test_ceilings import LOOK, again, answering, asks, ran, sends, settings
from tests.agent.session.subagents.test_delegation import team
from tests.support.engines import Bench
from tests.support.model_server import say
from tests.support.team import report


def told(made: Bench) -> list[str]:
    return [event.text for event in made.seen(Noticed) if event.kind == "info"]


@pytest.mark.thorough
async def test_a_raised_ceiling_of_the_session_stands_when_it_is_opened_again(tmp_path: Path) -> None:
    scripts = {"main": [LOOK, LOOK, say("Done."), say("And on."), say("Never.")]}
    async with team(tmp_path, scripts, "budget: {session: {turns: 2}}\n") as made:
        first = await ran(made, again)
        assert first.outcome == "done" and [each.ceiling for each in asks(made)] == [2]
        # Four of four are used with the next turn, by a process in which nobody can be asked.
        assert (await made.turn("More.", resume=first.session)).text == "And on."
        assert (await made.turn("More.", resume=first.session)).outcome == "budget"
        made.config("budget: {session: {turns: 3}}\n")
        ended = await made.turn("More.", resume=first.session)
        assert "4 of 3 requests are used" in ended.error, "a setting that was changed counts as it is"


@pytest.mark.thorough
async def test_raised_ceilings_of_all_agents_and_of_one_stand_too(tmp_path: Path) -> None:
    scripts = {"main": sends("one"), "one": [LOOK, LOOK, LOOK, say(report("Once.")), say(report("Twice."))]}
    async with team(tmp_path, scripts, settings(turns=2, tokens=100)) as made:
        more = {"turns": 10.0, "tokens": 900_000.0}
        first = await ran(made, lambda request: CeilingReply("raised", more[request.measure]))
        assert sorted(each.setting for each in asks(made)) == ["subagents.tokens", "subagents.turns"]
        async with made.engine(resume=first.session) as engine:
            assert engine.scheduler.account.budget.tokens == 900_000
            assert engine.scheduler.run("agent-1").account.budget.turns == 10
            await engine.scheduler.resume("agent-1", "Once more.")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert after.summary == "Twice."


@pytest.mark.thorough
async def test_the_ceiling_of_a_day_is_raised_for_this_process_only(tmp_path: Path) -> None:
    scripts = {"main": [say("Done."), say("Never.")]}
    async with team(tmp_path, scripts, "budget: {day: {tokens: 100}}\n") as made:
        first = await ran(made, lambda _request: CeilingReply("raised", 900_000))
        assert (await made.turn("More.", resume=first.session)).outcome == "budget"


@pytest.mark.thorough
async def test_who_wants_no_forecasts_any_more_is_not_asked_by_later_processes(tmp_path: Path) -> None:
    scripts = {"main": [*sends("one", "two"), *sends("one", "two")], "one": [say(report())] * 2}
    scripts["two"] = scripts["one"]

    def answer(event: Event) -> None:
        if isinstance(event, ForecastAsked):
            event.reply.set_result(Decision("session"))

    async with team(tmp_path, scripts, "subagents: {forecast_tokens: 0}\n") as made:
        async with made.engine(attended=True) as engine:
            engine.stream.subscribe(answer)
            session = (await engine.run("Go.")).session
        assert len(made.seen(ForecastAsked)) == 1 and "without asking you" in told(made)[-1]
        async with made.engine(attended=True, resume=session) as engine:
            assert (await engine.run("Again.")).outcome == "done"
        assert len(made.seen(ForecastAsked)) == 1
        sent = [str(each["content"]) for each in made.server.requests[-1].messages]
        assert not any("without asking you" in text for text in sent), "no model is told"
        async with made.engine(attended=True) as engine:
            answering(engine, again)
            engine.stream.subscribe(answer)
            await engine.run("Go.")
        assert len(made.seen(ForecastAsked)) == 2, "another session asks anew"


async def test_decisions_are_found_on_whatever_branch_they_were_made(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Hi."), say("Yes.")]}, "budget: {session: {turns: 9}}\n") as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            head = engine.session.path[-1].id
            decisions = Decisions(engine.session, lambda _event: None)
            reached = BudgetReachedError(BudgetAccount("this session", Budget(turns=9)), "turns", 9, 9)
            await decisions.ceiling_raised(reached, 20, "Raised.")
            await engine.session.store.fork(engine.session.id, head, "earlier")
            await engine.session.store.use_head(engine.session.id, "earlier")
        async with made.engine(resume=engine.session.id) as engine:
            assert all("Raised." not in node.content for node in engine.session.path)
            assert engine.metering.spending.session.budget.turns == 20


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "decision", [{}, {"what": "raised"}, {"measure": "turns", "stood": "9"}, {"measure": 3}]
)
async def test_a_decision_that_cannot_be_read_changes_nothing(tmp_path: Path, decision: object) -> None:
    async with team(tmp_path, {"main": [say("Hi.")]}) as made, made.engine() as engine:
        await engine.session.add("notice", "x", {"kind": "info", "to_model": False, "decision": decision})
        decisions = Decisions(engine.session, lambda _event: None)
        await decisions.recall()
        account = BudgetAccount("this session", Budget(turns=9))
        decisions.apply("this session", account)
        assert account.budget == Budget(turns=9) and not decisions.unasked
