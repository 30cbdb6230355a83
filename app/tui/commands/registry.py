"""The one registry of commands.

Palette, slash menu, key bindings, help and `docs/commands.md` are all made from it. The first picture
needs the bindings of `COMMANDS` (`app.tui.commands.command_list`); all other commands declare themselves in a
file `*_command.py` beside it, or in the folder `commands` of the search path, and are found after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from textual.binding import Binding

from app.tui.commands.command_kind import GROUPS, NO_KEY, AppCommand, Group
from app.tui.commands.command_list import COMMANDS

log = logging.getLogger(__name__)

BY_ID = {command.id: command for command in COMMANDS}
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
FORMER_WORDS = {"futures": "attempts"}
"""Words that were slash commands before, and what they are now. They go on working and are not shown."""


class CommandCall(NamedTuple):
    """A slash command as it was typed."""

    command: AppCommand
    argument: str


def all_commands() -> tuple[AppCommand, ...]:
    """The commands that are known by now, in the order of help."""
    return tuple(BY_ID.values())


def find_commands() -> tuple[AppCommand, ...]:
    """Add the commands that declare themselves; those that count. Imports them."""
    # Late: the first picture waits for this module.
    from tools.parts import PartKind

    kind = PartKind("commands", "app.tui.commands", "_command")
    return take_in([module.COMMAND for module in kind.load_all()[0]])


def take_in(commands: Sequence[AppCommand]) -> tuple[AppCommand, ...]:
    """Add commands; those that count. One whose id or word is taken is left out, and the log says so.

    One that was added before counts as well: a further application in the process binds its keys, too.
    """
    found: list[AppCommand] = []
    for command in commands:
        if BY_ID.get(command.id) is command:
            found.append(command)
            continue
        if command.id in BY_ID or command.slash in BY_SLASH:
            log.warning("the command %s (/%s) is left out: its name is taken", command.id, command.slash)
            continue
        BY_ID[command.id] = command
        if command.slash:
            BY_SLASH[command.slash] = command
        found.append(command)
    return tuple(found)


def forget_command(command: AppCommand) -> None:
    """Take a command away that was found."""
    BY_ID.pop(command.id, None)
    BY_SLASH.pop(command.slash, None)


def read_slash(text: str) -> CommandCall | str:
    """What `/word argument` asks for, or a sentence that says why it cannot be done. Pure."""
    word, _, argument = text.strip().removeprefix("/").partition(" ")
    argument = argument.strip()
    command = BY_SLASH.get(FORMER_WORDS.get(word.lower(), word.lower()))
    if command is None:
        near = get_close_matches(word.lower(), BY_SLASH, n=1, cutoff=0.6)
        offer = f" Did you mean /{near[0]}?" if near else ""
        return f"There is no command /{word}.{offer} /help lists all of them."
    if argument and not command.argument_hint:
        return f"/{command.slash} takes nothing after it."
    if command.argument_hint.startswith("<") and not argument:
        return f"/{command.slash} needs {command.argument_hint} after it."
    return CommandCall(command, argument)


def bindings(commands: Sequence[AppCommand] = COMMANDS) -> list[Binding]:
    """The key bindings; each has the id of its command, so it can be mapped anew."""
    return [
        Binding(
            ",".join(command.keys) or NO_KEY + command.id,
            f"app.order('{command.id}')",
            command.name,
            show=False,
            priority=command.first,
            id=command.id,
        )
        for command in commands
        if not command.by_prompt
    ]


def grouped(commands: Sequence[AppCommand]) -> Iterator[tuple[Group, list[AppCommand]]]:
    """The commands by group, in the order of the registry."""
    for group in GROUPS:
        members = [command for command in commands if command.group == group]
        if members:
            yield group, members


def markdown() -> str:
    """The text of `docs/commands.md`."""
    find_commands()
    lines = [
        "# Commands",
        "",
        "Everything the application can be asked to do. A command runs from the palette (`^P`),",
        "by its key, or typed into the prompt after a slash. The id names it in settings.",
    ]
    for group, members in grouped(all_commands()):
        lines += [
            "",
            f"## {group}",
            "",
            "| Command | Key | Slash | What it does | Id |",
            "|---|---|---|---|---|",
        ]
        for each in members:
            slash = f"`/{each.slash}{' ' + each.argument_hint if each.argument_hint else ''}`"
            keys = f"`{each.keys_shown}`" if each.keys else ""
            cells = (each.name, keys, slash if each.slash else "", each.description, f"`{each.id}`")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
