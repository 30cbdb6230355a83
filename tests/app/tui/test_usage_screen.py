"""What was spent, on the screen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError
from agent.session.spending.report import SpendingBound, SpendingOverview, UsageLine, overview
from agent.session.spending.request_table import MAIN, SENT, SIDE
from app.tui.screens.usage import UsageScreen, rows_of
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.support.engines import bench
from tests.support.replies import call, say
from tests.support.team import by_task, report
from tests.support.waiting import until
from widgets.rows.row_list import RowList

SESSION = (
    UsageLine(MAIN, 31, 1_204_000, 1_101_000, 18_300, 0.4231),
    UsageLine(SENT, 12, 310_500, 120_000, 9_100, 0.1502, uncounted=1, assumed=12_400, assumed_cost=0.08),
    UsageLine(SIDE, 4, 3_100, 0, 420, unpriced=4),
)
FULL = SpendingOverview(
    today=(UsageLine(MAIN, 88, 5_204_000, 4_101_000, 68_300, 2.1), *SESSION[1:]),
    session=SESSION,
    bounds=(
        SpendingBound("budget.session.turns", "turns", 47, 500),
        SpendingBound("budget.session.money", "money", 0.65, 5.0),
        SpendingBound("budget.day.tokens", "tokens", 5_600_000, 6_000_000),
        SpendingBound("budget.day.money", "money", None, 20.0),
    ),
)
EMPTY = SpendingOverview((), (), ())


def screen(found: SpendingOverview | Exception) -> Any:
    async def count() -> SpendingOverview:
        await asyncio.sleep(0)
        if isinstance(found, Exception):
            raise found
        return found

    return lambda: UsageScreen(count)


def test_who_asked_comes_in_order_with_the_sum_below() -> None:
    names = [row.name for row in rows_of(FULL) if row.kind in ("figures", "total")]
    assert names[:4] == ["Main agent", "Agents it sent", "Side model", "Together"]
    (together, _) = [row.cells for row in rows_of(FULL) if row.kind == "total"]
    assert together == ("47", "1.5M", "1.2M", "27.8k", "$0.57+")


def test_nothing_unknown_becomes_a_number() -> None:
    rows = {row.name: row for row in rows_of(FULL)}
    assert rows["Side model"].cells[-1] == "$–"
    assert rows["Day, cost"].cells == ("$–", "$20.00")
    assert "not counted, or still on its way: at most 12.4k tokens, $0.08" in rows


def test_without_requests_and_ceilings_it_says_so() -> None:
    said = [row.name for row in rows_of(EMPTY) if row.kind == "sentence"]
    assert said[:2] == ["No request was made yet."] * 2
    assert "budget.session.money" in said[2]


async def test_what_cannot_be_counted_is_said() -> None:
    host = PageHost(screen(HermesError("The store is gone.")))
    async with host.run_test(size=(80, 24)) as pilot:
        rows = host.screen.query_one(RowList)
        await until(pilot, lambda: any("✗ The store is gone." in line for line in lines_of(rows)))


@pytest.mark.thorough
async def test_a_working_session_shows_its_own_figures_and_those_of_its_agents(tmp_path: Path) -> None:
    script = by_task({"main": [call("delegate_task", goal="look"), say("Done.")], "look": [say(report())]})
    async with bench(tmp_path, script) as b:
        b.config("budget: {session: {turns: 10}, day: {tokens: 1000000}}\n")
        await b.turn("another session")
        async with b.engine() as engine:
            await engine.run("go")
            found = await overview(engine.metering)
            host = PageHost(lambda: UsageScreen(lambda: overview(engine.metering)))
            async with host.run_test(size=(100, 30)) as pilot:
                await until(pilot, lambda: host.screen.rows.count)  # type: ignore[attr-defined]
                text = "\n".join(lines_of(host.screen.rows))  # type: ignore[attr-defined]
    assert {line.key: line.requests for line in found.session} == {MAIN: 2, SENT: 1}
    assert {line.key: line.requests for line in found.today} == {MAIN: 4, SENT: 2}
    assert found.bounds[0] == SpendingBound("budget.session.turns", "turns", 3, 10)
    assert "Session, requests" in text and "30%" in text


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("found", "skin"),
    [(FULL, "night"), (FULL, "paper"), (EMPTY, "night")],
    ids=["full", "paper", "empty"],
)
def test_the_table_looks_as_it_should(
    snap_compare: Any, size: tuple[int, int], found: SpendingOverview, skin: str
) -> None:
    assert snap_compare(PageHost(screen(found), skin), terminal_size=size, run_before=pressing())
