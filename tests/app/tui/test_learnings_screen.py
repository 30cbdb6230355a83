"""The screen of learnings: what it lists, and what its keys change in the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agent.core.config.schema import LearningSettings
from agent.core.store.store import Store
from agent.knowledge.learnings.learning import Learning
from agent.knowledge.learnings.store import LearningBook, learning_book
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import TextDialog
from app.tui.screens.memory import LearningSource, LearningsScreen
from tests.support.staged import Staged, drawn, scene
from tests.support.waiting import until

NOW = 1_772_600_000.0
DAY = 86_400.0


def known(key: str, pattern: str, error: str, fix: str, days: float, **more: Any) -> Learning:
    usual: dict[str, Any] = {
        "status": "learning",
        "origin": "observed",
        "tool": "terminal",
        "session": "20260301-101112-aaaa",
        "node": 7,
        "created_at": NOW - days * DAY,
        "updated_at": NOW - days * DAY,
    }
    return Learning(key=key, pattern=pattern, error_type=error, fix=fix, **{"project": "", **usual, **more})


KNOWN = (
    known(
        "a",
        "python2 app.py",
        "command not found",
        "`python3 app.py`",
        3,
        confirmed=4,
        refuted=1,
        times_used=5,
        context="on this machine",
        tags=("python", "setup"),
        evidence={
            "failed": "python2 app.py",
            "error": "bash: python2: not found",
            "worked": "python3 app.py",
        },
    ),
    known("b", "docker compose up", "failed", "sudo docker compose up", 40, origin="person", session=""),
    known(
        "c", "make docs", "No module named sphinx", "first `pip install -e .[docs]`", 0.1, status="candidate"
    ),
    known("d", "npm test", "ENOENT", "`npm ci` first", 12, status="stale", confirmed=2),
    known("e", "pytest -x tests/\x1b[31mslow", "timed out", "give it a longer timeout", 5, refuted=1),
    known("f", "git push origin master", "src refspec", "push to `trunk`", 90, status="retired", refuted=2),
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)


@asynccontextmanager
async def filled(folder: Path, *, empty: bool = False) -> AsyncIterator[LearningBook]:
    async with await Store.open(folder / "state.db") as store:
        book = learning_book(store.database, folder, LearningSettings.model_validate({}), {})
        for each in () if empty else KNOWN:
            await book.store.keep(each)
        yield book


async def opened(app: Staged, pilot: Pilot[Any], book: LearningBook, answers: list[Any]) -> LearningsScreen:
    screen = LearningsScreen(book, lambda: NOW)
    app.push_screen(screen, answers.append)
    await until(pilot, lambda: screen.is_mounted and screen.loaded, "the learnings")
    return screen


@pytest.mark.thorough
async def test_each_key_changes_the_store_and_each_change_is_taken_back(tmp_path: Path) -> None:
    app = Staged()
    async with filled(tmp_path) as book, app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.listener is not None, "the start")
        screen = await opened(app, pilot, book, [])

        async def now() -> dict[str, tuple[str, str]]:
            return {each.pattern: (each.status, each.fix) for each in await book.look()}

        async def press(*keys: str) -> dict[str, tuple[str, str]]:
            screen.loaded = False
            await pilot.press(*keys)
            await until(pilot, lambda: screen.loaded and app.screen is screen, "the list")
            await drawn(pilot)
            return await now()

        async def dialog(*keys: str) -> None:
            await pilot.press(*keys)
            await until(pilot, lambda: isinstance(app.screen, TextDialog) and app.screen.armed, "a dialog")

        states = [await now()]
        await dialog("n")
        first = app.screen
        await pilot.press(*"make", "enter")
        await until(
            pilot,
            lambda: app.screen is not first and isinstance(app.screen, TextDialog) and app.screen.armed,
            "the second dialog",
        )
        states.append(await press(*"ninja", "enter"))
        assert states[-1]["make"] == ("learning", "ninja")
        # The cursor is on what was added.
        await dialog("e")
        states.append(await press("end", *" -C b", "enter"))
        assert states[-1]["make"] == ("learning", "ninja -C b")
        states.append(await press("G", "t"))
        assert states[-1]["git push origin master"][0] == "learning"
        states.append(await press("d"))
        assert "git push origin master" not in states[-1]
        for before in reversed(states[:-1]):
            assert await press("u") == before


async def test_one_opens_the_message_at_which_it_was_learned(tmp_path: Path) -> None:
    app, answers = Staged(), list[Any]()
    async with filled(tmp_path) as book, app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.listener is not None, "the start")
        screen = await opened(app, pilot, book, answers)
        await pilot.press("slash", *"docker", "enter", "enter")
        await drawn(pilot)
        assert answers == [] and app.screen is screen
        await pilot.press("escape", "g", "enter")
        await until(pilot, lambda: answers, "the answer")
        assert answers == [LearningSource("20260301-101112-aaaa", 7)]


def shown(folder: Path, *keys: str, empty: bool = False) -> Any:
    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        async with filled(folder, empty=empty) as book:
            await opened(app, pilot, book, [])
            await drawn(pilot)
            for key in keys:
                await pilot.press(key)
                await drawn(pilot)

    return scene(act)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize(("keys", "empty"), [((), False), (("s",), True)], ids=["list", "none"])
def test_the_learnings_look_as_they_should(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int], keys: tuple[str, ...], empty: bool
) -> None:
    assert snap_compare(Staged(), terminal_size=size, run_before=shown(tmp_path, *keys, empty=empty))
