"""What is drawn: every screen with content, with nothing to show, and with an error."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.screen import Screen

from agent.automation.schedule.book import JobBook
from agent.core.config.schema import LearningSettings
from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.knowledge.learnings.store import learning_book
from agent.safety.grants import Grants
from app.tui.screens.agents.agents_kinds import KindsScreen
from app.tui.screens.context import ContextScreen
from app.tui.screens.history.compare import BranchesScreen, CompareScreen
from app.tui.screens.history.restoring import RewindScreen
from app.tui.screens.logviewer import LogScreen, LogTail
from app.tui.screens.models.models import ModelsScreen
from app.tui.screens.plugins import PluginsScreen
from app.tui.screens.servers import ServerFile, ServersScreen
from app.tui.screens.usage import UsageScreen
from docs.make_pictures import PICTURES
from tests.app.tui import test_learnings_screen, test_memory_screen, test_schedule_screen, web_stage
from tests.app.tui.closing_stage import OPENED, Opened, World, at_once, world
from tests.app.tui.going_back_stage import BRANCHES, comparison, rewind
from tests.app.tui.test_agents_kinds import BROKEN
from tests.app.tui.test_agents_kinds import Menu as KindsMenu
from tests.app.tui.test_models_screen import Menu as ModelsMenu
from tests.app.tui.test_plugins_screen import Shown as PluginShelf
from tests.app.tui.test_servers_screen import Stand as ServerStand
from tests.app.tui.test_settings_screen import FileKeeper
from tests.app.tui.test_usage_screen import EMPTY as NO_USAGE
from tests.app.tui.timeline_stage import Book
from tests.support.staged import Act

Kinds = Mapping[type[Screen[Any]], Opened]
STATES = ("content", "empty", "error")
LOST = ConfigError("~/.hermes/config.yaml, line 3: this cannot be read; correct it, or take it away.")


class NoModels(ModelsMenu):
    """Nothing is set up, and the settings cannot be read."""

    async def list_choices(self) -> Any:
        raise LOST

    async def detect_choices(self) -> Any:
        raise LOST


def _raises(*_: Any) -> Any:
    async def count() -> Any:
        raise HermesError("The session is closed; open it again with /resume.")

    return count()


def _no_servers(*_: Any) -> ServersScreen:
    stand: Any = ServerStand(())
    return ServersScreen(stand, ServerFile(Home(Path()), Path()))


def _no_plugins(*_: Any) -> PluginsScreen:
    plugins: Any = PluginShelf([])
    return PluginsScreen(plugins)


def _no_models(*_: Any) -> ModelsScreen:
    menu: Any = NoModels()
    return ModelsScreen("demo", menu)


EMPTY: Kinds = {
    BranchesScreen: Opened(at_once(lambda *_: BranchesScreen(BRANCHES[:1]))),
    CompareScreen: Opened(at_once(lambda *_: CompareScreen(comparison(alike=True)))),
    KindsScreen: Opened(at_once(lambda *_: KindsScreen(KindsMenu([])))),
    PluginsScreen: Opened(at_once(_no_plugins)),
    RewindScreen: Opened(at_once(lambda *_: RewindScreen(rewind(())))),
    ServersScreen: Opened(at_once(_no_servers)),
    UsageScreen: Opened(at_once(lambda *_: UsageScreen(lambda: _soon(NO_USAGE)))),
}
"""Screens that are given what they show, with nothing in it."""
BROKEN_ONES: Kinds = {
    ContextScreen: Opened(at_once(lambda *_: ContextScreen(_raises))),
    KindsScreen: Opened(at_once(lambda *_: KindsScreen(KindsMenu([BROKEN], str(LOST))))),
    LogScreen: Opened(at_once(lambda world, _: LogScreen(LogTail(world.folder, {})))),
    ModelsScreen: Opened(at_once(_no_models)),
    RewindScreen: Opened(at_once(lambda *_: RewindScreen(rewind(kept=False)))),
    UsageScreen: Opened(at_once(lambda *_: UsageScreen(_raises))),
}
"""The same, with sources that fail."""
NAMES = "Approvals Audit Learnings Memory Schedule Search Sessions Settings Timeline"
STORED = {f"{name}Screen" for name in NAMES.split(" ")}
"""Screens over files and the store of a world: an empty world, or one that cannot be read, is enough."""


async def _soon(what: Any) -> Any:
    return what


@asynccontextmanager
async def world_of(state: str, folder: Path) -> AsyncIterator[World]:
    """Files and a store: full, empty, or full and unreadable."""
    if state == "empty":
        (home := folder / "home").mkdir()
        async with await Store.open(folder / "state.db") as store:
            session = await store.create_session(workspace="/home/ada/payments-api", model="demo")
            (folder / "hermes.log").touch()
            yield World(
                folder,
                store,
                Book(store, session.id),
                Grants(folder, folder / "grants.json", session="s1"),
                FileKeeper(Home(home), {}),
            )
        return
    async with world(folder) as made:
        learnings = learning_book(made.store.database, folder, LearningSettings.model_validate({}), {})
        for each in test_learnings_screen.KNOWN:
            await learnings.store.keep(each)
        now = test_schedule_screen.NOW
        await test_schedule_screen.filled(
            made.store, JobBook(made.store.database, folder / "schedule", lambda: now)
        )
        test_memory_screen.filled(folder, attack=state == "error")
        (folder / "browser").mkdir()
        web_stage.page_folder(folder / "browser")
        if state == "error":
            await _break(made)
        yield made


async def _break(made: World) -> None:
    """Leave tables as by a newer version, and files that say nothing."""
    for table in ("jobs", "learnings", "sessions"):

        def rename(connection: sqlite3.Connection, table: str = table) -> None:
            connection.execute(f"ALTER TABLE {table} RENAME TO lost_{table}")

        await made.store.database.write(rename)
    for path in made.audit.glob("*"):
        path.write_bytes(b"\x00torn\n")
    made.keeper.home.config.write_text("model: {name: [unclosed\n")


def kinds_of(state: str) -> dict[str, Opened]:
    """Return what is opened in a state, by name."""
    if state == "content":
        return {kind.__name__: opened for kind, opened in OPENED.items()}
    own = EMPTY if state == "empty" else BROKEN_ONES
    stored = {kind.__name__: opened for kind, opened in OPENED.items() if kind.__name__ in STORED}
    return stored | {kind.__name__: opened for kind, opened in own.items()}


def acts() -> dict[str, Act]:
    """Return what happens in sessions, by name."""
    return {f"session: {name}": act for name, act, _, _ in PICTURES}
