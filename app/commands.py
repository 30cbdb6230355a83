"""The one registry of commands.

Palette, slash menu, key bindings, help and `docs/commands.md` are all made from
`COMMANDS`; what a command does is the method of `app.actions.Actions` it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple

from textual.binding import Binding

from widgets.key_names import shown_key

Group = Literal["Turn", "Conversation", "Sessions", "View", "Program"]
GROUPS: tuple[Group, ...] = ("Turn", "Conversation", "Sessions", "View", "Program")
NO_KEY = "no-key-"
"""Before an id: a key that nobody can press, for commands without one, so that they can be given one."""


class Command(NamedTuple):
    """Something a person can ask the program to do."""

    id: str
    """Stable name, `group.verb`, under which its keys can be mapped anew."""
    group: Group
    name: str
    """What the palette shows."""
    description: str
    """One line for help: what it does, and what it does not."""
    action: str
    """The method of `Actions` that does it."""
    keys: tuple[str, ...] = ()
    """Keys as Textual names them."""
    slash: str = ""
    """The word after the slash; empty if it has none."""
    argument_hint: str = ""
    """What may follow the slash command; empty if nothing may."""
    first: bool = True
    """Whether its keys are taken before the focused widget sees them."""
    by_prompt: bool = False
    """Whether the prompt itself reads its keys, because they act on what is being written."""

    @property
    def keys_shown(self) -> str:
        """The keys in a terminal's own notation, such as `^P`."""
        return " ".join(shown_key(key) for key in self.keys)


COMMANDS: tuple[Command, ...] = (
    Command(
        id="turn.stop",
        group="Turn",
        name="Stop the turn",
        description="Stop for good; waiting questions end first, queued messages stay where they are.",
        action="stop",
        keys=("escape",),
        slash="stop",
        first=False,
    ),
    Command(
        id="turn.steer",
        group="Turn",
        name="Steer the running turn",
        description="Send the message now; the model reads it before its next request.",
        action="steer",
        keys=("ctrl+s",),
        by_prompt=True,
    ),
    Command(
        id="turn.recall",
        group="Turn",
        name="Take back the queue",
        description="Bring the queued messages back into the prompt, to be changed or dropped.",
        action="recall",
        slash="queue",
    ),
    Command(
        id="prompt.editor",
        group="Turn",
        name="Write in the editor",
        description="Open the draft in $VISUAL or $EDITOR.",
        action="editor",
        keys=("ctrl+g",),
        by_prompt=True,
    ),
    Command(
        id="prompt.attach",
        group="Turn",
        name="Attach an image",
        description="Send a png, jpeg, gif or webp with the message, like one dropped on the prompt.",
        action="attach",
        slash="attach",
        argument_hint="<path>",
    ),
    Command(
        id="conversation.find",
        group="Conversation",
        name="Find in the conversation",
        description="Search what was said and done in this session.",
        action="find",
        keys=("ctrl+f",),
        slash="find",
        argument_hint="[text]",
    ),
    Command(
        id="conversation.fold",
        group="Conversation",
        name="Fold everything",
        description="Show thoughts and tool calls as one line each.",
        action="fold",
        slash="fold",
    ),
    Command(
        id="conversation.unfold",
        group="Conversation",
        name="Unfold everything",
        description="Show all thoughts, arguments and results.",
        action="unfold",
        slash="unfold",
    ),
    Command(
        id="conversation.copy",
        group="Conversation",
        name="Copy the last answer",
        description="Put the source of the last answer on the clipboard.",
        action="copy",
        slash="copy",
    ),
    Command(
        id="conversation.end",
        group="Conversation",
        name="Jump to the end",
        description="Show the newest line and follow what comes.",
        action="jump_to_end",
        keys=("ctrl+end",),
    ),
    Command(
        id="session.new",
        group="Sessions",
        name="New session",
        description="Start afresh in the same folder; this session is kept.",
        action="new_session",
        slash="new",
    ),
    Command(
        id="session.list",
        group="Sessions",
        name="Sessions",
        description="Search, preview, resume, rename and delete sessions.",
        action="sessions",
        slash="sessions",
    ),
    Command(
        id="session.search",
        group="Sessions",
        name="Search",
        description="Search all sessions as you type, and open one at the message.",
        action="search",
        keys=("alt+s",),
        slash="search",
        argument_hint="[text]",
    ),
    Command(
        id="session.undo",
        group="Sessions",
        name="Undo",
        description="Take back the last turn, restore, switch or fork: what was said, and the files with it.",
        action="undo",
        keys=("alt+u",),
        slash="undo",
    ),
    Command(
        id="session.redo",
        group="Sessions",
        name="Redo",
        description="Do again what was undone last.",
        action="redo",
        keys=("alt+y",),
        slash="redo",
    ),
    Command(
        id="session.rewind",
        group="Sessions",
        name="Go back",
        description="Back to before one of your messages; esc twice at an empty prompt does the same.",
        action="rewind",
        slash="rewind",
    ),
    Command(
        id="session.branch",
        group="Sessions",
        name="Branch off here",
        description="Go on with a branch that begins here; the one that is left stays, and so do files.",
        action="branch",
        slash="branch",
        argument_hint="[name]",
    ),
    Command(
        id="session.branches",
        group="Sessions",
        name="Branches",
        description="The branches of this session: switch, rename, compare with the one in use.",
        action="branches",
        slash="branches",
    ),
    Command(
        id="session.timeline",
        group="Sessions",
        name="Timeline",
        description="The whole tree of the session; t on a message of the conversation opens it there.",
        action="timeline",
        keys=("alt+t",),
        slash="timeline",
    ),
    Command(
        id="session.checkpoint",
        group="Sessions",
        name="Label this point",
        description="Give the present point of the conversation a label that the timeline shows.",
        action="checkpoint",
        slash="checkpoint",
        argument_hint="[name]",
    ),
    Command(
        id="session.futures",
        group="Sessions",
        name="Futures",
        description="Work on a message several times at once, each in a copy of the project; then pick one.",
        action="futures",
        slash="futures",
        argument_hint="[N message | pick N | stop [N]]",
    ),
    Command(
        id="session.resume",
        group="Sessions",
        name="Resume a session",
        description="Go on with a session: id, start of an id, or title; without one, pick from the list.",
        action="resume",
        slash="resume",
        argument_hint="[session]",
    ),
    Command(
        id="session.title",
        group="Sessions",
        name="Name this session",
        description="Give the session a title.",
        action="title",
        slash="title",
        argument_hint="<title>",
    ),
    Command(
        id="session.model",
        group="Sessions",
        name="Model",
        description="Choose the model that answers from a list, or name one: provider/name, local or demo.",
        action="model",
        keys=("alt+m",),
        slash="model",
        argument_hint="[model]",
    ),
    Command(
        id="session.context",
        group="Sessions",
        name="Context and cost",
        description="Show what fills the window, layer by layer, and what the session has used.",
        action="context",
        slash="context",
    ),
    Command(
        id="view.todo",
        group="View",
        name="Task list",
        description="Go to the task list, or open it over the conversation.",
        action="todo",
        keys=("alt+1",),
        slash="todo",
    ),
    Command(
        id="view.agents",
        group="View",
        name="Agents",
        description="Go to the list of agents, or open it over the conversation.",
        action="agents",
        keys=("alt+2",),
        slash="agents",
    ),
    Command(
        id="view.log",
        group="View",
        name="Tool log",
        description="Go to the log of all tool calls, or open it over the conversation.",
        action="log",
        keys=("alt+3",),
        slash="log",
    ),
    Command(
        id="view.files",
        group="View",
        name="Files",
        description="Go to the files this session has touched, or open them over the conversation.",
        action="files",
        keys=("alt+4",),
        slash="files",
    ),
    Command(
        id="view.jump",
        group="View",
        name="Jump",
        description="Put a letter on every pane and on the prompt; the letter leads there.",
        action="jump",
        keys=("alt+j",),
    ),
    Command(
        id="view.skins",
        group="View",
        name="Skin",
        description="Choose how everything looks from now on, with a live preview; or name a skin.",
        action="skins",
        keys=("ctrl+t",),
        slash="skin",
        argument_hint="[skin]",
    ),
    Command(
        id="view.skin_editor",
        group="View",
        name="Skin editor",
        description="Change the colours of a skin and save them as a skin of your own.",
        action="skin_editor",
        slash="skin-editor",
        argument_hint="[skin]",
    ),
    Command(
        id="program.palette",
        group="Program",
        name="All commands",
        description="Find any command by its name.",
        action="palette",
        keys=("ctrl+p",),
    ),
    Command(
        id="program.help",
        group="Program",
        name="Help",
        description="The keys that work where you are, and all commands; `?` too where no text is written.",
        action="help",
        keys=("f1",),
        slash="help",
    ),
    Command(
        id="program.settings",
        group="Program",
        name="Settings",
        description="See every setting, where its value comes from, and change it; keys as well.",
        action="settings",
        keys=("f2",),
        slash="settings",
    ),
    Command(
        id="program.mode",
        group="Program",
        name="Mode",
        description="Go to the next mode, or to one by name: careful, normal, auto-edit, plan, yolo, deny.",
        action="mode",
        keys=("alt+a",),
        slash="mode",
        argument_hint="[mode]",
    ),
    Command(
        id="program.watcher",
        group="Program",
        name="Watch the project",
        description="Notice what others change in the project, or not, for this session.",
        action="watch",
        slash="watch",
        argument_hint="[on|off]",
    ),
    Command(
        id="program.approvals",
        group="Program",
        name="Approvals",
        description="What was allowed for more than once, and what waits for a yes; x takes back.",
        action="approvals",
        slash="approvals",
    ),
    Command(
        id="program.audit",
        group="Program",
        name="Audit log",
        description="What was allowed and refused, when and by whom; v checks that nothing was changed.",
        action="audit",
        slash="audit",
    ),
    Command(
        id="program.logs",
        group="Program",
        name="Log of the program",
        description="Read what Hermes noted about its own work; secrets are masked.",
        action="logs",
        slash="logs",
    ),
    Command(
        id="program.back",
        group="Program",
        name="Copy, clear, stop or quit",
        description=(
            "Copies a selection; else clears the draft; else stops the turn; else quits when pressed twice."
        ),
        action="back_out",
        keys=("ctrl+c",),
    ),
    Command(
        id="program.suspend",
        group="Program",
        name="Suspend",
        description="Leave to the shell; `fg` comes back. A running turn waits meanwhile.",
        action="suspend",
        keys=("ctrl+z",),
    ),
    Command(
        id="program.quit",
        group="Program",
        name="Quit",
        description="Leave; everything is kept. The key works with an empty prompt while nothing runs.",
        action="quit",
        keys=("ctrl+d",),
        slash="quit",
    ),
)

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
