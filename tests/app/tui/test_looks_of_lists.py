"""How the list of sessions looks, over a store of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agent.core.home import Home
from agent.core.store.store import Store
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import Dialog
from app.tui.screens.sessions import sessions
from app.tui.screens.sessions.sessions import SessionsScreen
from tests.support import shelf
from tests.support.staged import Staged, scene
from tests.support.thorough import thoroughly
from tests.support.waiting import until

NARROW, WIDE = (80, 24), (120, 40)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setattr(sessions, "SEARCH_DELAY", 0.01)


async def still(screen: SessionsScreen, pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: screen.is_mounted and screen.is_settled, "the list and its preview")


def listed(folder: Path, *keys: str, empty: bool = False, dialog: bool = False) -> Any:
    """The list over a store in `folder`, and keys pressed in it."""

    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        path = folder / "state.db"
        async with await (Store.open(path) if empty else shelf.filled(path)) as store:
            newest = await store.latest_session()
            screen = SessionsScreen(
                StoredSessions(store, Home(folder)), newest.id if newest else "", lambda: shelf.NOW
            )
            app.push_screen(screen)
            await still(screen, pilot)
            for key in keys:
                await pilot.press(key)
                await still(screen, pilot)
            if dialog:
                await until(pilot, lambda: isinstance(app.screen, Dialog) and app.screen.armed, "a dialog")

    return scene(act)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("keys", "empty"),
    [((), False), ((), True), (("slash", *"otters"), False), (("slash", *"zebra"), False)],
    ids=["list", "empty", "found", "not-found"],
)
def test_the_list_looks_as_it_should(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int], keys: tuple[str, ...], empty: bool
) -> None:
    run = listed(tmp_path, *keys, empty=empty)
    assert snap_compare(Staged(), terminal_size=size, run_before=run)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("keys", "empty"), [(("j",), False), ((), True)], ids=["list", "empty"])
def test_the_list_alone_has_the_whole_of_a_small_terminal(
    snap_compare: Any, tmp_path: Path, keys: tuple[str, ...], empty: bool
) -> None:
    run = listed(tmp_path, *keys, empty=empty)
    assert snap_compare(Staged(), terminal_size=(59, 24), run_before=run)


@pytest.mark.thorough
@pytest.mark.parametrize("keys", [("j", "r")], ids=["rename"])
def test_a_change_of_a_session_looks_as_it_should(
    snap_compare: Any, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    run = listed(tmp_path, *keys, dialog=True)
    assert snap_compare(Staged(), terminal_size=NARROW, run_before=run)


@pytest.mark.parametrize("skin", ["paper", *thoroughly("amber", "contrast-light")])
def test_the_list_looks_as_it_should_in_other_skins(snap_compare: Any, tmp_path: Path, skin: str) -> None:
    assert snap_compare(Staged(skin), terminal_size=NARROW, run_before=listed(tmp_path, "j"))
