"""How the screens of going back look in each of their states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from app.tui.screens import dialog as dialogs
from app.tui.screens.history.compare import BranchesScreen, CompareScreen
from app.tui.screens.history.restoring import RestoringScreen, RewindScreen
from tests.app.tui.going_back_stage import BRANCHES, HUNKS, PLAN, RESTORE, comparison, rewind
from tests.app.tui.pages import PageHost, pressing
from tests.app.tui.timeline_stage import NOW
from tests.support.waiting import until

SIZES = ((80, 24), (120, 40))


def now() -> float:
    return NOW


Make = Callable[[], Any]
SCENES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "rewind": (lambda: RewindScreen(rewind(), now), ("j",)),
    "rewind-conflicts": (lambda: RewindScreen(rewind(), now), ("G",)),
    "rewind-empty": (lambda: RewindScreen(rewind(()), now), ()),
    "rewind-not-kept": (lambda: RewindScreen(rewind(kept=False), now), ()),
    "restore": (lambda: RestoringScreen(PLAN, RESTORE), ()),
    "restore-checkpoint": (lambda: RestoringScreen(PLAN, RESTORE), ("c", "j", "C")),
    "restore-merge": (lambda: RestoringScreen(PLAN, RESTORE), ("b",)),
    "restore-overlap": (lambda: RestoringScreen(PLAN, RESTORE), ("b", "j", "b")),
    "restore-lost": (lambda: RestoringScreen(PLAN, RESTORE), ("j", "j")),
    "restore-plain": (lambda: RestoringScreen(PLAN, RESTORE), ("j", "j", "j")),
    "restore-left": (lambda: RestoringScreen(HUNKS, RESTORE), ("m", "j", "m", "j")),
    "restore-hunks": (lambda: RestoringScreen(HUNKS, RESTORE), ("enter", "right_square_bracket", "space")),
    "restore-some": (lambda: RestoringScreen(HUNKS, RESTORE), ("enter", "G", "space", "escape")),
    "restore-merged-hunks": (lambda: RestoringScreen(PLAN, RESTORE), ("b", "enter", "minus")),
    "restore-whole": (lambda: RestoringScreen(HUNKS, RESTORE), ("j", "enter")),
    "compare": (lambda: CompareScreen(comparison()), ()),
    "compare-file": (lambda: CompareScreen(comparison()), ("G", "k", "enter")),
    "compare-alike": (lambda: CompareScreen(comparison(alike=True)), ()),
    "branches": (lambda: BranchesScreen(BRANCHES, now), ()),
    "branches-one": (lambda: BranchesScreen(BRANCHES[:1], now), ()),
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_going_back_looks_as_it_should(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    make, keys = SCENES[name]
    assert snap_compare(PageHost(make), terminal_size=size, run_before=pressing(*keys))


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_going_back_asks_what_shall_be_as_it_was(snap_compare: Any, size: tuple[int, int]) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        await pressing("G")(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: getattr(pilot.app.screen, "armed", False))
        await pilot.pause(0.1)

    assert snap_compare(PageHost(lambda: RewindScreen(rewind(), now)), terminal_size=size, run_before=ask)
