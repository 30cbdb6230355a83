"""What the look before a restore ends with, key by key, without a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import PartialRestore, PlanItem
from app.tui.screens.history.restoring import HunkScreen, RestoringScreen
from app.tui.screens.history.timeline_files import FileScreen
from tests.app.tui.going_back_stage import BOUGHT, HUNKS, LIST, PLAN, RESTORE, entry
from tests.app.tui.pages import PageHost, lines_of
from tests.support.waiting import until
from widgets.timeline.diff_rows import DiffRows, HunkRows

MINE = {"docs/prices.md": "mine", "docs/shop.md": "mine"}


@asynccontextmanager
async def looking(plan: RestorePlan, *keys: str) -> AsyncIterator[tuple[PageHost, Pilot[None]]]:
    host = PageHost(lambda: RestoringScreen(plan, RESTORE))
    async with host.run_test(size=(120, 40)) as pilot:
        await press(host, pilot, *keys)
        yield host, pilot


async def press(host: PageHost, pilot: Pilot[None], *keys: str) -> None:
    """Each key when what the one before asked for is there."""
    for key in keys:
        await pilot.press(key)
        await host.workers.wait_for_complete()
        await pilot.pause()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ((), MINE),
        (("c",), MINE | {"docs/prices.md": "checkpoint"}),
        (("b",), MINE | {"docs/prices.md": "merge"}),
        (("b", "m", "c"), MINE | {"docs/prices.md": "checkpoint"}),
        (("C",), dict.fromkeys(MINE, "checkpoint")),
        (("C", "M"), MINE),
        (("M", "C"), dict.fromkeys(MINE, "checkpoint")),
        (("j", "j", "m", "c", "b"), MINE),
        (("j", "j", "j", "m"), MINE | {"src/money.py": "mine"}),
        (("j", "j", "j", "m", "c"), MINE | {"src/money.py": "checkpoint"}),
        (("j", "j", "j", "b"), MINE),
    ],
)
async def test_each_path_becomes_what_was_chosen_for_it(
    keys: tuple[str, ...], chosen: dict[str, str]
) -> None:
    async with looking(PLAN, *keys, "a") as (host, pilot):
        await until(pilot, lambda: host.outcomes)
        assert host.outcomes == [chosen]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "said"), [(("j", "j", "c"), "stays as it is"), (("j", "j", "j", "b"), "nothing to merge")]
)
async def test_what_cannot_be_chosen_is_a_sentence(keys: tuple[str, ...], said: str) -> None:
    async with looking(PLAN, *keys) as (host, _):
        assert [said in text for text in host.told] == [True]


async def test_a_folder_that_goes_is_not_called_the_same() -> None:
    folder = PathEntry(PathKind.FOLDER, 0o755)
    async with looking(RestorePlan(PLAN.root, 3, (PlanItem("build", folder, None, "change"),))) as (
        host,
        pilot,
    ):
        await until(pilot, lambda: "Folder deleted." in "\n".join(lines_of(host.screen.query_one(DiffRows))))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("keys", "hunks"),
    [
        (("space",), {2, 3}),
        (("minus", "space"), {1}),
        (("right_square_bracket", "space"), {1, 3}),
        (("minus", "G", "space"), {3}),
    ],
)
async def test_hunks_that_are_taken_are_a_part_of_exactly_these_contents(
    keys: tuple[str, ...], hunks: set[int]
) -> None:
    async with looking(HUNKS, "enter", *keys, "escape") as (host, pilot):
        assert f"{len(hunks)} of 3 hunks" in lines_of(host.screen.query_one("PlanRows"))[0]  # type: ignore[arg-type]
        await press(host, pilot, "a")
        part = PartialRestore(entry(BOUGHT).digest or "", entry(LIST).digest or "", frozenset(hunks))
        assert host.outcomes == [{"docs/shop list.md": part}]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [(("minus",), "mine"), (("minus", "plus"), "checkpoint"), (("space", "space"), "checkpoint")],
)
async def test_all_hunks_or_none_are_the_whole_file(keys: tuple[str, ...], chosen: str) -> None:
    async with looking(HUNKS, "enter", *keys, "escape", "a") as (host, _):
        assert host.outcomes == [{"docs/shop list.md": chosen}]


@pytest.mark.thorough
async def test_hunks_of_a_conflict_begin_as_that_was_decided() -> None:
    async with looking(PLAN, "enter") as (host, pilot):
        assert host.screen.query_one(HunkRows).taken == frozenset()
        await press(host, pilot, "escape", "b", "enter")
        rows = host.screen.query_one(HunkRows)
        assert (rows.taken, rows.numbers) == (frozenset({1}), [1])
        await press(host, pilot, "minus", "plus", "escape", "a")
        assert host.outcomes == [MINE | {"docs/prices.md": "merge"}]


@pytest.mark.thorough
async def test_choosing_for_the_whole_file_forgets_its_hunks() -> None:
    async with looking(HUNKS, "enter", "space", "escape", "c", "enter") as (host, pilot):
        assert host.screen.query_one(HunkRows).taken == frozenset({1, 2, 3})
        await press(host, pilot, "escape", "a")
        assert host.outcomes == [{"docs/shop list.md": "checkpoint"}]


@pytest.mark.thorough
async def test_what_has_no_hunks_says_so() -> None:
    async with looking(HUNKS, "j", "enter") as (host, _):
        assert isinstance(host.screen, FileScreen) and not isinstance(host.screen, HunkScreen)
        assert "taken or left as a whole: it is binary." in host.screen.rows.empty


async def test_a_key_counts_before_what_an_earlier_one_asked_for_is_there() -> None:
    host = PageHost(lambda: RestoringScreen(PLAN, RESTORE))
    async with host.run_test(size=(120, 40)) as pilot:
        await pilot.press("b", "j", "b", "m", "a")
        await until(pilot, lambda: host.outcomes)
        assert host.outcomes == [MINE | {"docs/prices.md": "merge"}]
