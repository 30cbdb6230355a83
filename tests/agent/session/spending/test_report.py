"""What was spent, added up: every grouping gives the same total, and that of the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.session.spending.report import UsageLine, UsageReport, fold_sums, report, title
from agent.session.spending.request_table import (
    GROUPINGS,
    LARGEST,
    Payer,
    RequestAmount,
    add,
    agent_name,
    local_day,
    sums,
)
from agent.session.spending.spending import cost_of
from tests.support.engines import bench
from tests.support.faults import FAULTS
from tests.support.replies import Reply, by_step, call, refuse, say, usage_of
from tests.support.team import by_task
from tests.support.team import report as told

NOW = time.mktime((2026, 3, 28, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0
PRICED = ModelInfo(input_price=1.0, output_price=10.0, cached_price=0.1)
COUNT = st.integers(0, 10_000) | st.sampled_from([-5, LARGEST, 2**70])
REQUEST = st.fixed_dictionaries(
    {
        "days": st.integers(0, 40),
        "project": st.sampled_from(["/a", "/b", ""]),
        "agent": st.sampled_from(["main", "side", agent_name("x"), agent_name("")]),
        "model": st.sampled_from(["p/known", "p/late", "p/unknown"]),
        "state": st.sampled_from(["counted", "assumed", "open"]),
        "amount": st.builds(
            RequestAmount, input=COUNT, output=COUNT, cached=COUNT, cost=st.none() | st.floats(0, 10)
        ),
    }
)


def prices(model: str) -> ModelInfo:
    return UNKNOWN if model == "p/unknown" else PRICED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


async def reports(store: Store, days: int | None = None, now: float = NOW) -> list[UsageReport]:
    return [await report(store.database, prices, by, days=days, now=now) for by in GROUPINGS]


def write(connection: Any, made: list[dict[str, Any]]) -> None:
    connection.execute("DELETE FROM requests")
    for each in made:
        payer = Payer(session="s", project=each["project"], agent=each["agent"], model=each["model"])
        add(connection, payer, each["amount"], each["state"], NOW - each["days"] * DAY, 0)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(made=st.lists(REQUEST, max_size=25), days=st.none() | st.integers(1, 50))
def test_every_grouping_adds_up_to_the_same_total(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], days: int | None
) -> None:
    async def check() -> None:
        async with await Store.open(tmp_path_factory.mktemp("store") / "state.db") as store:
            await store.database.write(lambda connection: write(connection, made))
            found = await reports(store, days)
        totals = [each.total for each in found]
        for total in totals:
            assert total.to_json() == pytest.approx(totals[0].to_json())
        since = "" if days is None else local_day(NOW - (days - 1) * DAY)
        counting = [each for each in made if local_day(NOW - each["days"] * DAY) >= since]
        assert totals[0].requests == len(counting)
        taken = sum(_bounded(each["amount"].input) + _bounded(each["amount"].output) for each in counting)
        assert totals[0].tokens == taken
        for each in found:
            assert len({line.key for line in each.lines}) == len(each.lines)

    asyncio.run(check())


def _bounded(count: int) -> int:
    return min(max(count, 0), LARGEST)


@pytest.mark.thorough
async def test_the_sums_of_a_session_with_agents_and_retries_are_those_of_the_server(tmp_path: Path) -> None:
    cut = FAULTS["cut_by_reset"](say("Long " * 50))
    delegating = call("delegate_task", tasks=[{"goal": "look", "agent": "scout"}, {"goal": "read"}])
    busy = refuse(429, "Too many.")
    steps = iter([busy, delegating, cut, say("Done.")])
    scripts = {
        "main": lambda _: next(steps),
        "look": by_step([call("todo_read"), say(told())]),
        "read": by_step([say(told())]),
    }
    script, served = by_task(scripts), 0

    def answer(request: Any) -> Reply:
        nonlocal served
        reply = script(request)
        if reply is not busy and reply is not cut:
            served += (usage_of(reply, len(request.raw)) or {})["total_tokens"]
        return reply

    async with bench(tmp_path, answer) as b:
        assert (await b.turn("go")).outcome == "done"
        async with await Store.open(b.home / "state.db") as store:
            found = await reports(store, now=time.time())
            again = await reports(store, now=time.time())
    for each in (*found, *again):
        assert each.total.requests == 6
        assert each.total.uncounted == 1
        assert each.total.input + each.total.output == served
        assert each.total.unpriced == 0
    by_agent = {line.key: line.requests for line in found[GROUPINGS.index("agent")].lines}
    assert by_agent == {"main": 3, agent_name("scout"): 2, agent_name(""): 1}


async def test_what_had_no_price_when_it_left_is_priced_as_known_now(store: Store) -> None:
    payer = Payer(session="s", project="/p", agent="main", model="p/late")
    amount = RequestAmount(1_000_000, 100_000, 500_000, None)
    await store.database.write(lambda c: add(c, payer, amount, "counted", NOW, 0))
    (total,) = {each.total.cost for each in await reports(store)}
    assert total == pytest.approx(0.5 + 0.05 + 1.0)
    (only,) = await store.database.read(lambda c: sums(c, None))
    assert cost_of(only, lambda _: UNKNOWN) is None


async def test_of_a_deleted_session_the_sums_stay_and_nothing_else(store: Store) -> None:
    record = await store.create_session(workspace="/secret", model="m")
    payer = Payer(session=record.id, project="/secret", agent=agent_name("secret scout"), model="p/known")
    await store.database.write(lambda c: add(c, payer, RequestAmount(10, 5, 0, 0.5), "counted", NOW, 0))
    await store.delete(record.id)
    found = await reports(store)
    assert {each.total.cost for each in found} == {0.5}
    titles = {title(each.by, line.key) for each in found for line in each.lines}
    assert titles == {"2026-03-28", "p/known", "(deleted sessions)", "agents without a name"}
    assert b"secret" not in store.file.read_bytes()


def test_lines_are_ordered_and_zero_is_nothing() -> None:
    assert fold_sums([], prices) == {}
    assert sum([UsageLine("a", 1), UsageLine("b", 2)], UsageLine("total")) == UsageLine("total", 3)
