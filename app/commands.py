"""The one registry of commands.

Palette, slash menu, key bindings, help and `docs/commands.md` are all made from
`COMMANDS` (`app.command_list`); what a command does is the method of `app.actions.Actions` it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from textual.binding import Binding

from app.command import GROUPS, NO_KEY, Command, Group
from app.command_list import COMMANDS

BY_ID = {command.id: command for command in COMMANDS}
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}


class Call(NamedTuple):
    """A slash command as it was typed."""

    command: Command
    argument: str


def read_slash(text: str) -> Call | str:
    """What `/word argument` asks for, or a sentence that says why it cannot be done. Pure."""
    word, _, argument = text.strip().removeprefix("/").partition(" ")
    argument = argument.strip()
    command = BY_SLASH.get(word.lower())
    if command is None:
        near = get_close_matches(word.lower(), BY_SLASH, n=1, cutoff=0.6)
        offer = f" Did you mean /{near[0]}?" if near else ""
        return f"There is no command /{word}.{offer} /help lists all of them."
    if argument and not command.argument_hint:
        return f"/{command.slash} takes nothing after it."
    if command.argument_hint.startswith("<") and not argument:
        return f"/{command.slash} needs {command.argument_hint} after it."
    return Call(command, argument)


def bindings(commands: Sequence[Command] = COMMANDS) -> list[Binding]:
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


def grouped(commands: Sequence[Command] = COMMANDS) -> Iterator[tuple[Group, list[Command]]]:
    """The commands by group, in the order of the registry."""
    for group in GROUPS:
        members = [command for command in commands if command.group == group]
        if members:
            yield group, members


def markdown() -> str:
    """The text of `docs/commands.md`."""
    lines = [
        "# Commands",
        "",
        "Everything the application can be asked to do. A command runs from the palette (`^P`),",
        "by its key, or typed into the prompt after a slash. The id names it in settings.",
    ]
    for group, members in grouped():
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
