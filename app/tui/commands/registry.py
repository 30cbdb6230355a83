"""The registry of commands.

Palette, slash menu, key bindings, help and `docs/commands.md` are made from it. The first picture needs the
bindings of `COMMANDS`. All other commands declare themselves in a file `*_command.py` in this folder, or in
the folder `commands` of the search path; they are found later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from textual.binding import Binding

from widgets.key_names import shown_key

Group = Literal["Turn", "Conversation", "Sessions", "View", "Program"]
GROUPS: tuple[Group, ...] = ("Turn", "Conversation", "Sessions", "View", "Program")
NO_KEY = "no-key-"
"""Prefix of an id: a key that nobody can press, so that commands without a key can get one."""


class AppCommand(NamedTuple):
    """A command that a person can give the program."""

    id: str
    """Stable name, `group.verb`, under which other keys can be assigned."""
    group: Group
    name: str
    """The name in the palette."""
    description: str
    """One line for help: what the command does, and what it does not."""
    action: str | Callable[[Any, str], object]
    """The name of a method of `CommandActions`, or a function, plain or async. A function gets the
    application and the text typed after the slash command; a `HermesError` it raises is shown as a
    sentence.
    """
    keys: tuple[str, ...] = ()
    """Keys, by Textual's names."""
    slash: str = ""
    """The word after the slash; empty if it has none."""
    argument_hint: str = ""
    """The possible arguments of the slash command; empty if there are none."""
    first: bool = True
    """True if its keys are handled before the focused widget sees them."""
    by_prompt: bool = False
    """True if the prompt itself handles its keys, because they act on the draft."""

    @property
    def keys_shown(self) -> str:
        """The keys in a terminal's notation, such as `^P`."""
        return " ".join(shown_key(key) for key in self.keys)


COMMANDS: tuple[AppCommand, ...] = (
    AppCommand(
        id="turn.stop",
        group="Turn",
        name="Stop the turn",
        description="Stop for good; waiting questions end first, queued messages stay where they are.",
        action="stop",
        keys=("escape",),
        slash="stop",
        first=False,
    ),
    AppCommand(
        id="turn.steer",
        group="Turn",
        name="Steer the running turn",
        description="Send the message now; the model reads it before its next request.",
        action="steer",
        keys=("ctrl+s",),
        by_prompt=True,
    ),
    AppCommand(
        id="turn.recall",
        group="Turn",
        name="Take back the queue",
        description="Bring the queued messages back into the prompt, to be changed or dropped.",
        action="recall",
        slash="queue",
    ),
    AppCommand(
        id="prompt.editor",
        group="Turn",
        name="Write in the editor",
        description="Open the draft in $VISUAL or $EDITOR.",
        action="editor",
        keys=("ctrl+g",),
        by_prompt=True,
    ),
    AppCommand(
        id="conversation.find",
        group="Conversation",
        name="Find in the conversation",
        description="Search what was said and done in this session.",
        action="find",
        keys=("ctrl+f",),
        slash="find",
        argument_hint="[text]",
    ),
    AppCommand(
        id="conversation.fold",
        group="Conversation",
        name="Fold everything",
        description="Show thoughts and tool calls as one line each.",
        action="fold",
        slash="fold",
    ),
    AppCommand(
        id="conversation.unfold",
        group="Conversation",
        name="Unfold everything",
        description="Show all thoughts, arguments and results.",
        action="unfold",
        slash="unfold",
    ),
    AppCommand(
        id="conversation.copy",
        group="Conversation",
        name="Copy the last answer",
        description="Put the source of the last answer on the clipboard.",
        action="copy",
        slash="copy",
    ),
    AppCommand(
        id="conversation.end",
        group="Conversation",
        name="Jump to the end",
        description="Show the newest line and follow what comes.",
        action="jump_to_end",
        keys=("ctrl+end",),
    ),
    AppCommand(
        id="session.new",
        group="Sessions",
        name="New session",
        description="Start afresh in the same folder; this session is kept.",
        action="new_session",
        slash="new",
    ),
    AppCommand(
        id="session.list",
        group="Sessions",
        name="Sessions",
        description="Search, preview, resume, rename and delete sessions.",
        action="sessions",
        slash="sessions",
    ),
    AppCommand(
        id="session.search",
        group="Sessions",
        name="Search",
        description="Search all sessions as you type, and open one at the message.",
        action="search",
        keys=("alt+s",),
        slash="search",
        argument_hint="[text]",
    ),
    AppCommand(
        id="session.undo",
        group="Sessions",
        name="Undo",
        description="Take back the last turn, restore, switch or fork: what was said, and the files with it.",
        action="undo",
        keys=("alt+u",),
        slash="undo",
    ),
    AppCommand(
        id="session.redo",
        group="Sessions",
        name="Redo",
        description="Do again what was undone last.",
        action="redo",
        keys=("alt+y",),
        slash="redo",
    ),
    AppCommand(
        id="session.rewind",
        group="Sessions",
        name="Go back",
        description="Back to before one of your messages; esc twice at an empty prompt does the same.",
        action="rewind",
        slash="rewind",
    ),
    AppCommand(
        id="session.branch",
        group="Sessions",
        name="Branch off here",
        description="Go on with a branch that begins here; the one that is left stays, and so do files.",
        action="branch",
        slash="branch",
        argument_hint="[name]",
    ),
    AppCommand(
        id="session.branches",
        group="Sessions",
        name="Branches",
        description="The branches of this session: switch, rename, compare with the one in use.",
        action="branches",
        slash="branches",
    ),
    AppCommand(
        id="session.timeline",
        group="Sessions",
        name="Timeline",
        description="The whole tree of the session; t on a message of the conversation opens it there.",
        action="timeline",
        keys=("alt+t",),
        slash="timeline",
    ),
    AppCommand(
        id="session.checkpoint",
        group="Sessions",
        name="Label this point",
        description="Give the present point of the conversation a label that the timeline shows.",
        action="checkpoint",
        slash="checkpoint",
        argument_hint="[name]",
    ),
    AppCommand(
        id="session.attempts",
        group="Sessions",
        name="Attempts",
        description="Work on a message several times at once, each in a copy of the project; then pick one.",
        action="attempts",
        slash="attempts",
        argument_hint="[N message | pick N | stop [N]]",
    ),
    AppCommand(
        id="session.resume",
        group="Sessions",
        name="Resume a session",
        description="Go on with a session: id, start of an id, or title; without one, pick from the list.",
        action="resume",
        slash="resume",
        argument_hint="[session]",
    ),
    AppCommand(
        id="session.title",
        group="Sessions",
        name="Name this session",
        description="Give the session a title.",
        action="title",
        slash="title",
        argument_hint="<title>",
    ),
    AppCommand(
        id="session.model",
        group="Sessions",
        name="Model",
        description="Choose the model that answers from a list, or name one: provider/name, local or demo.",
        action="model",
        keys=("alt+m",),
        slash="model",
        argument_hint="[model]",
    ),
    AppCommand(
        id="session.usage",
        group="Sessions",
        name="Usage and ceilings",
        description="Show what this session and this day have taken, by whom, and how near the ceilings are.",
        action="usage",
        slash="usage",
    ),
    AppCommand(
        id="view.todo",
        group="View",
        name="Task list",
        description="Go to the task list, or open it over the conversation.",
        action="todo",
        keys=("alt+1",),
        slash="todo",
    ),
    AppCommand(
        id="view.agents",
        group="View",
        name="Agents",
        description="Go to the list of agents, or merge what one or all of them changed in copies.",
        action="agents",
        argument_hint="[merge agent-1|all]",
        keys=("alt+2",),
        slash="agents",
    ),
    AppCommand(
        id="view.kinds",
        group="View",
        name="Kinds of agents",
        description="What kinds of agents can be sent and what each may do; write and change your own.",
        action="kinds",
        slash="agent-kinds",
    ),
    AppCommand(
        id="view.log",
        group="View",
        name="Tool log",
        description="Go to the log of all tool calls, or open it over the conversation.",
        action="log",
        keys=("alt+3",),
        slash="log",
    ),
    AppCommand(
        id="view.files",
        group="View",
        name="Files",
        description="Go to the files this session has touched, or open them over the conversation.",
        action="files",
        keys=("alt+4",),
        slash="files",
    ),
    AppCommand(
        id="view.jump",
        group="View",
        name="Jump",
        description="Put a letter on every pane and on the prompt; the letter leads there.",
        action="jump",
        keys=("alt+j",),
    ),
    AppCommand(
        id="view.skins",
        group="View",
        name="Skin",
        description="Choose how everything looks from now on, with a live preview; or name a skin.",
        action="skins",
        keys=("ctrl+t",),
        slash="skin",
        argument_hint="[skin]",
    ),
    AppCommand(
        id="view.skin_editor",
        group="View",
        name="Skin editor",
        description="Change the colours of a skin and save them as a skin of your own.",
        action="skin_editor",
        slash="skin-editor",
        argument_hint="[skin]",
    ),
    AppCommand(
        id="program.palette",
        group="Program",
        name="All commands",
        description="Find any command by its name.",
        action="palette",
        keys=("ctrl+p",),
    ),
    AppCommand(
        id="program.help",
        group="Program",
        name="Help",
        description="The keys that work where you are, and all commands; `?` too where no text is written.",
        action="help",
        keys=("f1",),
        slash="help",
    ),
    AppCommand(
        id="program.settings",
        group="Program",
        name="Settings",
        description="See every setting, where its value comes from, and change it; keys as well.",
        action="settings",
        keys=("f2",),
        slash="settings",
    ),
    AppCommand(
        id="program.mode",
        group="Program",
        name="Mode",
        description="Go to the next mode, or to one by name: careful, normal, plan, yolo, deny.",
        action="mode",
        keys=("alt+a",),
        slash="mode",
        argument_hint="[mode]",
    ),
    AppCommand(
        id="program.watcher",
        group="Program",
        name="Watch the project",
        description="Notice what others change in the project, or not, for this session.",
        action="watch",
        slash="watch",
        argument_hint="[on|off]",
    ),
    AppCommand(
        id="program.approvals",
        group="Program",
        name="Approvals",
        description="What was allowed for more than once, and what waits for a yes; x takes back.",
        action="approvals",
        slash="approvals",
    ),
    AppCommand(
        id="program.audit",
        group="Program",
        name="Audit log",
        description="What was allowed and refused, when and by whom; v checks that nothing was changed.",
        action="audit",
        slash="audit",
    ),
    AppCommand(
        id="program.logs",
        group="Program",
        name="Log of the program",
        description="Read what Hermes noted about its own work; secrets are masked.",
        action="logs",
        slash="logs",
    ),
    AppCommand(
        id="program.back",
        group="Program",
        name="Copy, clear, stop or quit",
        description=(
            "Copies a selection; else clears the draft; else stops the turn; else quits when pressed twice."
        ),
        action="back_out",
        keys=("ctrl+c",),
    ),
    AppCommand(
        id="program.suspend",
        group="Program",
        name="Suspend",
        description="Leave to the shell; `fg` comes back. A running turn waits meanwhile.",
        action="suspend",
        keys=("ctrl+z",),
    ),
    AppCommand(
        id="program.quit",
        group="Program",
        name="Quit",
        description="Leave; everything is kept. The key works with an empty prompt while nothing runs.",
        action="quit",
        keys=("ctrl+d",),
        slash="quit",
    ),
)


log = logging.getLogger(__name__)

BY_ID = {command.id: command for command in COMMANDS}
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
FORMER_WORDS = {"futures": "attempts"}
"""Former slash commands and their replacements. They still work but are not shown."""


class CommandCall(NamedTuple):
    """A parsed slash command."""

    command: AppCommand
    argument: str


def all_commands() -> tuple[AppCommand, ...]:
    """Return the commands known so far, in the order of the help."""
    return tuple(BY_ID.values())


def find_commands() -> tuple[AppCommand, ...]:
    """Import and add the commands that declare themselves; return those that were accepted."""
    # Imported late, because the first picture waits for this module.
    from tools.parts import PartKind

    kind = PartKind("commands", "app.tui.commands", "_command")
    return take_in([module.COMMAND for module in kind.load_all()[0]])


def take_in(commands: Sequence[AppCommand]) -> tuple[AppCommand, ...]:
    """Add commands; return those that were accepted. One whose id or word is taken is left out and logged.

    A command that was added before is accepted again: a second application in the process also binds its
    keys.
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
    """Remove a command that was found."""
    BY_ID.pop(command.id, None)
    BY_SLASH.pop(command.slash, None)


def read_slash(text: str) -> CommandCall | str:
    """Parse `/word argument`; return a sentence if it names no possible command. Pure."""
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
    """Return the key bindings; each has its command's id, so it can be mapped to another key."""
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


def group_commands(commands: Sequence[AppCommand]) -> Iterator[tuple[Group, list[AppCommand]]]:
    """Yield the commands by group, in the order of the registry."""
    for group in GROUPS:
        members = [command for command in commands if command.group == group]
        if members:
            yield group, members


def markdown() -> str:
    """Return the text of `docs/commands.md`."""
    find_commands()
    lines = [
        "# Commands",
        "",
        "Everything the application can be asked to do. A command runs from the palette (`^P`),",
        "by its key, or typed into the prompt after a slash. The id names it in settings.",
    ]
    for group, members in group_commands(all_commands()):
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
