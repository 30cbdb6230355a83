"""Hunks that are taken and left by key and mouse, one below the other and side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from agent.workspace.checkpoints.restore.hunks import divide
from widgets.timeline.diff_rows import HunkRows, HunkStart

THEN = "".join(f"line {number}\n" for number in range(60))
NOW = THEN.replace("line 5\n", "five\n").replace("line 25\n", "").replace("line 45\n", "line 45\nmore [b]\n")
DIFF = divide(NOW.encode(), THEN.encode()).diff("a.txt")


class Host(App[None]):
    def __init__(self, taken: set[int]) -> None:
        super().__init__()
        self.rows = HunkRows(taken)
        self.told: list[frozenset[int]] = []

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_hunk_rows_chosen(self, event: HunkRows.Chosen) -> None:
        self.told.append(event.taken)


@asynccontextmanager
async def shown(taken: set[int], size: tuple[int, int] = (80, 50)) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    host = Host(taken)
    async with host.run_test(size=size) as pilot:
        host.rows.show(DIFF, "")
        await pilot.pause()
        yield host, pilot


def heads(host: Host) -> list[str]:
    lines = [host.rows.render_line(y).text.strip("▌ \n") for y in range(host.rows.size.height)]
    return [line for line in lines if "hunk" in line]


@pytest.mark.parametrize("width", [80, 130])
async def test_each_hunk_says_whether_it_is_taken(width: int) -> None:
    async with shown({1, 3}, (width, 50)) as (host, _):
        first, second, third = heads(host)
        assert first.startswith("✓ hunk 1 of 3 · taken") and first.endswith("+1 −1")
        assert second.startswith("○ hunk 2 of 3 · left") and second.endswith("+1")
        assert third.startswith("✓ hunk 3 of 3 · taken") and third.endswith("−1")


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [80, 130])
async def test_a_hunk_is_turned_from_any_of_its_lines(width: int) -> None:
    async with shown({1, 2, 3}, (width, 50)) as (host, pilot):
        await pilot.press("right_square_bracket", "j", "j", "space")
        assert host.told == [frozenset({1, 3})]
        await pilot.press("k", "space", "G", "space")
        assert host.told[1:] == [frozenset({1, 2, 3}), frozenset({1, 2})]


async def test_all_are_taken_or_left_at_once() -> None:
    async with shown({2}) as (host, pilot):
        await pilot.press("plus", "minus")
        assert host.told == [frozenset({1, 2, 3}), frozenset()]
        assert all("left" in head for head in heads(host))


async def test_keys_lead_from_hunk_to_hunk() -> None:
    async with shown(set()) as (host, pilot):

        def number() -> int:
            part = host.rows.parts[host.rows.cursor or 0]
            return part.number if isinstance(part, HunkStart) else 0

        seen = [number()]
        for key in ("right_square_bracket",) * 3 + ("left_square_bracket",) * 3:
            await pilot.press(key)
            seen.append(number())
        assert seen == [1, 2, 3, 3, 2, 1, 1]


async def test_a_click_on_the_row_of_a_hunk_turns_it_and_on_its_lines_does_not() -> None:
    async with shown(set()) as (host, pilot):
        await pilot.click(HunkRows, offset=(5, 0))
        await pilot.click(HunkRows, offset=(5, 2))
        await pilot.pause()
        assert host.told == [frozenset({1})]


async def test_before_there_are_hunks_nothing_is_chosen() -> None:
    host = Host({1})
    async with host.run_test() as pilot:
        await pilot.press("plus", "minus", "space", "right_square_bracket")
        assert (host.told, host.rows.taken) == ([], frozenset({1}))
