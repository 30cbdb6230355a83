"""Ceilings over whole sessions and days, with real engines, servers and stores."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.session.spending import request_table
from agent.session.spending.budget import BudgetReachedError
from tests.support.delivery import Recorded
from tests.support.engines import Bench, bench
from tests.support.faults import FAULTS
from tests.support.replies import Reply, by_step, call, refuse, say, usage_of
from tests.support.team import by_task, report

PRICES = """
providers:
  custom:
    base_url: %s
    models:
      scripted: {input_price: 1.0, output_price: 10.0, cached_price: 0.1}
      judge: {input_price: 1.0, output_price: 10.0, cached_price: 0.1}
"""


@contextmanager
def rows(b: Bench) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(b.home / "state.db")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def all_rows(b: Bench) -> list[dict[str, Any]]:
    with rows(b) as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM requests ORDER BY id")]


def tokens(found: list[dict[str, Any]]) -> int:
    return sum(row["input"] + row["output"] for row in found)


def served(recorded: Recorded, reply: Reply) -> int:
    return (usage_of(reply, len(recorded.raw)) or {})["total_tokens"]


async def test_every_request_is_written_down_with_who_made_it(tmp_path: Path) -> None:
    sent = call("delegate_task", goal="look")
    script = by_task({"main": [sent, say("Done.")], "look": [say(report())]})
    async with bench(tmp_path, script) as b:
        b.config(PRICES % b.server.base_url)
        ended = await b.turn("go", model="custom/scripted")
        found = all_rows(b)
    assert ended.outcome == "done"
    assert [row["agent"] for row in found] == ["main", "agent:", "main"]
    assert {row["session"] for row in found} == {ended.session}
    assert {row["project"] for row in found} == {str(b.workspace)}
    assert {row["model"] for row in found} == {"custom/scripted"}
    assert {row["state"] for row in found} == {"counted"}
    assert {row["day"] for row in found} <= {
        request_table.local_day(time.time() - 60),
        request_table.local_day(time.time()),
    }
    replies = [sent, say(report()), say("Done.")]
    assert tokens(found) == sum(map(served, b.server.requests, replies))
    assert all(row["cost"] > 0 for row in found)


async def test_a_refused_request_leaves_no_row_and_one_that_broke_off_counts_for_the_most(
    tmp_path: Path,
) -> None:
    cut = FAULTS["cut_by_reset"](say("Long " * 50))
    script = [refuse(503, "Busy."), cut, say("Yes.")]
    async with bench(tmp_path, script) as b:
        assert (await b.turn("go")).text == "Yes."
        found = all_rows(b)
    assert [row["state"] for row in found] == ["assumed", "counted"]
    assert found[0]["output"] == 8_192
    assert found[0]["input"] > found[1]["input"] / 2


async def test_a_turn_ends_at_the_ceiling_of_the_session_and_says_how_to_raise_it(tmp_path: Path) -> None:
    steps = by_step([call("todo_read"), call("todo_read"), say("Never.")])
    async with bench(tmp_path, steps) as b:
        b.config("budget: {session: {turns: 2}}\n")
        ended = await b.turn("go")
    assert ended.outcome == "budget"
    assert ended.error == (
        "The budget of this session is reached: 2 of 2 requests are used. To continue, raise "
        "budget.session.turns, for example with `hermes config set budget.session.turns 6`."
    )
    assert len(b.server.requests) == 2


@pytest.mark.thorough
async def test_no_token_is_spent_above_the_ceiling_of_a_session_by_whomever(tmp_path: Path) -> None:
    tasks = [{"goal": f"g{number}"} for number in range(3)]
    loops = {f"g{number}": lambda _: call("todo_read") for number in range(3)}
    steps = by_step([call("delegate_task", tasks=tasks), *[call("todo_read")] * 50])
    async with bench(tmp_path, by_task({"main": steps, **loops})) as b:
        b.config("budget: {session: {tokens: 150000}}\nsubagents: {turns: 500}\nagent: {max_turns: 500}\n")
        ended = await b.turn("go")
        found = all_rows(b)
    assert ended.outcome == "budget"
    assert "of 150,000 tokens" in ended.error
    assert tokens(found) <= 150_000
    assert len(found) == len(b.server.requests) > 4
    assert {row["agent"] for row in found} == {"main", "agent:"}


WORKER = """
import asyncio, sys
from pathlib import Path
from agent.session.options import Options
from agent.session.runtime import open_engine

async def main():
    options = Options(workspace=Path(sys.argv[1]), approve="all", resume=sys.argv[2])
    engine = await open_engine(options)
    print((await engine.run(sys.argv[3])).outcome, flush=True)
    await engine.aclose()

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_two_processes_on_one_session_keep_to_its_ceiling_together(tmp_path: Path) -> None:
    def answer(request: Any) -> Reply:
        asked = [str(each["content"]) for each in request.messages if each["role"] == "user"][-1]
        begun.add(asked)
        return say("Ready.") if asked == "zero" else replace(call("todo_read"), until=lambda: len(begun) == 3)

    begun: set[str] = set()

    async with bench(tmp_path, answer) as b:
        b.config("budget: {session: {tokens: 150000}}\nagent: {max_turns: 500}\n")
        session = (await b.turn("zero")).session
        environ = {**os.environ, "HERMES_HOME": str(b.home), "OPENAI_BASE_URL": b.server.base_url}
        environ |= {"OPENAI_API_KEY": "test-key", "HERMES_MODEL": "scripted"}
        command = (sys.executable, "-c", WORKER, str(b.workspace), session)
        started = [
            await asyncio.create_subprocess_exec(*command, text, stdout=PIPE, env=environ)
            for text in ("one", "two")
        ]
        said = [output.decode().strip() for output, _ in [await each.communicate() for each in started]]
        found = all_rows(b)
    assert said == ["budget", "budget"]
    assert {row["session"] for row in found} == {session} and {row["state"] for row in found} == {"counted"}
    assert len({row["process"] for row in found}) == 3
    assert len(found) == len(b.server.requests)
    assert 150_000 - 30_000 < tokens(found) <= 150_000


@pytest.mark.thorough
async def test_a_resumed_session_begins_with_what_it_has_spent_on_every_branch(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: say("Yes.")) as b:
        b.config("budget: {session: {turns: 3}}\n")
        first = await b.turn("one")
        async with b.engine(resume=first.session) as engine:
            await engine.run("two")
            await engine.session.store.fork(first.session, None, "other")
            await engine.session.store.use_head(first.session, "other")
        outcomes = [(await b.turn(text, resume=first.session)).outcome for text in ("three", "four")]
    assert outcomes == ["done", "budget"]
    assert len(b.server.requests) == 3


@pytest.mark.thorough
async def test_whoever_raises_the_ceiling_when_asked_lets_the_turn_go_on(tmp_path: Path) -> None:
    asked: list[BudgetReachedError] = []

    async def raise_it(error: BudgetReachedError) -> bool:
        asked.append(error)
        if error.stands is not None:
            error.stands.raise_to(error.measure, error.ceiling + 1)
        return len(asked) < 3

    steps = by_step([call("todo_read")] * 3 + [say("Done.")])
    async with bench(tmp_path, steps) as b:
        b.config("budget: {session: {turns: 2}}\n")
        async with b.engine() as engine:
            engine.metering.reached = raise_it
            ended = await engine.run("go")
    assert ended.outcome == "done"
    assert [error.ceiling for error in asked] == [2, 3]
    assert {error.setting for error in asked} == {"budget.session.turns"}


@pytest.mark.thorough
async def test_the_ceiling_of_a_day_holds_over_sessions_and_can_be_raised(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: say("Yes.")) as b:
        b.config(PRICES % b.server.base_url + "budget: {day: {money: 0.12}}\n")
        ends = [await b.turn("go", model="custom/scripted") for _ in range(2)]
        with rows(b) as connection:
            connection.execute("UPDATE requests SET cost = 0.0599")
            connection.commit()
        refused = await b.turn("go", model="custom/scripted")
        spent = all_rows(b)

        async def raise_it(error: BudgetReachedError) -> bool:
            assert error.stands is not None
            error.stands.raise_to("money", 1.0)
            return True

        async with b.engine(model="custom/scripted") as engine:
            engine.metering.reached = raise_it
            raised = await engine.run("go")
    assert [end.outcome for end in ends] == ["done", "done"]
    assert refused.outcome == "budget"
    assert "The budget of this day is reached: $0.1198 of $0.1200 are spent" in refused.error
    assert "`hermes config set budget.day.money " in refused.error
    assert len(spent) == 2
    assert raised.outcome == "done"


@pytest.mark.thorough
async def test_a_day_with_requests_of_unknown_price_is_not_let_go_on_unbounded(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: say("Yes.")) as b:
        await b.turn("go")
        b.config(PRICES % b.server.base_url + "      other: {}\nbudget: {day: {money: 100}}\n")
        with rows(b) as connection:
            connection.execute("UPDATE requests SET model = 'custom/other'")
            connection.commit()
        refused = await b.turn("go", model="custom/scripted")
    assert refused.outcome == "budget"
    assert "the price of custom/other is not known; give its prices" in refused.error


@pytest.mark.thorough
async def test_the_side_model_counts_and_at_the_ceiling_the_rules_decide(tmp_path: Path) -> None:
    judge = say('{"verdict": "allow", "reasons": []}')
    steps = by_step([call("terminal", command="ls"), say("done")])
    script = lambda sent: judge if sent.body["model"] == "judge" else steps(sent)  # noqa: E731
    async with bench(tmp_path, script) as b:
        b.config(PRICES % b.server.base_url + "safety: {smart: {model: custom/judge}}\n")
        ended = await b.turn("go", model="custom/scripted")
        found = all_rows(b)
    assert ended.outcome == "done"
    assert [row["agent"] for row in found] == ["main", "side", "main"]


async def test_a_killed_request_stays_written_down_at_the_most_it_could_take(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: say("word " * 500, pace=0.02)) as b:
        b.config("budget: {day: {tokens: 100000}}\n")
        async with b.engine() as engine:
            running = asyncio.create_task(engine.run("go"))
            while not b.server.requests:
                await asyncio.sleep(0.01)
            during = all_rows(b)
            engine.interrupt()
            await running
        after = all_rows(b)
    assert [row["state"] for row in during] == ["open"]
    assert [row["state"] for row in after] == ["assumed"]
    assert tokens(during) == tokens(after) > 8_192


async def test_the_demo_costs_nothing_and_leaves_no_rows(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        async with b.engine(model="demo", max_steps=2) as engine:
            await engine.run("hello")
        assert all_rows(b) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("ceiling", ["session", "day"])
async def test_a_request_that_cannot_be_written_down_does_not_leave(tmp_path: Path, ceiling: str) -> None:
    async with bench(tmp_path, lambda _: say("Yes.")) as b:
        b.config(f"budget: {{{ceiling}: {{tokens: 100000}}}}\n")
        async with b.engine() as engine:
            await engine.metering.spending.database.write(lambda c: c.execute("DROP TABLE requests"))
            ended = await engine.run("go")
    assert ended.outcome == "failed"
    assert "state.db cannot be used" in ended.error
    assert b.server.requests == []


async def test_a_call_costs_two_commits_and_the_record_of_its_request_comes_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The moment after which a record goes alone may pass on a busy machine.
    monkeypatch.setattr("agent.session.spending.spending.ALONG", 60.0)
    statements: list[str] = []
    seen: list[tuple[int, int]] = []

    def script(request: Recorded) -> Reply:
        with rows(b) as connection:
            (started,) = connection.execute("SELECT count(*) FROM calls").fetchone()
            (noted,) = connection.execute("SELECT count(*) FROM requests").fetchone()
        seen.append((started, noted))
        return call("todo_read") if len(seen) <= 3 else say("Done.")

    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            spending = engine.metering.spending
            await spending.database.bare(lambda c: c.set_trace_callback(statements.append))
            ended = await engine.run("look")
            await spending.database.bare(lambda c: c.set_trace_callback(None))
            charge = await spending.of_session(engine.id)
    assert ended.outcome == "done"
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert charge.turns == 4
    calls = [at for at, each in enumerate(statements) if "INTO calls" in each]
    # Of three calls: each start with its message, each result.
    assert len(calls) == 6
    assert statements[calls[0] : calls[-1]].count("BEGIN IMMEDIATE") == 5
