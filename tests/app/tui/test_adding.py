"""Servers, jobs, plugins and providers are added on their screens; what is wrong is said in the dialog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from agent.automation.schedule.book import JobBook
from agent.core.config.edit import put_entry
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.integrations.plugins.installing import create
from app.tui.screens.dialog import ProblemLine
from app.tui.screens.entry_page import EntryForm, EntryPage
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.models.models import ModelsScreen, ProvidersScreen
from app.tui.screens.plugins import DiskPlugins, PluginsScreen
from app.tui.screens.schedule import ScheduleScreen
from app.tui.screens.servers import NEXT, ServerFile, ServersScreen
from tests.app.tui.pages import PageHost, lines_of
from tests.support.waiting import until


class NoServers:
    """A session without servers."""

    async def states(self) -> tuple[()]:
        return ()


async def form(pilot: Pilot[Any]) -> EntryForm[Any]:
    await until(pilot, lambda: isinstance(pilot.app.screen, EntryForm), "the form")
    return pilot.app.screen  # type: ignore[return-value]


async def fill(pilot: Pilot[Any], *texts: str) -> None:
    """Write the lines of a form and press enter."""
    for place, text in zip((await form(pilot)).query(Input), texts, strict=True):
        place.value = text
    await pilot.press("enter")


async def problem(pilot: Pilot[Any], words: str) -> None:
    said = (await form(pilot)).query_one(ProblemLine)
    await until(pilot, lambda: said.display and words in str(said.content), words)


async def list_page(host: PageHost, pilot: Pilot[Any], *names: str) -> EntryPage[Any, Any]:
    await until(pilot, lambda: isinstance(host.screen, EntryPage) and host.screen.loaded, "the list")
    screen: Any = host.screen
    await until(pilot, lambda: [getattr(each, "name", "") for each in screen.listed.entries] == [*names])
    return screen


async def test_a_server_is_added_deleted_and_put_back_on_its_screen(tmp_path: Path) -> None:
    home = Home(tmp_path)
    host = PageHost(lambda: ServersScreen(NoServers(), ServerFile(home, tmp_path)))  # type: ignore[arg-type]
    async with host.run_test(size=(80, 24)) as pilot:
        screen = await list_page(host, pilot)
        assert "Press n to add one" in screen.listed.empty
        await pilot.press("n")
        await fill(pilot, "notes", "npx -y 'a server")
        await problem(pilot, "close its quotes")
        await fill(pilot, "not es", "cat")
        await problem(pilot, "needs a name")
        await fill(pilot, "notes", "npx -y 'a server'")
        await list_page(host, pilot, "notes")
        own = load(home, {}).settings.mcp_servers["notes"]
        assert (own.command, own.args) == ("npx", ["-y", "a server"]) and NEXT in host.told[-1]
        await pilot.press("d")
        await list_page(host, pilot)
        assert "notes" not in load(home, {}).settings.mcp_servers
        await pilot.press("u")
        await list_page(host, pilot, "notes")
        assert load(home, {}).settings.mcp_servers["notes"] == own


def test_a_server_with_an_address_is_told_by_its_address_and_no_name_is_taken_twice(tmp_path: Path) -> None:
    file = ServerFile(Home(tmp_path), tmp_path)
    file.add("far", "https://mcp.example.org/mcp")
    assert load(Home(tmp_path), {}).settings.mcp_servers["far"].url == "https://mcp.example.org/mcp"
    with pytest.raises(HermesError, match="already"):
        file.add("far", "cat")
    with pytest.raises(HermesError, match="own settings"):
        file.remove("project-server")


@pytest.mark.thorough
async def test_a_job_is_added_on_its_screen(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        book = JobBook(store.database, tmp_path / "schedule")
        host = PageHost(lambda: ScheduleScreen(book, lambda: None))
        async with host.run_test(size=(80, 24)) as pilot:
            await list_page(host, pilot)
            await pilot.press("n")
            await fill(pilot, "whenever", "look at the mail")
            await problem(pilot, "whenever")
            await fill(pilot, "every 2h", "look at the mail")
            await until(pilot, lambda: len(host.screen.listed.entries) == 1)  # type: ignore[attr-defined]
        assert [job.intent.prompt for job in await book.jobs()] == ["look at the mail"]


async def test_a_plugin_is_copied_and_waits_for_a_yes(tmp_path: Path) -> None:
    create(tmp_path / "work" / "counting")
    home = Home(tmp_path / "home")
    host = PageHost(lambda: PluginsScreen(DiskPlugins(home, tmp_path / "work")))
    async with host.run_test(size=(80, 24)) as pilot:
        await list_page(host, pilot)
        await pilot.press("n")
        await fill(pilot, "nowhere")
        await problem(pilot, "neither a folder")
        await fill(pilot, "counting")
        screen = await list_page(host, pilot, "counting")
        assert screen.listed.entries[0].state == "disabled" and (home.plugins / "counting").is_dir()
        await pilot.press("n")
        await fill(pilot, "counting")
        await problem(pilot, "already")


async def test_a_provider_is_asked_deleted_and_put_back_on_its_screen(tmp_path: Path) -> None:
    home = Home(tmp_path)
    put_entry(home, ("providers", "mine"), {"base_url": "http://127.0.0.1:9/v1"})
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path)})
    host = PageHost(lambda: ProvidersScreen(menu, "mine"))
    async with host.run_test(size=(120, 40)) as pilot:
        await until(
            pilot, lambda: isinstance(host.screen, ProvidersScreen) and host.screen.loaded, "the list"
        )
        screen: Any = host.screen
        assert [row["name"] for row in screen.listed.entries[:1]] == ["mine"]
        assert screen.pointed["name"] == "mine"
        await pilot.press("f5")
        await until(pilot, lambda: "✗" in screen.about(screen.pointed).plain, "the answer")
        await pilot.press("d")
        await until(pilot, lambda: all(row["name"] != "mine" for row in screen.listed.entries), "no mine")
        assert load(home, {}).settings.providers == {}
        await pilot.press("d")
        await until(pilot, lambda: any("built in and stays" in said for said in host.told), "the refusal")
        await pilot.press("u")
        await until(pilot, lambda: screen.pointed["name"] == "mine", "mine again")
        assert load(home, {}).settings.providers["mine"].base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("opener", ["enter", "slash"])
async def test_models_that_need_a_key_are_one_line_that_opens(tmp_path: Path, opener: str) -> None:
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path), "OPENAI_API_KEY": "sk-x"})
    host = PageHost(lambda: ModelsScreen("", menu))
    async with host.run_test(size=(80, 40)) as pilot:
        shown = lambda: "\n".join(lines_of(host.screen.rows))  # type: ignore[attr-defined] # noqa: E731
        await until(pilot, lambda: isinstance(host.screen, ModelsScreen) and "openai/" in shown(), "models")
        rows: Any = host.screen.rows  # type: ignore[attr-defined]
        assert "more need a key ⏎" in shown() and "anthropic" not in shown()
        rows.move_to(rows.count - 2)
        await pilot.press(opener)
        await until(pilot, lambda: "more need a key" not in shown(), "the others")
        assert "anthropic/" in shown()
