"""The slash commands and skills that the prompt and the palette offer by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from app.tui.commands.registry import (
    BY_ID,
    BY_SLASH,
    COMMANDS,
    GROUPS,
    SLASH_ALIASES,
    all_commands,
    find_commands,
    register_commands,
)
from app.tui.conversation import active_conversation
from app.tui.startup.preload import yielding_thread
from widgets.prompt.completion import CommandChoice

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agent.core.config.schema import Settings
    from app.tui.app_context import AppContext
    from app.tui.commands.keys import Keys
    from app.tui.conversation.saved_layout import SavedLayout
    from app.tui.screens.palette import PaletteEntry
    from widgets.prompt.widget import Prompt

    class SkillNamesPort(AppContext, Protocol):
        """The members of the application that are needed to offer skills by name."""

        @property
        def skills(self) -> SkillNames: ...


SHOWN = 120
"""The number of characters of a description that menus show."""
FIRST_WORDS = ("model", "undo", "rewind", "resume", "new", "compact", "usage", "timeline", "skin", "help")
"""The slash commands that users look for first, in this order."""
MOST_RECENT = 5
"""The number of last used commands that the palette shows on top."""


def aliases_of(word: str) -> tuple[str, ...]:
    """Return the aliases of a slash command, such as `exit` for `quit`. Pure."""
    return tuple(alias for alias, meant in SLASH_ALIASES.items() if meant == word)


def offer_commands(prompt: Prompt, skills: Iterable[CommandChoice] = (), keys: Keys | None = None) -> None:
    """Make the prompt offer all commands known so far, `FIRST_WORDS` first, then the skills."""
    words = dict.fromkeys((*(each for each in FIRST_WORDS if each in BY_SLASH), *BY_SLASH))
    commands = [
        CommandChoice(
            word,
            each.description.replace("`", ""),
            each.argument_hint,
            keys.label(each.id) if keys is not None else each.keys_shown,
            aliases_of(word),
        )
        for word in words
        for each in (BY_SLASH[word],)
    ]
    prompt.completer.commands = [*commands, *(each for each in skills if each.name not in BY_SLASH)]


def recent_ids(layout: SavedLayout | None) -> list[str]:
    """Return the ids of the commands used last that still exist, newest first."""
    found = layout.part("commands").get("recent") if layout is not None else None
    return [each for each in found if each in BY_ID] if isinstance(found, list) else []


def note_recent(layout: SavedLayout | None, id: str) -> None:
    """Record in the saved layout that a command was used."""
    if layout is not None:
        before = [each for each in recent_ids(layout) if each != id]
        layout.note("commands", {"recent": [id, *before][:MOST_RECENT]})


def palette_entries(app: AppContext, layout: SavedLayout | None) -> Iterator[PaletteEntry]:
    """Yield palette entries: the commands used last, all commands by group, then the skills.

    The groups omit the palette's own command and those that the prompt handles.
    """
    from app.tui.screens.palette import RECENT, PaletteEntry

    def entry(id: str, group: str) -> PaletteEntry:
        command = BY_ID[id]
        words = (command.slash, *aliases_of(command.slash)) if command.slash else ()

        def run() -> None:
            note_recent(layout, id)
            app.action_order(id)

        about = command.description.replace("`", "")
        return PaletteEntry(group, command.name, about, run, words, app.keys.label(id))

    yield from (entry(id, RECENT) for id in recent_ids(layout))
    for group in GROUPS:
        for each in all_commands():
            if each.group == group and not each.by_prompt and each.action != "palette":
                yield entry(each.id, group)
    yield from cast("SkillNamesPort", app).skills.palette()


async def add_found_commands(app: AppContext) -> None:
    """Import the commands declared in files of their own; offer them and the panes' commands, and bind their
    keys.
    """
    await yielding_thread(find_commands)
    register_commands(app.session.pane_commands)
    for command in all_commands():
        # An earlier application in this process may have found them already.
        if command.keys and not command.by_prompt and command not in COMMANDS:
            keys = ",".join(command.keys)
            app.bind(keys, f"order('{command.id}')", description=command.name, show=False)
    offer_commands(app.session.prompt, keys=app.keys)


def words_of(workspace: Path) -> tuple[CommandChoice, ...]:
    """Return a folder's skills and MCP prompts, with hints for their arguments. Reads the disk."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.integrations.plugins.shelf import catalog_for

    home = Home.locate()
    settings = load(home, dict(os.environ), workspace).settings
    catalog = catalog_for(home, workspace, settings)
    found = () if catalog is None else catalog.load().skills
    skills = tuple(CommandChoice(each.name, short(each.description), "[words]") for each in found)
    return (
        *skills,
        *(CommandChoice(name, short(said), hint) for name, said, hint in _prompts(settings, workspace)),
    )


def _prompts(settings: Settings, workspace: Path) -> list[tuple[str, str, str]]:
    """Return word, description and arguments of the stored prompts of MCP servers. Reads the disk."""
    from agent.core.home import Home
    from agent.integrations.mcp.catalog import load_catalog
    from agent.integrations.mcp.server_config import declared_servers
    from agent.integrations.mcp.tools import listed_prompts, prompt_names

    folder = Home.locate().servers
    found = []
    for server in declared_servers(settings, folder, workspace).servers:
        if server.usable and (kept := load_catalog(folder, server.config)) is not None:
            found += [(server.config.name, prompt) for prompt in kept.prompts]
    return listed_prompts(prompt_names(tuple(found)))


def short(text: str) -> str:
    """Shorten a description to the length that menus show. Pure."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1].rstrip()}…"


class SkillNames:
    """Skills and plugin commands of the open session that the user can call by name."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self.known: Sequence[CommandChoice] = ()
        self.commands: Sequence[CommandChoice] = ()
        """Commands that plugins registered."""

    async def refresh(self) -> None:
        """Find the current skills and plugin commands in a thread, and make the prompt offer them."""
        client = self._app.host.client
        if client is not None:
            said = await client.plugins.commands()
            self.commands = [CommandChoice(each.name, short(each.description), "[text]") for each in said]
            self.known = await yielding_thread(partial(words_of, client.workspace))
            offer_commands(self._app.session.prompt, [*self.known, *self.commands], self._app.keys)

    async def run(self, text: str) -> bool:
        """Send `name words` to the session if a skill has that name, or run a plugin's command.

        Return False if neither exists. Raises `HermesError` if a plugin fails.
        """
        name, _, argument = text.strip().partition(" ")
        if all(each.name != name for each in (*self.known, *self.commands)):
            await self.refresh()
        if all(each.name != name for each in self.known):
            if all(each.name != name for each in self.commands):
                return False
            await self._app.need_client().plugins.run(name, argument.strip())
            return True
        self._app.message_sender.send(f"/{text}")
        return True

    def palette(self) -> Iterator[PaletteEntry]:
        """Yield a palette entry for each skill; choosing one writes `/NAME ` into the prompt."""
        from app.tui.screens.palette import PaletteEntry

        for each in self.known:
            if each.name not in BY_SLASH:
                begin = partial(self._begin, each.name)
                yield PaletteEntry("Skills", each.name, each.description, begin, (each.name,))

    def _begin(self, name: str) -> None:
        prompt = active_conversation.prompt(self._app)
        prompt.set_text(f"/{name} {prompt.text}".rstrip() + " ")
