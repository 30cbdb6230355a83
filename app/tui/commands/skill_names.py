"""Skills by name: offered in the prompt and the palette, and run as `/name words`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from textual.app import SystemCommand

from app.tui.commands.registry import BY_SLASH
from app.tui.commands.slash_menu import offer_commands
from app.tui.commands.slash_words import short, words_of
from app.tui.conversation import active_conversation
from app.tui.startup.preload import yielding_thread
from widgets.prompt.completion import CommandChoice

if TYPE_CHECKING:
    from app.tui.app_context import AppContext

    class SkillNamesPort(AppContext, Protocol):
        """The skills that can be run by their names."""

        @property
        def skills(self) -> SkillNames: ...


class SkillNames:
    """Skills and commands of plugins of the session that is open, as far as the person can name them."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self.known: Sequence[CommandChoice] = ()
        self.commands: Sequence[CommandChoice] = ()
        """Commands that plugins registered."""

    async def look(self) -> None:
        """Find the skills there are now, aside, and offer them."""
        client = self._app.host.client
        if client is not None:
            said = await client.plugins.commands()
            self.commands = [CommandChoice(each.name, short(each.description), "[text]") for each in said]
            self.known = await yielding_thread(partial(words_of, client.workspace))
            offer_commands(self._app.session.prompt, [*self.known, *self.commands])

    async def run(self, text: str) -> bool:
        """Send `name words` to the session if there is such a skill, or run the command of a plugin.

        False if there is neither. Raises `HermesError` where a plugin fails.
        """
        name, _, argument = text.strip().partition(" ")
        if all(each.name != name for each in (*self.known, *self.commands)):
            await self.look()
        if all(each.name != name for each in self.known):
            if all(each.name != name for each in self.commands):
                return False
            await self._app.need_client().plugins.run(name, argument.strip())
            return True
        self._app.message_sender.send(f"/{text}")
        return True

    def palette(self) -> Iterator[SystemCommand]:
        """An entry for each; choosing one begins the message."""
        for each in self.known:
            if each.name not in BY_SLASH:
                yield SystemCommand(f"Skill: {each.name}", each.description, partial(self._begin, each.name))

    def _begin(self, name: str) -> None:
        prompt = active_conversation.prompt(self._app)
        prompt.set_text(f"/{name} {prompt.text}".rstrip() + " ")
