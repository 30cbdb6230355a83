"""How the search looks, over a store of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agent.core.home import Home
from agent.knowledge.recall.recall import Recall
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens.sessions.sessions import SearchScreen
from tests.support import found
from tests.support.staged import Staged, scene
from tests.support.waiting import until

NARROW, WIDE = (80, 24), (120, 40)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def still(app: Staged, pilot: Pilot[Any]) -> None:
    await pilot.pause(0.05)
    await until(pilot, lambda: not any(worker.group in ("search", "preview") for worker in app.workers))
    await pilot.pause(0.05)


def searched(folder: Path, text: str, *keys: str) -> Any:
    """The search over a store in `folder`, with a line typed into it and keys pressed after that."""

    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        async with await found.filled(folder / "state.db") as store:
            app.push_screen(SearchScreen(StoredSessions(store, Home(Path())), text, now=lambda: found.NOW))
            await still(app, pilot)
            for key in keys:
                await pilot.press(key)
            await still(app, pilot)

    return scene(act)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ()),
        ("roun", ("down", "down")),
        ("zebra", ()),
        ("role:model project:pay after:2026-01 -login rounding", ("ctrl+r",)),
        ("colour:red round", ()),
    ],
    ids=["empty", "typing", "nothing", "filters", "unknown-filter"],
)
def test_the_search_looks_as_it_should(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int], text: str, keys: tuple[str, ...]
) -> None:
    assert snap_compare(Staged(), terminal_size=size, run_before=searched(tmp_path, text, *keys))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_each_answer_to_a_question_says_how_it_was_found(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int]
) -> None:
    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        async with await found.filled(tmp_path / "state.db") as store:
            recall = Recall(store)
            stored = StoredSessions(store, Home(Path()), recall)
            text = "which of the tests here were the slowest in october"
            app.push_screen(SearchScreen(stored, text, now=lambda: found.NOW))
            await still(app, pilot)
            await recall.close()

    assert snap_compare(Staged(), terminal_size=size, run_before=scene(act))


@pytest.mark.sample(1)
@pytest.mark.parametrize("skin", ["paper", "contrast-dark", "mono"])
def test_the_search_looks_as_it_should_in_other_skins(snap_compare: Any, tmp_path: Path, skin: str) -> None:
    run = searched(tmp_path, "tool:term totals")
    assert snap_compare(Staged(skin), terminal_size=NARROW, run_before=run)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_skills_learnings_and_notes_stand_among_the_hits(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int]
) -> None:
    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        async with await found.filled(tmp_path / "state.db") as store:
            recall = Recall(store, sources=found.shelves())
            stored = StoredSessions(store, Home(Path()), recall)
            app.push_screen(SearchScreen(stored, "tests", now=lambda: found.NOW))
            await still(app, pilot)
            await recall.close()

    assert snap_compare(Staged(), terminal_size=size, run_before=scene(act))
