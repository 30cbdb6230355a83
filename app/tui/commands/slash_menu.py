"""Commands in the menu of the prompt: those of the first picture, and those that are found after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tui.commands.registry import BY_SLASH, COMMANDS, all_commands, find_commands, take_in
from app.tui.startup.preload import yielding_thread
from widgets.prompt.completion import CommandChoice as MenuCommand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.tui.app_context import AppContext
    from widgets.prompt.widget import Prompt


def offer_commands(prompt: Prompt, skills: Iterable[MenuCommand] = ()) -> None:
    """Let the prompt offer every command that is known by now, then the skills."""
    commands = [MenuCommand(each.slash, each.name, each.argument_hint) for each in BY_SLASH.values()]
    prompt.completer.commands = [*commands, *(each for each in skills if each.name not in BY_SLASH)]


async def add_found_commands(app: AppContext) -> None:
    """Find the commands that declare themselves, aside; offer them and those of panes, with their keys."""
    await yielding_thread(find_commands)
    take_in(app.session.pane_commands)
    for command in all_commands():
        # An application before this one may have found them already.
        if command.keys and not command.by_prompt and command not in COMMANDS:
            keys = ",".join(command.keys)
            app.bind(keys, f"order('{command.id}')", description=command.name, show=False)
    offer_commands(app.session.prompt)
