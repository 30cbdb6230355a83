"""Every screen of the application over real data, and how each is opened."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from textual.screen import Screen

import app
from agent.automation.schedule.book import JobBook
from agent.core.config.schema import LearningSettings
from agent.core.home import Home
from agent.core.store.store import Store
from agent.integrations.extras import ExtrasChange
from agent.knowledge.learnings.store import learning_book
from agent.knowledge.memory.service import MemoryFiles
from agent.model.detect import DetectedServer
from agent.model.local.sources import STANDARD
from agent.model.providers import NoModelError
from agent.safety.grants import Grants
from agent.session.conversation.stored_sessions import StoredSessions
from agent.session.pending_requests import Approvals
from agent.session.subagents.agents import AgentConversation
from app.tui.commands.keys import resolve
from app.tui.commands.merging import MergeScreen
from app.tui.conversation.agent_screen import AgentScreen
from app.tui.conversation.session_screen import ConversationScreen, SessionScreen
from app.tui.questions.dialogs import (
    ApprovalDialog,
    CeilingDialog,
    ClarifyDialog,
    ForecastDialog,
    RequestDialog,
)
from app.tui.questions.form_dialog import FormDialog
from app.tui.screens.agents.agents_kinds import KindsScreen
from app.tui.screens.approvals import ApprovalsScreen, AuditScreen
from app.tui.screens.browser import BrowserScreen
from app.tui.screens.closable import ClosableModal, ClosableScreen
from app.tui.screens.context import ContextScreen
from app.tui.screens.dialog import ChangeDialog, ConfirmDialog, DetailScreen, Dialog, TextDialog
from app.tui.screens.entry_page import CountedPage, EntryForm, EntryPage, FormLine, ListPage
from app.tui.screens.extra_dialog import ExtraDialog
from app.tui.screens.help import HelpScreen, here
from app.tui.screens.history.compare import BranchesScreen, CompareScreen
from app.tui.screens.history.restoring import HunkScreen, RestoringScreen, RewindScreen
from app.tui.screens.history.timeline import TimelineScreen
from app.tui.screens.history.timeline_files import (
    BRING_BACK,
    FileDifferenceRow,
    FileScreen,
    FilesScreen,
    TimelinePick,
)
from app.tui.screens.logviewer import LogScreen, LogTail
from app.tui.screens.memory import LearningsScreen, MemoryScreen
from app.tui.screens.models.key_dialog import FetchDialog, KeyDialog, ProviderDialog, ServerDialog
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.models.models import ModelsScreen, OnboardingScreen, ProvidersScreen
from app.tui.screens.page import Page, SplitPage
from app.tui.screens.palette import PaletteScreen
from app.tui.screens.plugins import PluginsScreen
from app.tui.screens.schedule import ScheduleScreen
from app.tui.screens.servers import ServerFile, ServersScreen, SignInDialog
from app.tui.screens.sessions.sessions import SearchScreen, SessionsScreen
from app.tui.screens.settings.settings import ChoiceEditor, LineEditor, SettingRow, SettingsScreen
from app.tui.screens.skills import CandidateScreen, SkillOffersScreen, SkillsScreen
from app.tui.screens.skins.skins import SkinEditorScreen, SkinsScreen
from app.tui.screens.usage import UsageScreen
from tests.app.tui.going_back_stage import BRANCHES, HUNKS, PLAN, RESTORE, comparison, rewind
from tests.app.tui.setup_stage import PROVIDER, Doubtful, Halfway
from tests.app.tui.test_agents_kinds import KINDS
from tests.app.tui.test_agents_kinds import Menu as KindsMenu
from tests.app.tui.test_audit_screen import RULINGS
from tests.app.tui.test_audit_screen import add as add_rulings
from tests.app.tui.test_context_screen import FULL as CONTEXT
from tests.app.tui.test_logviewer import LINES
from tests.app.tui.test_models_screen import Menu as ModelsMenu
from tests.app.tui.test_plugins_screen import ROWS as PLUGINS
from tests.app.tui.test_plugins_screen import Shown as PluginShelf
from tests.app.tui.test_servers_screen import Stand as ServerStand
from tests.app.tui.test_servers_screen import form as server_form
from tests.app.tui.test_settings_screen import OWN, FileKeeper
from tests.app.tui.test_skill_offers import market as skill_market
from tests.app.tui.test_skills_screen import shelf as skill_shelf
from tests.app.tui.test_usage_screen import FULL as USAGE
from tests.app.tui.timeline_stage import Book, three
from tests.support import found, story
from tests.support.staged import Staged
from tools.services.actions import RunCommand
from widgets.timeline.diff_rows import DiffRows


@dataclass(frozen=True)
class World:
    """What the screens show: files and stores in a folder of the test's own."""

    folder: Path
    store: Store
    book: Book
    grants: Grants
    keeper: FileKeeper

    @property
    def audit(self) -> Path:
        return self.folder / "audit"

    @property
    def log(self) -> Path:
        return self.folder / "hermes.log"


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Sessions with branches and files, rulings, grants, settings and a log."""
    home = folder / "home"
    home.mkdir()
    (home / "config.yaml").write_text(OWN, encoding="utf-8")
    async with await found.filled(folder / "state.db") as store:
        session = await store.create_session(workspace="/home/ada/payments-api", model="demo")
        book = Book(store, session.id)
        await three(book)
        grants = Grants(folder, folder / "grants.json", session="s1")
        grant = grants.prepare(RunCommand(tool="terminal", command="make test", cwd=folder), "always")
        assert grant is not None
        await grants.give(grant)
        made = World(folder, store, book, grants, FileKeeper(Home(home), {}))
        add_rulings(made.audit, *RULINGS)
        made.log.write_text("".join(LINES), encoding="utf-8")
        yield made


Opener = Callable[[World, Staged], Awaitable[Screen[Any]]]


def stored(world: World) -> StoredSessions:
    """Its sessions, as screens ask for them."""
    return StoredSessions(world.store, Home(world.folder))


class Opened(NamedTuple):
    """How a screen is made, and what is pressed there first of all."""

    make: Opener
    key: str = "enter"


async def _soon(what: Any) -> Any:
    await asyncio.sleep(0)
    return what


def at_once(make: Callable[[World, Staged], Screen[Any]]) -> Opener:
    """For screens that are made without waiting for anything."""

    async def made(world: World, app: Staged) -> Screen[Any]:
        return make(world, app)

    return made


async def _settings(world: World, _app: Staged) -> SettingsScreen:
    return SettingsScreen(await world.keeper.read(), world.keeper)


async def _setting(world: World, app: Staged, kind: str) -> SettingRow:
    listed = (await _settings(world, app)).list.rows
    return next(row for row in listed if row.kind == kind)


async def _line_editor(world: World, app: Staged) -> LineEditor:
    row = await _setting(world, app, "text")
    return LineEditor(row, lambda text: world.keeper.change(row.key, text))


async def _choice_editor(world: World, app: Staged) -> ChoiceEditor:
    return ChoiceEditor(await _setting(world, app, "choice"))


async def _hunks(_world: World, _app: Staged) -> HunkScreen:
    parted = await RESTORE.parted(HUNKS.items[0], False)
    return HunkScreen(FileDifferenceRow(HUNKS.items[0].path), parted, {1}, lambda _taken: None)


def _file(_world: World, _app: Staged) -> FileScreen:
    rows = DiffRows()
    rows.show(story.DIFF, "")
    return FileScreen(FileDifferenceRow("src/money.py", added=3, removed=2), rows=rows)


async def _agent(_world: World, app: Staged) -> AgentScreen:
    while not app.session.panes_mounted:
        await asyncio.sleep(0)
    setattr(app.agents, "past", lambda _agent: _soon(AgentConversation((), ())))  # noqa: B010 - no engine on this stage
    return AgentScreen("agent-1", app.agents, app.bridge)


def _onboarding(_world: World, app: Staged) -> OnboardingScreen:
    servers = [DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3-coder:30b",))]
    return OnboardingScreen(NoModelError((), servers), app.paste_into_draft)


def _timeline_files(world: World, _app: Staged) -> FilesScreen:
    return FilesScreen(world.book.difference, world.book.sides, (2, "one"), (8, "other"))


def _fresh(world: World) -> Path:
    return Path(mkdtemp(dir=world.folder))


def _candidate(world: World, _app: Staged) -> CandidateScreen:
    market = skill_market(_fresh(world))
    with market.candidate(market.find("deploy").offers[0]) as found:
        return CandidateScreen(found)


OPENED: dict[type[Screen[Any]], Opened] = {
    AgentScreen: Opened(_agent),
    ApprovalDialog: Opened(at_once(lambda _, app: ApprovalDialog(story.approval(), app.paste_into_draft))),
    ApprovalsScreen: Opened(at_once(lambda world, _: ApprovalsScreen(Approvals(world.grants, list))), "x"),
    AuditScreen: Opened(at_once(lambda world, _: AuditScreen(world.audit)), "v"),
    BrowserScreen: Opened(at_once(lambda world, _: BrowserScreen(world.folder / "browser")), "p"),
    BranchesScreen: Opened(at_once(lambda *_: BranchesScreen(BRANCHES)), "R"),
    CeilingDialog: Opened(at_once(lambda _, app: CeilingDialog(story.ceiling(), app.paste_into_draft))),
    ChangeDialog: Opened(
        at_once(lambda *_: ChangeDialog("Enable it?", "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n", "Enable")),
        "o",
    ),
    ChoiceEditor: Opened(_choice_editor),
    ClarifyDialog: Opened(at_once(lambda _, app: ClarifyDialog(story.question(), app.paste_into_draft))),
    CompareScreen: Opened(at_once(lambda *_: CompareScreen(comparison()))),
    ConfirmDialog: Opened(at_once(lambda *_: ConfirmDialog("Delete it?", "Delete it"))),
    ContextScreen: Opened(at_once(lambda *_: ContextScreen(lambda: _soon(CONTEXT))), "r"),
    DetailScreen: Opened(at_once(lambda *_: DetailScreen("Call", story.DIFF)), "w"),
    FileScreen: Opened(at_once(_file), "w"),
    FilesScreen: Opened(at_once(_timeline_files), "x"),
    FetchDialog: Opened(at_once(lambda *_: FetchDialog(STANDARD, Halfway(), lambda _message: None))),
    ForecastDialog: Opened(at_once(lambda _, app: ForecastDialog(story.forecast(), app.paste_into_draft))),
    FormDialog: Opened(at_once(lambda _, app: FormDialog(server_form(), app.paste_into_draft))),
    HelpScreen: Opened(
        at_once(lambda _, app: HelpScreen(here(app.screen, resolve({})), resolve({}))), "slash"
    ),
    HunkScreen: Opened(_hunks, "space"),
    EntryForm: Opened(
        at_once(lambda *_: EntryForm("A new job", "About it.", [FormLine("name", "Name")], _soon))
    ),
    ExtraDialog: Opened(at_once(lambda *_: ExtraDialog("serve", "It is needed.", ExtrasChange(("true",))))),
    ServerDialog: Opened(at_once(lambda *_: ServerDialog(Doubtful()))),
    KeyDialog: Opened(at_once(lambda *_: KeyDialog(PROVIDER, Doubtful()))),
    KindsScreen: Opened(at_once(lambda *_: KindsScreen(KindsMenu(KINDS))), "n"),
    LearningsScreen: Opened(
        at_once(
            lambda world, _: LearningsScreen(
                learning_book(world.store.database, world.folder, LearningSettings.model_validate({}), {})
            )
        ),
        "a",
    ),
    LineEditor: Opened(_line_editor),
    LogScreen: Opened(at_once(lambda world, _: LogScreen(LogTail(world.log, {})))),
    MemoryScreen: Opened(
        at_once(lambda world, _: MemoryScreen(MemoryFiles(world.folder / "memories", world.folder))), "a"
    ),
    MergeScreen: Opened(at_once(lambda *_: MergeScreen(PLAN, RESTORE, agent="prices")), "b"),
    ModelsScreen: Opened(at_once(lambda *_: ModelsScreen("demo", ModelsMenu())), "d"),
    OnboardingScreen: Opened(at_once(_onboarding)),
    PaletteScreen: Opened(at_once(lambda *_: PaletteScreen()), "a"),
    PluginsScreen: Opened(at_once(lambda *_: PluginsScreen(PluginShelf(list(PLUGINS)))), "d"),
    TimelinePick: Opened(at_once(lambda *_: TimelinePick("Which?", BRING_BACK))),
    ProviderDialog: Opened(at_once(lambda *_: ProviderDialog([PROVIDER]))),
    ProvidersScreen: Opened(at_once(lambda world, _: ProvidersScreen(ModelMenu(world.folder))), "n"),
    RestoringScreen: Opened(at_once(lambda *_: RestoringScreen(PLAN, RESTORE)), "a"),
    RewindScreen: Opened(at_once(lambda *_: RewindScreen(rewind()))),
    ScheduleScreen: Opened(
        at_once(
            lambda world, _: ScheduleScreen(
                JobBook(world.store.database, world.folder / "schedule"), lambda: None
            )
        ),
        "p",
    ),
    SearchScreen: Opened(at_once(lambda world, _: SearchScreen(stored(world), "round")), "o"),
    SessionsScreen: Opened(at_once(lambda world, _: SessionsScreen(stored(world), "")), "r"),
    ServersScreen: Opened(
        at_once(lambda *_: ServersScreen(ServerStand(), ServerFile(Home(Path()), Path()))), "r"
    ),
    SettingsScreen: Opened(_settings),
    SignInDialog: Opened(at_once(lambda *_: SignInDialog(ServerStand(), "linear", {}))),
    SkillsScreen: Opened(at_once(lambda world, _: SkillsScreen(skill_shelf(_fresh(world)))), "s"),
    SkillOffersScreen: Opened(
        at_once(lambda world, _: SkillOffersScreen(skill_market(_fresh(world)), "")), "s"
    ),
    CandidateScreen: Opened(at_once(_candidate), "i"),
    SkinEditorScreen: Opened(
        at_once(lambda _, app: SkinEditorScreen(app.appearance, app.appearance.skin)), "s"
    ),
    SkinsScreen: Opened(at_once(lambda _, app: SkinsScreen(app.appearance)), "down"),
    TextDialog: Opened(at_once(lambda *_: TextDialog("New title", "Fix the rounding"))),
    TimelineScreen: Opened(at_once(lambda world, _: TimelineScreen(world.book)), "r"),
    UsageScreen: Opened(at_once(lambda *_: UsageScreen(lambda: _soon(USAGE))), "r"),
}
"""Every screen that lies over the session's own."""
BASES = {
    RequestDialog,
    ClosableScreen,
    ClosableModal,
    ConversationScreen,
    Page,
    ListPage,
    CountedPage,
    SplitPage,
    EntryPage,
    Dialog,
}
"""What others are made of; never shown themselves."""


def screens_of_ours() -> set[type[Screen[Any]]]:
    """All classes of screens there are."""
    for module in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
        importlib.import_module(module.name)

    def below(kind: type[Screen[Any]]) -> Iterator[type[Screen[Any]]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    return {each for each in below(Screen) if each.__module__.startswith("app.")} - {SessionScreen}
