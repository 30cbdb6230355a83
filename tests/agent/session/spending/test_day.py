"""The ceiling of a day: many processes, killed ones, clocks that jump."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.core.event_data import Usage
from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.session.spending.budget import Budget, BudgetReachedError
from agent.session.spending.request_log import RequestLog, request_log_of
from agent.session.spending.request_table import AHEAD, Payer, local_day, sums
from agent.session.spending.spending import LEASE, Spending, session_ceilings

DAY = 86_400.0
NOON = time.mktime((2026, 3, 28, 12, 0, 0, 0, 0, -1))
PAYER = Payer(session="s", project="p", agent="main", model="m")
PRICED = ModelInfo(input_price=1.0, output_price=10.0, cached_price=0.1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def spending(store: Store, budget: Budget, clock: Clock, info: ModelInfo = UNKNOWN) -> Spending:
    return Spending(store.database, lambda _: info, budget, now=clock)


def opened(made: Spending, info: ModelInfo = UNKNOWN) -> RequestLog:
    return request_log_of(made, PAYER, info)


async def spend(made: Spending, tokens: int) -> None:
    request_log = opened(made)
    entry = await request_log.open(tokens, 0, 0)
    request_log.close(entry, Usage(tokens, 0))
    await made.wait_for_writes()


async def total(store: Store) -> int:
    found = await store.database.read(lambda c: sums(c, None))
    return sum(each.input + each.output for each in found)


async def test_waiting_for_writes_ends_where_one_is_done_already(store: Store) -> None:
    made = spending(store, Budget(), Clock())
    written = asyncio.get_running_loop().create_future()
    written.set_result(None)
    made.keep(written)
    await made.wait_for_writes()


async def process(path: Path, ceiling: int, seed: int, *more: str) -> Process:
    command = (
        sys.executable,
        "-m",
        "tests.agent.session.spending.spender",
        str(path),
        str(ceiling),
        str(seed),
    )
    return await asyncio.create_subprocess_exec(*command, *more, stdin=PIPE, stdout=PIPE)


@pytest.mark.thorough
@pytest.mark.parametrize("whose", ["day", "session"])
async def test_processes_that_spend_at_once_never_exceed_the_ceiling_together(
    tmp_path: Path, store: Store, whose: str
) -> None:
    ceiling, path = 12_000, tmp_path / "state.db"
    started = [await process(path, ceiling, seed, whose, "together") for seed in range(3)]
    for each in started:
        assert each.stdout is not None and await each.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(each.communicate(b"\n") for each in started))
    given = [int(output) for output, _ in outputs]
    assert await total(store) == sum(given)
    assert sum(given) <= ceiling
    assert sum(given) > ceiling - 600
    assert sum(each > 0 for each in given) > 1


@pytest.mark.thorough
async def test_what_a_killed_process_had_taken_stays_taken(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "state.db"
    killed = await process(path, 5_000, 1, "hang")
    assert killed.stdout is not None
    held = int(await killed.stdout.readline())
    killed.kill()
    await killed.wait()
    other = await process(path, 5_000, 2)
    output, _ = await other.communicate()
    assert 0 < int(output) <= 5_000 - held
    assert await total(store) == held + int(output)


async def test_room_of_a_living_process_may_come_back_until_its_lease_is_over(store: Store) -> None:
    clock = Clock()
    made = spending(store, Budget(tokens=1_000), clock)
    request_log = opened(made)
    entry = await request_log.open(500, 500, 0)
    with pytest.raises(BudgetReachedError) as reached:
        await request_log.open(1, 0, 0)
    assert reached.value.may_pass
    clock.now += LEASE + 1
    with pytest.raises(BudgetReachedError) as reached:
        await request_log.open(1, 0, 0)
    assert not reached.value.may_pass
    request_log.close(entry, Usage(10, 10))
    await made.wait_for_writes()
    assert (await request_log.open(900, 0, 0)).input == 900


async def test_the_answer_is_made_to_fit_what_is_left_of_tokens_and_money(store: Store) -> None:
    clock = Clock()
    made = spending(store, Budget(tokens=10_000, money=0.02), clock, PRICED)
    entry = await opened(made, PRICED).open(1_000, 8_000, 256)
    assert entry.bounded
    assert 1_800 < entry.output < 1_900
    with pytest.raises(BudgetReachedError, match=r"of this day is reached: \$0\.0\d+ of \$0\.0200"):
        await opened(made, PRICED).open(1_000, 8_000, 256)


async def test_a_new_day_begins_at_midnight_where_the_computer_is(store: Store) -> None:
    clock = Clock()
    made = spending(store, Budget(tokens=1_000), clock)
    await spend(made, 900)
    while local_day(clock.now + 60) == local_day(NOON):
        clock.now += 60
    with pytest.raises(BudgetReachedError):
        await spend(made, 200)
    clock.now += 60
    await spend(made, 200)
    found = await store.database.read(lambda c: sums(c, "day"))
    assert [(each.key, each.input) for each in found] == [("2026-03-28", 900), ("2026-03-29", 200)]


@pytest.mark.parametrize("back", [60.0, DAY, AHEAD * DAY])
async def test_a_clock_that_is_set_back_opens_nothing(store: Store, back: float) -> None:
    clock = Clock()
    made = spending(store, Budget(tokens=1_000), clock)
    await spend(made, 900)
    clock.now -= back
    with pytest.raises(BudgetReachedError):
        await spend(made, 200)


async def test_a_clock_that_was_wrong_by_years_does_not_close_the_days_until_then(store: Store) -> None:
    clock = Clock()
    made = spending(store, Budget(tokens=1_000), clock)
    clock.now += 3_650 * DAY
    await spend(made, 900)
    clock.now = NOON
    await spend(made, 200)


async def test_a_session_counts_its_own_requests_only_and_waits_for_nobody_elses(store: Store) -> None:
    other = opened(spending(store, Budget(), Clock()))
    clock = Clock()
    bound = session_ceilings(Budget(turns=2, tokens=1_000), "mine")
    made = Spending(store.database, lambda _: UNKNOWN, None, bound, now=clock)
    mine = request_log_of(made, Payer(session="mine", project="p", agent="main", model="m"), UNKNOWN)
    other.close(await other.open(5_000, 5_000, 0), Usage(5_000, 5_000))
    first = await mine.open(100, 400, 0)
    mine.close(first, Usage(100, 300))
    await made.wait_for_writes()
    with pytest.raises(BudgetReachedError, match="400 of 1,000 tokens") as reached:
        await mine.open(900, 100, 50)
    assert not reached.value.may_pass and reached.value.setting == "budget.session.tokens"
    await mine.open(100, 100, 0)
    with pytest.raises(BudgetReachedError, match="2 of 2 requests") as reached:
        await mine.open(1, 1, 0)
    assert reached.value.may_pass


async def test_what_a_home_may_use_for_ever_counts_all_its_days_and_sessions(store: Store) -> None:
    clock = Clock()
    made = Spending(store.database, lambda _: UNKNOWN, total=Budget(tokens=1_000), now=clock)
    await spend(made, 900)
    clock.now += 400 * DAY
    with pytest.raises(BudgetReachedError, match="900 of 1,000 tokens") as reached:
        await spend(made, 200)
    assert reached.value.setting == "budget.total.tokens"
    await spend(made, 100)


async def test_a_request_whose_asking_is_cancelled_takes_nothing(store: Store) -> None:
    made = spending(store, Budget(tokens=1_000), Clock())
    asking = asyncio.create_task(opened(made).open(900, 0, 0))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await made.wait_for_writes()
    await made.wait_for_writes()
    assert await total(store) == 0


async def test_other_sessions_count_even_if_they_keep_to_no_ceiling(store: Store) -> None:
    clock = Clock()
    await spend(spending(store, Budget(), clock), 900)
    with pytest.raises(BudgetReachedError):
        await spend(spending(store, Budget(tokens=1_000), clock), 200)
