"""Commands that open screens about the program, start the tour or set the vi keys."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

from agent.errors import HermesError
from app.tui.commands.registry import read_commands
from app.tui.conversation import active_conversation
from app.tui.conversation.session_host import SessionRequest

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from app.tui.commands.actions import ActionContext
    from app.tui.commands.slash_menu import SkillNamesPort


async def learnings(app: AppContext, argument: str) -> None:
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.core.store.store import Store
    from agent.knowledge.learnings.store import learning_book
    from app.tui.conversation.open_search_hit import show_place
    from app.tui.screens.memory import LearningsScreen

    workspace = app.need_client().workspace
    home = Home.locate()
    secrets = await asyncio.to_thread(secrets_of_home)
    settings = await asyncio.to_thread(lambda: load(home, dict(os.environ), workspace).settings)
    # A separate connection, as the engine may run in another process.
    async with await Store.open(home.database, secrets=secrets) as store:
        book = await asyncio.to_thread(learning_book, store.database, workspace, settings.learnings, secrets)
        source = await app.push_screen_wait(LearningsScreen(book, at=argument))
    if source is not None:
        await show_place(app, source.session, source.node)


async def memory(app: AppContext, argument: str) -> None:
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.session.conversation.session_prompt import memory_files
    from agent.session.wiring.plugin_memory import kept_elsewhere
    from app.tui.conversation.open_search_hit import show_place
    from app.tui.screens.memory import MemoryScreen

    client = app.need_client()
    home = Home.locate()
    settings = await asyncio.to_thread(lambda: load(home, dict(os.environ), client.workspace).settings)
    if keeper := await asyncio.to_thread(kept_elsewhere, home, client.workspace, settings):
        app.show_notice(
            f"The plugin service {keeper} keeps the notes of sessions here; these files are not used."
        )
    source = await app.push_screen_wait(
        MemoryScreen(memory_files(home, client.workspace, settings), at=argument)
    )
    if source is not None:
        await show_place(app, source.session, source.node)


async def plugins(app: AppContext, _argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.plugins import DiskPlugins, PluginsScreen

    home = await asyncio.to_thread(Home.locate)
    client = app.need_client()
    failures = {each.plugin: each for each in await client.plugins.failures()}
    await app.push_screen_wait(PluginsScreen(DiskPlugins(home, client.workspace, failures)))


async def providers(app: AppContext, argument: str) -> None:
    from app.tui.screens.models.model_menu import ModelMenu
    from app.tui.screens.models.models import ProvidersScreen

    await app.push_screen_wait(ProvidersScreen(ModelMenu(app.message_sender.workspace), argument))


async def schedule(app: AppContext, _argument: str) -> None:
    from agent.automation.schedule.book import JobBook, JobNeeds
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.home import Home
    from agent.core.store.store import Store
    from app.tui.conversation.background_watch import RunStarter
    from app.tui.screens.schedule import ScheduleScreen

    home = Home.locate()
    secrets = await asyncio.to_thread(secrets_of_home)
    # A separate connection, as the engine may run in another process.
    async with await Store.open(home.database, secrets=secrets) as store:
        book = JobBook(store.database, home.schedule, needs=JobNeeds(home))
        await app.push_screen_wait(ScheduleScreen(book, RunStarter().begin))


async def servers(app: AppContext, argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.servers import ServerFile, ServersScreen

    client = app.need_client()
    file = ServerFile(Home.locate(), client.workspace)
    await app.push_screen_wait(ServersScreen(client.servers, file, argument))


async def skill_install(app: AppContext, argument: str) -> None:
    from app.tui.screens.dialog import TextDialog
    from app.tui.screens.skills import WHAT, SkillOffersScreen, market_of

    client = app.need_client()
    text = argument.strip() or await app.push_screen_wait(TextDialog(WHAT, enters="search"))
    if text is None:
        return
    market = await asyncio.to_thread(market_of, client.workspace)
    await app.push_screen_wait(SkillOffersScreen(market, text))


async def skills(app: SkillNamesPort, argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.skills import DiskShelf, SkillsScreen

    client = app.need_client()
    shelf = DiskShelf(await asyncio.to_thread(Home.locate), client.workspace)
    name = await app.push_screen_wait(SkillsScreen(shelf, at=argument))
    await app.skills.refresh()
    if name is not None:
        active_conversation.prompt(app).set_text(f"/{name} ")


async def tour(app: AppContext, _words: str) -> None:
    before = app.need_client()
    if before.busy:
        raise HermesError("A turn is running; stop it (esc) or wait for its end, then send /tour again.")
    id = before.id if any(node.kind == "user" for node in before.path) else ""
    app.tour = True
    try:
        await app.open_session(SessionRequest(fresh=True, tour=True))
    finally:
        app.tour = False
    back = f"/resume {id} goes back to your session" if id else "/new leaves it"
    app.session.transcript.add_notice("info", f"The tour works in {app.need_client().workspace}; {back}.")


async def vim(app: AppContext, _words: str) -> None:
    on = not app.session.prompt.vi
    await cast("ActionContext", app).preferences.change("display.vi", "true" if on else "false")
    app.show_notice("The prompt takes vi keys." if on else "The prompt takes plain keys again.")


_TABLE = """\
View:
view.vim; Vi keys; vim; ; /vim
    Switch the vi keys of the prompt on or off (display.vi).
Program:
program.learnings; Learnings; learnings; ; /learnings
    What failed and what worked: read, search, add, reword, confirm, delete.
program.memory; Memory; memory; ; /memory
    What is remembered between sessions: read, search, add, edit, delete.
program.plugins; Plugins; plugins; ; /plugins
    What plugins there are: what they bring and may do, enable and disable them.
program.providers; Providers; providers; ; /providers [provider | add]
    Providers of models: add one by its address, check it, enter its key, delete it.
program.schedule; Schedule; schedule; ; /schedule
    Jobs on time: next and last runs, what they took, run now, pause, delete.
program.servers; MCP servers; servers; ; /mcp [server | add]
    Servers that bring tools: add and delete, tools, log; restart, agree to what changed.
program.install_skill; Install a skill; skill_install; ; /install-skill [words, or owner/repository/folder]
    Search skills in the sources of the settings, see files and findings, install after a yes.
program.skills; Skills; skills; ; /skills
    What skills there are: read, search, run, switch on and off, see what a scan finds.
program.tour; Take the tour; tour; ; /tour
    Five minutes with a scripted model in a folder of its own; your session is kept.
"""

COMMANDS = read_commands(
    _TABLE, learnings, memory, plugins, providers, schedule, servers, skill_install, skills, tour, vim
)
