"""The list of sessions over a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens import dialog as dialogs
from app.tui.screens.sessions.sessions import SessionsScreen, age, preview
from tests.app.tui.pages import PageHost
from tests.support.waiting import until
from themes.loader import load_skin
from tools.discovery import discover
from widgets.palette import css_variables


class Host(App[None]):
    def __init__(self, skin: str = "night") -> None:
        self.skin = load_skin(skin).skin
        super().__init__()
        self.outcomes: list[Any] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(self.skin)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)


@pytest.fixture
async def store(tmp_path: Path):
    async with await Store.open(tmp_path / "state.db") as store:
        for words in ("Count the otters", "Paint the fence [red]", "Bake bread"):
            session = await store.create_session(workspace="/tmp/zoo", model="demo")
            await store.append(session.id, "user", words, {"origin": "prompt"})
            await store.append(session.id, "assistant", f"Done: {words}.", {})
        yield store


def text_of(screen: SessionsScreen) -> str:
    return str(screen.query_one("#sessions-text", Static).render())


async def opened(
    host: Host, pilot: Pilot[None], store: Store, home: Path, current: str = ""
) -> SessionsScreen:
    screen = SessionsScreen(StoredSessions(store, Home(home)), current)
    await host.push_screen(screen, host.outcomes.append)
    await until(pilot, lambda: screen.query_one(OptionList).option_count == 3 and "Done" in text_of(screen))
    return screen


async def test_sessions_are_listed_newest_first_with_a_preview(store: Store, tmp_path: Path) -> None:
    host = Host("paper")
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await opened(host, pilot, store, tmp_path)
        labels = [str(option.prompt) for option in screen.query_one(OptionList).options]
        assert [label.split("\n")[0].strip() for label in labels] == [
            "Bake bread",
            "Paint the fence [red]",
            "Count the otters",
        ]
        await pilot.press("j")
        await until(pilot, lambda: "Done: Paint the fence [red]." in text_of(screen))
        assert text_of(screen).startswith("¶ "), "the skin's sign, as in the conversation"
        await pilot.press("y", "enter")
        await pilot.pause()
        sessions = await store.list_sessions()
        assert host.clipboard == sessions[1].id
        assert host.outcomes == [sessions[1].id]


async def test_the_preview_names_calls_by_what_they_do(store: Store) -> None:
    discover()
    session = await store.create_session(workspace="/tmp/zoo", model="demo")
    calls = [{"id": "c", "name": "terminal", "arguments": '{"command": "ls -l"}'}]
    await store.append(session.id, "assistant", "", {"calls": calls})
    ended = {"tool": "terminal", "call": "c", "outcome": "done"}
    await store.append(session.id, "tool", '{"output": "x"}', ended)
    nodes = await store.path(session.id)
    assert preview(nodes, "❯").plain == "✓ run ls -l\n"
    assert preview(nodes[1:], "❯").plain == "✓ terminal\n"


@pytest.mark.thorough
async def test_the_chosen_session_begins_with_a_mark_on_each_of_its_lines(
    store: Store, tmp_path: Path
) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await opened(host, pilot, store, tmp_path)
        listed = screen.query_one(OptionList)

        def marked() -> list[int]:
            return [y for y in range(6) if listed.render_line(y).text.startswith("▌")]

        await until(pilot, lambda: marked() == [0, 1])
        await pilot.press("j")
        await until(pilot, lambda: marked() == [2, 3])
        assert listed.render_line(2).cell_length == listed.render_line(4).cell_length


@pytest.mark.parametrize("skin", ["ansi", "mono"])
async def test_nothing_in_the_chosen_row_has_the_colour_of_text_without_colours(
    store: Store, tmp_path: Path, skin: str
) -> None:
    screen = SessionsScreen(StoredSessions(store, Home(tmp_path)), "")
    host = PageHost(lambda: screen, skin)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Done" in text_of(screen))
        listed = screen.query_one(OptionList)
        for y in (0, 1):
            row = listed.render_line(y)
            assert "ago" in row.text or "now" in row.text or "bread" in row.text
            colors = [each.style.color for each in row if each.style and each.text.strip()]
            assert colors and not any(color is None or color.is_default for color in colors)


@pytest.mark.thorough
async def test_typing_searches_what_was_said(store: Store, tmp_path: Path) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await opened(host, pilot, store, tmp_path)
        await pilot.press("slash", *"otters")
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 1)
        await until(pilot, lambda: "Count the otters" in text_of(screen))
        await pilot.press("enter", "escape")
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 3)
        await pilot.press("slash", *"zzzz")
        await until(pilot, lambda: "Nothing found" in text_of(screen))
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert host.outcomes == [None]


@pytest.mark.thorough
async def test_a_session_is_renamed_in_place(store: Store, tmp_path: Path) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await opened(host, pilot, store, tmp_path)
        await pilot.press("r")
        await until(pilot, lambda: host.screen is not screen and host.screen.query(Input))
        await pilot.press("ctrl+u", *"Rolls", "enter")
        await until(
            pilot,
            lambda: any("Rolls" in str(option.prompt) for option in screen.query_one(OptionList).options),
        )


@pytest.mark.thorough
@pytest.mark.parametrize(("back", "left"), [((), 2), (("u",), 3)])
async def test_what_was_deleted_comes_back_until_the_list_is_left(
    store: Store, tmp_path: Path, back: tuple[str, ...], left: int
) -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await opened(host, pilot, store, tmp_path)
        await pilot.press("d")
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 2)
        assert len(await store.list_sessions()) == 3, "nothing is gone while the list is open"
        await pilot.press(*back)
        await until(pilot, lambda: screen.query_one(OptionList).option_count == left)
        await pilot.press("escape")
        await host.workers.wait_for_complete()
        assert len(await store.list_sessions()) == left


@pytest.mark.thorough
async def test_a_session_that_is_open_is_not_deleted(store: Store, tmp_path: Path) -> None:
    host = Host()
    here, there, _ = await store.list_sessions()
    lock = SessionLock(tmp_path / "run", there.id)
    assert lock.acquire()
    try:
        async with host.run_test(size=(80, 24)) as pilot:
            screen = await opened(host, pilot, store, tmp_path, here.id)
            await pilot.press("d")
            await pilot.pause()
            assert host.screen is screen
            await pilot.press("j", "d")
            await until(pilot, lambda: screen.query_one(OptionList).option_count == 2)
            await pilot.press("escape")
            await host.workers.wait_for_complete()
            assert len(await store.list_sessions()) == 3
    finally:
        lock.release()


def test_ages_are_words() -> None:
    assert [age(seconds) for seconds in (-5, 59, 61, 7_200, 200_000)] == [
        "just now",
        "just now",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]


WIDE_TEXT = "\n".join(
    (
        "会議のメモ" * 30,
        "👨‍👩‍👧‍👦" * 20,
        "a\tb會" * 20,
        "❤️🏳️‍🌈" * 20,
        "e\u0301한국어" * 25,
        "\u200b\u200d界" * 40,
    )
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [71, 50, 20])
async def test_wide_characters_keep_a_list_alone_within_its_edges(tmp_path: Path, width: int) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        session = await store.create_session(workspace="/tmp/会", model="demo", title="会" * 60)
        await store.append(session.id, "user", WIDE_TEXT, {"origin": "prompt"})
        host = Host()
        async with host.run_test(size=(width, 24)) as pilot:
            screen = SessionsScreen(StoredSessions(store, Home(tmp_path)), "")
            await host.push_screen(screen)
            await until(pilot, lambda: screen.query_one(OptionList).option_count == 1)
            listed = screen.query_one(OptionList)
            assert listed.region.width == width and not screen.query_one("#sessions-preview").display
            rows = listed.render_lines(listed.region.reset_offset)
            assert {row.cell_length for row in rows} == {width}
            assert all(cell_len(row.text) == row.cell_length for row in rows)


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [100, 80, 72])
async def test_wide_characters_keep_list_and_preview_within_their_edges(tmp_path: Path, width: int) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        session = await store.create_session(workspace="/tmp/会", model="demo", title="会" * 60)
        await store.append(session.id, "user", WIDE_TEXT, {"origin": "prompt"})
        host = Host()
        async with host.run_test(size=(width, 24)) as pilot:
            screen = SessionsScreen(StoredSessions(store, Home(tmp_path)), "")
            await host.push_screen(screen)
            await until(pilot, lambda: "会議" in text_of(screen))
            text = screen.query_one("#sessions-text", Static)
            rows = text.render_lines(text.region.reset_offset)
            assert {row.cell_length for row in rows} == {text.size.width}
            assert all(cell_len(row.text) == row.cell_length for row in rows)
            assert screen.query_one("#sessions-preview").region.right <= width
