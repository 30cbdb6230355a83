"""Searching as you type over a real store, and going to what was found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Static

from agent.core.home import Home
from agent.core.store.query_line import parse
from agent.core.store.search import SearchHit, SearchHits
from agent.core.store.store import Store
from agent.knowledge.recall.recall import Recall
from agent.session.conversation.stored_sessions import StoredSessions
from app.tui.screens.sessions.sessions import (
    ChosenHit,
    ChosenNote,
    HitRows,
    SearchScreen,
    excerpt_around,
    found_by,
    kind_of,
    when,
)
from tests.support import found
from themes.skin import Skin
from widgets.palette import Palette, css_variables


class Host(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Any] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(Skin())


@pytest.fixture
async def store(tmp_path: Path):
    async with await found.filled(tmp_path / "state.db") as store:
        yield store


async def until(pilot: Pilot[None], true: Any) -> None:
    for _ in range(400):
        await pilot.pause(0.01)
        if true():
            return
    raise AssertionError("it never came true")


async def opened(host: Host, store: Store, text: str = "") -> SearchScreen:
    screen = SearchScreen(StoredSessions(store, Home(Path())), text, now=lambda: found.NOW)
    await host.push_screen(screen, host.outcomes.append)
    return screen


def snippets(screen: SearchScreen) -> list[str]:
    return [hit.snippet for hit in screen.query_one(HitRows).hits]


@pytest.mark.thorough
async def test_hits_follow_each_key_and_enter_opens_the_one_under_the_cursor(store: Store) -> None:
    host = Host()
    async with host.run_test(size=(100, 30)) as pilot:
        screen = await opened(host, store)
        await pilot.press(*"slow")
        await until(pilot, lambda: snippets(screen) == ["Which tests are slowest?"])
        await pilot.press(*" zebra")
        await until(pilot, lambda: not snippets(screen))
        await pilot.press("ctrl+u", *"tests")
        await until(pilot, lambda: len(snippets(screen)) == 2)
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.outcomes)
        (hit,) = (await store.search("slowest", order="newest")).hits
        assert host.outcomes == [ChosenHit(hit.session, hit.node, parse("tests"))]


@pytest.mark.thorough
async def test_filters_typed_in_the_line_narrow_the_hits_and_stand_below_it(store: Store) -> None:
    host = Host()
    async with host.run_test(size=(100, 30)) as pilot:
        screen = await opened(host, store, "role:you project:pay off")
        await until(pilot, lambda: len(snippets(screen)) == 1)
        below = str(screen.query_one("#search-chips", Static).render())
        assert "role user" in below
        assert "project pay" in below
        await pilot.press("ctrl+u", *"size:big off")
        await until(
            pilot, lambda: "size: is not a filter" in str(screen.query_one("#search-chips", Static).render())
        )


@pytest.mark.thorough
async def test_esc_ends_without_a_choice(store: Store) -> None:
    host = Host()
    async with host.run_test() as pilot:
        await opened(host, store, "tests")
        await pilot.press("escape")
        await until(pilot, lambda: host.outcomes)
        assert host.outcomes == [None]


async def test_the_order_changes_with_a_key(store: Store) -> None:
    host = Host()
    async with host.run_test(size=(100, 30)) as pilot:
        screen = await opened(host, store, "rounding")
        await until(pilot, lambda: len(snippets(screen)) == 4)
        newest = [hit.node for hit in screen.query_one(HitRows).hits]
        assert newest == sorted(newest, reverse=True)
        await pilot.press("ctrl+r")
        ranked = [hit.node for hit in (await store.search("rounding")).hits]
        await until(pilot, lambda: [hit.node for hit in screen.query_one(HitRows).hits] == ranked)
        assert "best first" in str(screen.query_one("#page-state", Static).render())


class Slow:
    """A store whose answers come when they are let go, whatever the order of the questions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.secrets: dict[str, str] = {}
        self.asked: dict[str, asyncio.Event] = {}

    async def search(self, text: str, **rest: Any) -> SearchHits:
        gate = self.asked.setdefault(text, asyncio.Event())
        await gate.wait()
        return await self._store.search(text, **rest)

    async def around(self, node: int, window: int) -> list[Any]:
        return await self._store.around(node, window)


@pytest.mark.thorough
async def test_an_older_search_never_takes_the_place_of_a_newer_one(store: Store) -> None:
    host, slow = Host(), Slow(store)
    async with host.run_test(size=(100, 30)) as pilot:
        screen = await opened(host, slow)  # type: ignore[arg-type]
        await pilot.press(*"test")
        await until(pilot, lambda: "test" in slow.asked)
        await pilot.press(*"s are")
        await until(pilot, lambda: "tests are" in slow.asked)
        slow.asked["tests are"].set()
        await until(pilot, lambda: snippets(screen) == ["Which tests are slowest?"])
        slow.asked["test"].set()
        await pilot.pause(0.1)
        assert snippets(screen) == ["Which tests are slowest?"]


async def test_around_a_hit_stand_its_neighbours_and_the_match_is_known(store: Store) -> None:
    (hit,) = (await store.search("slowest")).hits
    nodes = await store.around(hit.node, 3)
    lines, match = excerpt_around(nodes, hit, parse("slowest"), 40, Palette(Skin()))
    texts = [line.text for line in lines]
    assert texts[0] == "Which tests are slowest?"
    assert "slowest" in texts[match]
    assert "terminal" in texts
    assert all(line.cell_length <= 40 for line in lines)


@pytest.mark.parametrize(
    ("age", "shown"), [(0, "now"), (59, "now"), (60, "1 min"), (7_200, "2 h"), (86_400 * 29, "29 d")]
)
def test_ages_are_short(age: float, shown: str) -> None:
    assert when(found.NOW - age, found.NOW) == shown


@pytest.mark.parametrize(
    ("ways", "shown"),
    [
        (("exact",), "exact"),
        (("some words", "nearby", "date"), "some words + neighbours + date"),
        (("meaning",), "meaning"),
        ((), ""),
    ],
)
def test_a_hit_says_how_it_was_found(ways: tuple[str, ...], shown: str) -> None:
    assert found_by(ways) == shown


@pytest.mark.thorough
async def test_skills_learnings_and_notes_are_hits_of_their_own_kinds_and_lead_to_themselves(
    store: Store,
) -> None:
    sources = found.shelves()
    recall = Recall(store, sources=sources)
    host = Host()
    async with host.run_test(size=(100, 30)) as pilot:
        stored = StoredSessions(store, Home(Path()), recall)
        await host.push_screen(SearchScreen(stored, "tests", now=lambda: found.NOW), host.outcomes.append)
        rows = host.screen.query_one(HitRows)
        await until(pilot, lambda: {"skills", "learnings"} <= {hit.source for hit in rows.hits})
        assert [kind_of(hit) for hit in rows.hits[:2]] in (
            ["bundled skill", "learning"],
            ["learning", "bundled skill"],
        )
        assert "messages" in {hit.source for hit in rows.hits}
        at = next(at for at, hit in enumerate(rows.hits) if hit.source == "skills")
        await pilot.press(*["down"] * at, "enter")
        await until(pilot, lambda: host.outcomes)
    assert host.outcomes == [ChosenNote("skills", "test-first", f"{found.SKILL}\ntests")]
    await recall.close()


def test_a_passage_is_shown_whole_beside_its_row() -> None:
    hit = SearchHit(
        0, "", "test-first", "bundled", 0.0, "Write", "", "", source="skills", text="Write\nit down"
    )
    lines, match = excerpt_around([], hit, parse("down"), 40, Palette(Skin()))
    assert [strip.text.strip() for strip in lines] == ["test-first", "bundled skill", "", "Write", "it down"]
    assert match == 0
