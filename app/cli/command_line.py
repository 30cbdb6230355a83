"""The full command line: its parser, help in sections, and error messages of one sentence with advice."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import Any, NoReturn

from agent.core.messages import NAMES
from agent.errors import ExitCode
from app.cli.frame import in_colour, name_list, positive
from app.tui.startup import skeleton

WIDEST = 100
COLUMN = 26
"""The largest width of the column of names; a longer name has its text on the next line."""
LISTED = 12
"""The largest number of choices that an error message lists."""
CLOSE = 0.6
"""The similarity, from 0 to 1, from which a known word is suggested for a wrong one."""
MEANT = {
    "ask": "--prompt",
    "auth": "setup",
    "cost": "usage",
    "exec": "--prompt",
    "fetch": "extract",
    "help": "--help",
    "init": "setup",
    "jobs": "cron",
    "key": "setup",
    "keys": "setup",
    "login": "setup",
    "logs": "audit",
    "new": "create",
    "probe": "check",
    "ps": "running",
    "query": "--prompt",
    "resume": "--resume",
    "run": "--prompt",
    "schedule": "cron",
    "settings": "config",
    "start": "run",
    "stats": "usage",
    "tour": "--demo",
    "undo": "rollback",
    "version": "--version",
    "web-ui": "serve",
    "--allowed-tools": "--tools",
    "--allowedtools": "--tools",
    "--approval-mode": "--approve",
    "--ask-for-approval": "--approve",
    "--auto": "--approve yolo",
    "--cd": "--cwd",
    "--dangerously-bypass-approvals-and-sandbox": "--approve yolo",
    "--dangerously-skip-permissions": "--approve yolo",
    "--dir": "--cwd",
    "--full-auto": "--approve yolo",
    "--last": "--continue",
    "--output-format": "--json",
    "--permission-mode": "--approve",
    "--print": "--prompt",
    "--query": "--prompt",
    "--reasoning-effort": "--effort",
    "--session": "--resume",
    "--thinking": "--effort",
    "--toolsets": "--tools",
    "--workdir": "--cwd",
    "--yolo": "--approve yolo",
    "-a": "--approve",
    "-q": "--prompt",
    "-t": "--tools",
    "-v": "--version",
}
"""Commands of other programs, and what they are called here."""
SAME = {
    "remove": ("uninstall", "delete"),
    "uninstall": ("remove",),
    "delete": ("remove", "uninstall"),
    "create": ("add",),
}
"""Actions with interchangeable names, of which the existing one is used."""
ELSEWHERE = {"tap": "a source of skills is a setting, `skills.sources.NAME` (docs/skills.md)"}
"""Actions of other programs, and what replaces them here."""


class Parser(argparse.ArgumentParser):
    """A parser for `hermes` or one of its subcommands."""

    examples: Sequence[tuple[str, str]] = ()
    """Example command lines with their effects, at the beginning of the help."""
    sections: Mapping[str, Sequence[str]] = {}
    """The subcommands under their headings in the help."""
    bare = ""
    """The default action; empty if an action must be named."""
    bare_options: Collection[str] = ()
    """The options of the default action, which also select it."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse `args`; unlike argparse, treat everything that this parser does not know as an error."""
        words = list(sys.argv[1:] if args is None else args)
        if self.bare and (not words or words[0].partition("=")[0] in self.bare_options):
            words.insert(0, self.bare)
        groups = [each.choices for each in self._actions if isinstance(each, argparse._SubParsersAction)]
        if groups and words and words[0] not in groups[0]:
            words[0] = next((each for each in SAME.get(words[0], ()) if each in groups[0]), words[0])
        if stray := self._stray_option(words):
            known = [name for name in self._option_string_actions if name.startswith("--")]
            near = _nearest(stray, known)
            self.error(f"There is no option {stray}" + (f"; did you mean `{near}`?" if near else "."))
        namespace, rest = super().parse_known_args(words, namespace)
        if rest:
            self.error(f"`{self.prog}` does not know what to do with {rest[0]!r}.")
        return namespace, rest

    def _stray_option(self, words: Sequence[str]) -> str:
        """Return the first option among `words` that this parser does not have; empty if there is none."""
        actions = next((each for each in self._actions if isinstance(each, argparse._SubParsersAction)), None)
        value_follows = False
        for word in words if "-" in self.prefix_chars else ():
            if value_follows and not word.startswith("-"):
                value_follows = False
                continue
            if word == "--":
                break
            if not word.startswith("-") or word == "-" or " " in word:
                if actions is not None:
                    break
                continue
            name, equals, _ = word.partition("=")
            found = [each for each in self._option_string_actions if each == name]
            if word.startswith("--"):
                found = found or [each for each in self._option_string_actions if each.startswith(name)]
            elif not found:
                found = [word[:2]] if word[:2] in self._option_string_actions else []
                equals = word[2:]
            if not found and not self._negative_number_matcher.match(word):
                return name
            takes = self._option_string_actions[found[0]].nargs if found else 0
            value_follows = takes in (None, "?") and not equals
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        near = _nearest(str(value), choices)
        guess = f". Did you mean {near}?" if near else "."
        if value in ELSEWHERE:
            guess = f"; {ELSEWHERE[value]}."
        listed = f" Its actions: {', '.join(choices)}." if len(choices) <= LISTED else ""
        if not isinstance(action, argparse._SubParsersAction):
            name = max(action.option_strings, key=len, default=str(action.metavar or f"`{self.prog}`"))
            said = f"{name} takes {_and(choices, 'or')}, not {value!r}"
            raise argparse.ArgumentError(None, f"{said}{guess}")
        if " " in self.prog:
            said = f"`{self.prog}` has no action {value!r}{guess}{listed if guess == '.' else ''}"
        else:
            said = f"There is no command {value!r}{guess}"
            if guess == ".":
                said += f" To send it as a message: `hermes -p {value!r}`."
        raise argparse.ArgumentError(None, said)

    def error(self, message: str) -> NoReturn:
        """End the program with exit code 2 and a sentence on what is wrong and what to do."""
        skeleton.leave()
        from tools.command_name import as_called
        from tools.text.safe_text import clean

        said = self._sentence(message)
        more = "" if "id you mean" in said or "Write it as" in said else f" See `{self.prog} --help`."
        self.exit(int(ExitCode.USAGE), f"hermes: {clean(as_called(said + more))}\n")

    def _sentence(self, message: str) -> str:
        """Return a message of argparse as a sentence in the style of Hermes."""
        if message.startswith("the following arguments are required: "):
            missing = message.partition(": ")[2].split(", ")
            groups = [each for each in self._actions if isinstance(each, argparse._SubParsersAction)]
            if groups and missing == [str(groups[0].metavar)]:
                return f"`{self.prog}` needs an action: {_and(list(groups[0].choices), 'or')}."
            verb = "is" if len(missing) == 1 else "are"
            return f"{_and(missing)} {verb} missing. Write it as `{self._form()}`."
        found = re.fullmatch(r"argument (\S+?): (.*)", message, re.DOTALL)
        if found is None:
            if together := re.fullmatch(r"one of the arguments (.*) is required", message):
                return f"Give {_and(together[1].split(), 'or')}."
            if several := re.fullmatch(r"ambiguous option: (\S+) could match (.*)", message):
                return f"{several[1]} may mean {_and(several[2].split(', '), 'or')}; write it out."
            return message if message.endswith((".", "?")) else f"{message}."
        name, wrong = found[1].rpartition("/")[2], found[2]
        if wrong.startswith("expected"):
            action = self._option_string_actions.get(name)
            value = str(action.metavar or "VALUE") if action is not None else "VALUE"
            return f"{name} needs a value. Write it as `{name} {value}`."
        if wrong.startswith("not allowed with argument "):
            other = wrong.removeprefix("not allowed with argument ").rpartition("/")[2]
            return f"{name} and {other} exclude each other; give one of them."
        if wrong.startswith("ignored explicit argument"):
            return f"{name} takes no value."
        return f"{name}{' ' if wrong.startswith('has to') else ': '}{wrong}."

    def _form(self) -> str:
        """Return the form of the command line, with placeholders: `hermes sessions show SESSION`."""
        parts = [self.prog]
        for each in self._actions:
            if each.required and each.option_strings:
                parts.append(f"{each.option_strings[-1]} {each.metavar or each.dest.upper()}")
            elif not each.option_strings and (each.required or each.nargs == "*"):
                name = str(each.metavar or each.dest.upper())
                parts.append(f"[{name} …]" if each.nargs == "*" else name)
        return " ".join(parts)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help text or an error. Unlike argparse, raise `OSError` if it cannot be written."""
        if file is sys.stdout:
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)

    def format_help(self) -> str:
        """Return the help: usage or examples, then sections of names with their texts."""
        width = min(WIDEST, shutil.get_terminal_size().columns)
        paint = _paint if in_colour(sys.stdout) else lambda text, _style: text
        usage = re.sub(r"\s+", " ", self.format_usage().partition(": ")[2]).strip()
        lines = textwrap.wrap(self.description or "", width)
        if self.examples:
            lines += ["", *_rows(self.examples, width, paint, column=32)]
            usage = f"{self.prog} [OPTIONS]  or  {self.prog} COMMAND …"
        lines += ["", *textwrap.wrap(f"Usage: {usage}", width, subsequent_indent="       ")]
        options: list[tuple[str, str]] = []
        words: list[tuple[str, str]] = []
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                about = {each.dest: each.help or "" for each in action._choices_actions}
                for title, names in (self.sections or {"Actions": tuple(about)}).items():
                    rows = [(name, about[name]) for name in names]
                    lines += ["", paint(title, "1"), *_rows(rows, width, paint)]
            elif action.option_strings:
                options.append((_option(action), _expand(action)))
            else:
                words.append((str(action.metavar or action.dest), _expand(action)))
        if any(text for _, text in words):
            lines += ["", paint("Words", "1"), *_rows(words, width, paint)]
        lines += ["", paint("Options", "1"), *_rows(options, width, paint)]
        return "\n".join(lines).strip("\n") + "\n"


def _paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


def _option(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None and not action.metavar:
        value = "|".join(map(str, action.choices))
    shown = f"[{value}]" if action.nargs == "?" else value
    return f"{', '.join(action.option_strings)} {shown}".strip()


def _expand(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default} if action.help else ""


def _rows(rows: Iterable[tuple[str, str]], width: int, paint: Any, column: int = COLUMN) -> list[str]:
    """Return names and their texts as lines of two columns."""
    rows = list(rows)
    room = min(column, max((len(name) for name, _ in rows), default=0))
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(20, width - room - 4)) or [""]
        indent = " " * (room + 4)
        head = f"  {paint(name, '36')}{' ' * (room - len(name) + 2)}"
        if len(name) > room:
            lines.append(f"  {paint(name, '36')}")
            head = indent
        lines += [f"{head}{wrapped[0]}".rstrip(), *(f"{indent}{more}" for more in wrapped[1:])]
    return lines


def _nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that a wrong one means or resembles; empty if there is none."""
    low = word.lower()
    folded = {each.lower().lstrip("-"): each for each in known}
    meant = MEANT.get(low, "")
    if meant and (meant.split()[0] in known or (meant.startswith("--") and "setup" in known)):
        return meant
    close = get_close_matches(low.lstrip("-"), folded, n=1, cutoff=CLOSE)
    return folded[close[0]] if close else ""


def _and(names: Sequence[str], word: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


SECTIONS: dict[str, dict[str, str]] = {
    "Start": {
        "setup": "choose a model: a server or model on this machine, a key of a provider, an address",
        "import": "take over sessions, memory, skills, servers and permissions of another agent",
        "config": "show and change settings",
        "providers": "list, add, check and remove providers, and forget what was learned of one",
        "model": "fetch and list models that run on this machine",
        "extras": "list, add and remove what can be added to the program",
        "doctor": "check that everything Hermes needs is in order",
    },
    "Use": {
        "sessions": "list, show, search, rename, export and delete sessions",
        "running": "list the sessions that are open now, and where",
        "rollback": "show what steps did to files, and take files back",
        "checkpoints": "show, check and clear what is kept to take steps back",
        "memory": "list, add, edit and remove what is remembered between sessions",
        "learnings": "list, search, add and export what failed and what worked",
        "context": "show what a session begins with, layer by layer",
        "web": "search the web, read pages and crawl sites",
        "usage": "show what requests to models took",
    },
    "Work without you": {
        "cron": "list, add and run jobs that work on time",
        "batch": "work on many tasks from a file",
        "eval": "run suites of tasks, compare results, check a judge",
        "rl": "serve tasks as a training environment, hand in scored rollouts, train prompts",
    },
    "Other ways in": {
        "serve": "host sessions for the browser, the phone and other programs",
        "acp": "work in an editor that speaks the Agent Client Protocol",
        "gateway": "talk to sessions from messengers, and say who may",
    },
    "Safety": {
        "permissions": "list, explain, test and change what may be done",
        "trust": "list, show and take back everything you agreed to",
        "audit": "show and check the log of what was allowed and refused",
    },
    "Extend": {
        "skills": "list, check, install, update and hand on skills",
        "mcp": "list, add, check and call servers that bring tools",
        "hooks": "list and agree to your own commands that hear of events",
        "plugin": "list, check, install, enable, create and test plugins",
        "agents": "list, show, check and create kinds of agents",
        "skins": "list, show, check and create skins",
    },
}
"""All subcommands under the headings of the help, with a line about each."""
SUBCOMMANDS = {name: about for section in SECTIONS.values() for name, about in section.items()}
EXAMPLES = (
    ("hermes", "open Hermes in this folder"),
    ('hermes -p "why does the build fail?"', "work on one message, print the answer and exit"),
    ("hermes --continue", "continue with the newest session of this folder"),
)

LISTS = ("list", "show", "status")
"""The default actions of groups, in order of preference."""
_GROUPS = {
    "sessions": ("checkpoints", "context", "rollback", "running", "sessions", "usage"),
    "extend": (
        "agents",
        "extras",
        "learnings",
        "mcp",
        "memory",
        "model",
        "plugin",
        "providers",
        "skills",
        "skins",
        "web",
    ),
    "automate": ("batch", "cron", "eval", "gateway", "rl"),
    "safety": ("audit", "hooks", "permissions", "trust"),
}
"""The folders of `app/cli` by the subcommands in them; other subcommands are in `app/cli` itself."""
_MODULES = {name: f"{group}.{name}" for group, names in _GROUPS.items() for name in names} | {
    "import": "sessions.importing",
    "plugin_command": "extend.plugin_command",
}


def module_of(command: str) -> ModuleType:
    """Return the module in `app/cli` that implements a subcommand."""
    return importlib.import_module(f"app.cli.{_MODULES.get(command, command)}")


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Build the parser of `hermes`; only the subcommand named in `arguments` gets its options."""
    parser = Parser(prog="hermes", description="A tool-using agent that lives in your terminal.")
    parser.examples, parser.sections = EXAMPLES, {title: tuple(each) for title, each in SECTIONS.items()}
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        "-p", "--prompt", nargs="?", const="", metavar="TEXT", help="work on TEXT, or on stdin, and exit"
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="PATH",
        help="send an image with the text of -p; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print every event as one line of JSON")
    parser.add_argument(
        "-m", "--model", metavar="M", help="model to use: a name, provider/name, local or demo"
    )
    parser.add_argument("--demo", action="store_true", help="tour the program with a scripted model")
    parser.add_argument("--cwd", metavar="D", help="folder to work in (default: the current one)")
    parser.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="continue with a session: id, start of an id, or title; without one, choose from the list",
    )
    parser.add_argument(
        "-c",
        "--continue",
        dest="resume_last",
        action="store_true",
        help="continue with the newest session of this folder",
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="with --resume: the session moves to this folder instead of working where it did",
    )
    parser.add_argument(
        "--attach",
        nargs="?",
        const="",
        metavar="ID",
        help="work in a session of the service (`hermes serve`): this one, or the one it has open",
    )
    parser.add_argument(
        "--approve",
        choices=NAMES,
        metavar="MODE",
        help="what happens to actions: normal (ask), careful, plan, yolo (all) or deny",
    )
    parser.add_argument(
        "--effort", metavar="LEVEL", help="how much the model thinks: off, low, medium, high or tokens"
    )
    parser.add_argument(
        "--tools",
        type=name_list,
        metavar="NAMES",
        help="only these toolsets and tools are on offer, separated by commas",
    )
    parser.add_argument("--max-turns", type=positive, metavar="N", help="limit of requests to the model")
    parser.add_argument("--plain", action="store_true", help="a plain prompt instead of the full screen")
    parser.add_argument(
        "--reader", action="store_true", help="for a screen reader: only appended lines, states in words"
    )
    named = next((word for word in arguments if word in SUBCOMMANDS), None)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, summary in SUBCOMMANDS.items():
        if name == named:
            module = module_of(name)
            chosen = subparsers.add_parser(name, help=summary, description=module.DESCRIPTION)
            module.declare(chosen)
            _list_when_bare(chosen)
        else:
            subparsers.add_parser(name, help=summary)
    if named is None and arguments and not arguments[0].startswith("-"):
        module_of("plugin_command").add_registered(subparsers, arguments[0])
    return parser


def _list_when_bare(parser: Parser) -> None:
    """Make `list`, `show` or `status` the default action of a group, if it needs no arguments."""
    for group in parser._actions:
        if not isinstance(group, argparse._SubParsersAction) or not group.required:
            continue
        for name in LISTS:
            action = group.choices.get(name)
            if action is not None and not any(
                each.required or (not each.option_strings and each.nargs not in ("?", "*"))
                for each in action._actions
                if each.dest != "help"
            ):
                parser.bare, parser.bare_options = name, set(action._option_string_actions) - {"-h", "--help"}
                return
