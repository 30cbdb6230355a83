"""The registry of commands.

Palette, slash menu, key bindings, help and `docs/commands.md` are made from it. The first frame needs the
bindings of `COMMANDS`. All other commands are declared as `COMMAND`, or several as `COMMANDS`, in a file
`*_command.py` in this folder or in the folder `commands` of the search path; `find_commands` imports them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from textual.binding import Binding

from widgets.key_names import shown_key

Group = Literal["Turn", "Conversation", "Sessions", "View", "Program"]
GROUPS: tuple[Group, ...] = ("Turn", "Conversation", "Sessions", "View", "Program")
NO_KEY = "no-key-"
"""The prefix of placeholder keys that nobody can press; they let commands without a key get one."""


class AppCommand(NamedTuple):
    """A command of the full-screen application."""

    id: str
    """The stable id, `group.verb`, which the setting `keys` uses."""
    group: Group
    name: str
    """The name in the palette."""
    description: str
    """A sentence or two for help: what the command does, and what it does not."""
    action: str | Callable[[Any, str], object]
    """The name of a method of `CommandActions`, or a function, plain or async. A function gets the
    application and the text typed after the slash command; a `HermesError` it raises is shown as a
    sentence.
    """
    keys: tuple[str, ...] = ()
    """Keys, by Textual's names."""
    slash: str = ""
    """The word after the slash; empty if there is no slash command."""
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


_TABLE = """\
Turn:
turn.stop; Stop the turn; stop; escape; /stop; late
    Stop for good; waiting questions end first, queued messages stay where they are.
turn.steer; Steer the running turn; steer; ctrl+s; ; prompt
    Send the message now; the model reads it before its next request.
turn.recall; Take back the queue; recall; ; /queue
    Bring the queued messages back into the prompt, to be changed or dropped.
prompt.editor; Write in the editor; editor; ctrl+g; ; prompt
    Open the draft in $VISUAL or $EDITOR.
Conversation:
conversation.find; Find in the conversation; find; ctrl+f; /find [text]
    Search what was said and done in this session, as you type.
conversation.fold; Fold everything; fold; ; /fold
    Show thoughts and tool calls as one line each.
conversation.unfold; Unfold everything; unfold; ctrl+o; /unfold
    Show all thoughts, arguments and results; again: fold them.
conversation.copy; Copy the last answer; copy; ; /copy [N | all]
    Copy the source of the last answer, of its Nth block of code, or of the whole conversation.
view.mouse; Leave the mouse to the terminal; toggle_mouse; ; /mouse
    Select text as in any other program; the same again gives the mouse back to Hermes.
conversation.end; Jump to the end; jump_to_end; ctrl+end
    Show the newest line and follow what comes.
Sessions:
session.new; New session; new_session; ; /new
    Start afresh in the same folder; this session is kept.
session.list; Sessions; sessions; ; /sessions
    Search, preview, resume, rename and delete sessions.
session.search; Search; search; alt+s; /search [text]
    Search all sessions as you type, and open one at the message.
session.undo; Undo; undo; alt+u; /undo
    Take back the last turn, restore, switch or fork: what was said, and the files with it.
session.redo; Redo; redo; alt+y; /redo
    Redo what was undone last.
session.rewind; Go back; rewind; ; /rewind
    Back to before one of your messages; esc twice at an empty prompt does the same.
session.branch; Branch off here; branch; ; /branch [name]
    Continue with a branch that begins here; the one that is left stays, and so do files.
session.branches; Branches; branches; ; /branches
    The branches of this session: switch, rename, compare with the one in use.
session.timeline; Timeline; timeline; alt+t; /timeline
    The whole tree of the session; t on a message of the conversation opens it there.
session.checkpoint; Label this point; checkpoint; ; /checkpoint [name]
    Give the present point of the conversation a label that the timeline shows.
session.attempts; Attempts; attempts; ; /attempts [N message | pick N | stop [N]]
    Work on a message several times at once, each in a copy of the project; then pick one.
session.resume; Resume a session; resume; ; /resume [session]
    Continue with a session: id, start of an id, or title; without one, pick from the list.
session.title; Name this session; title; ; /title <title>
    Give the session a title.
session.model; Model; model; alt+m; /model [model]
    Choose the model that answers from a list, or name one: provider/name, local or demo.
session.usage; Usage and ceilings; usage; ; /usage
    Show what this session and this day have taken, by whom, and how near the ceilings are.
View:
view.todo; Task list; todo; alt+1; /todo
    Go to the task list, or open it over the conversation.
view.agents; Agents; agents; alt+2; /agents [merge agent-1|all]
    Go to the list of agents, or merge what one or all of them changed in copies.
view.kinds; Kinds of agents; kinds; ; /agent-kinds
    What kinds of agents can be sent and what each may do; write and change your own.
view.log; Tool log; log; alt+3; /log
    Go to the log of all tool calls, or open it over the conversation.
view.files; Files; files; alt+4; /files
    Go to the files this session has touched, or open them over the conversation.
view.jump; Jump; jump; alt+j
    Put a letter on every pane and on the prompt; the letter leads there.
view.skins; Skin; skins; ctrl+t; /skin [skin]
    Choose how everything looks from now on, with a live preview; or name a skin.
view.skin_editor; Skin editor; skin_editor; ; /skin-editor [skin]
    Change the colours of a skin and save them as a skin of your own.
Program:
program.palette; All commands; palette; ctrl+p
    Find any command by its name.
program.help; Help; help; f1; /help
    The keys that work where you are, and all commands; `?` too where no text is written.
program.settings; Settings; settings; f2; /settings
    See every setting, where its value comes from, and change it; keys as well.
program.mode; Mode; mode; alt+a; /mode [mode]
    Go to the next mode, or to one by name: careful, normal, plan, yolo, deny.
program.watcher; Watch the project; watch; ; /watch [on|off]
    Notice what others change in the project, or not, for this session.
program.approvals; Approvals; approvals; ; /approvals
    What was allowed for more than once, and what waits for a yes; d takes a yes back.
program.audit; Audit log; audit; ; /audit
    What was allowed and refused, when and by whom; v checks that nothing was changed.
program.logs; Log of the program; logs; ; /logs
    Read what Hermes noted about its own work; secrets are masked.
program.back; Copy, clear, stop or quit; back_out; ctrl+c
    Copies a selection; else clears the draft; else stops the turn; else quits when pressed twice.
program.suspend; Suspend; suspend; ctrl+z
    Leave to the shell; `fg` comes back. A running turn waits meanwhile.
program.quit; Quit; quit; ctrl+d; /quit
    Leave; everything is kept. The key works with an empty prompt while nothing runs.
"""
"""The commands by group, two lines each: id, name, method, keys, slash command and when its keys count; then
the description.

`late`: the focused widget handles its keys first; `prompt`: the prompt itself handles them.
"""


def _read_table(text: str) -> Iterator[AppCommand]:
    group: Any = ""
    lines = iter(text.splitlines())
    for line in lines:
        if line.endswith(":"):
            group = line[:-1]
            continue
        id, name, action, keys, slash, when = (*map(str.strip, line.split(";")), "", "", "")[:6]
        word, _, hint = slash.removeprefix("/").partition(" ")
        about = next(lines).strip()
        keys = tuple(keys.split())
        yield AppCommand(id, group, name, about, action, keys, word, hint, when != "late", when == "prompt")


def read_commands(table: str, *functions: Callable[[Any, str], object]) -> tuple[AppCommand, ...]:
    """Return the commands of a table whose actions are names of the given functions."""
    named = {each.__name__: each for each in functions}
    return tuple(each._replace(action=named[str(each.action)]) for each in _read_table(table))


COMMANDS = tuple(_read_table(_TABLE))


log = logging.getLogger(__name__)

BY_ID = {command.id: command for command in COMMANDS}
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
SLASH_ALIASES = {
    "clear": "new",
    "exit": "quit",
    "cost": "usage",
    "theme": "skin",
    "futures": "attempts",
    "diff": "files",
    "config": "settings",
    "permissions": "approvals",
    "login": "providers",
    "status": "context",
    "stats": "usage",
    "todos": "todo",
    "fork": "branch",
    "keybindings": "help",
}
"""Aliases of slash commands, known from other programs or earlier versions."""


class CommandCall(NamedTuple):
    """A parsed slash command."""

    command: AppCommand
    argument: str


def all_commands() -> tuple[AppCommand, ...]:
    """Return the commands known so far, in the order in which they were registered."""
    return tuple(BY_ID.values())


def find_commands() -> tuple[AppCommand, ...]:
    """Import and add the commands that declare themselves; return those that were accepted."""
    # Imported late, because the first frame waits for this module.
    from tools.parts import PartKind

    kind = PartKind("commands", "app.tui.commands", "_command")
    return register_commands(list(kind.declarations("COMMAND")))


def register_commands(commands: Sequence[AppCommand]) -> tuple[AppCommand, ...]:
    """Add commands to the registry; return the accepted ones.

    One whose id or slash word belongs to another command is skipped, with a warning in the log. A command
    that was added before is accepted again: a second application in the process also binds its keys.
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


def unregister_command(command: AppCommand) -> None:
    """Remove a command from the registry."""
    BY_ID.pop(command.id, None)
    BY_SLASH.pop(command.slash, None)


def read_slash(text: str) -> CommandCall | str:
    """Parse `/word argument`; return an error sentence for an unknown command or a wrong argument. Pure."""
    word, _, argument = text.strip().removeprefix("/").partition(" ")
    argument = argument.strip()
    command = BY_SLASH.get(SLASH_ALIASES.get(word.lower(), word.lower()))
    if command is None:
        near = get_close_matches(word.lower(), [*BY_SLASH, *SLASH_ALIASES], n=1, cutoff=0.6)
        offer = f" Did you mean /{near[0]}?" if near else ""
        return f"There is no command /{word}.{offer} /help lists all of them."
    if argument and not command.argument_hint:
        return f"/{command.slash} takes nothing after it."
    if command.argument_hint.startswith("<") and not argument:
        return f"/{command.slash} needs {command.argument_hint} after it."
    return CommandCall(command, argument)


def bindings(commands: Sequence[AppCommand] = COMMANDS) -> list[Binding]:
    """Return the key bindings of commands; each has its command's id, so that other keys can be assigned."""
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
    """Return the generated text of `docs/commands.md`."""
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
    aliases = ", ".join(f"`/{word}` for `/{slash}`" for word, slash in SLASH_ALIASES.items())
    return "\n".join([*lines, "", f"Other words for some of them: {aliases}."]) + "\n"


SHELL: Mapping[str, str] = {
    **{
        word: word
        for word in ("learnings", "memory", "providers", "sessions", "skills", "usage", "audit", "mcp")
    },
    "agent-kinds": "agents list",
    "approvals": "permissions list",
    "export": "sessions export",
    "install-skill": "skills install",
    "plugins": "plugin",
    "schedule": "cron",
    "search": "sessions search",
    "settings": "config",
    "title": "sessions rename",
}
"""The subcommands of `hermes` that correspond to slash commands of the full screen."""


def refuse_elsewhere(text: str, where: str) -> str:
    """Return why a full-screen command does not work `where`; empty if `text` is not such a command."""
    word = text.strip().removeprefix("/").partition(" ")[0].lower()
    if not text.startswith("/") or text.startswith("//"):
        return ""
    find_commands()
    command = BY_SLASH.get(SLASH_ALIASES.get(word, word))
    if command is None:
        return ""
    name = command.name.lower()
    also = "" if name == word else f" ({name})"
    shell = SHELL.get(command.slash)
    instead = f"; the command line has `hermes {shell}`" if shell else ""
    return f"/{word}{also} works on the full screen, not {where}{instead}."
