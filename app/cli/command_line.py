"""The full command line: all options and subcommands."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from types import ModuleType

from agent.core.messages import NAMES
from app.cli.frame import name_list, positive
from app.cli.parser import Parser

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
"""Actions that a group without one means, the first there is."""
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
"""Folders of `app/cli` and the subcommands whose modules are there; the others are beside this one."""
_MODULES = {name: f"{group}.{name}" for group, names in _GROUPS.items() for name in names} | {
    "import": "sessions.importing",
    "plugin_command": "extend.plugin_command",
}


def module_of(command: str) -> ModuleType:
    """Return the module in `app/cli` that implements a subcommand."""
    return importlib.import_module(f"app.cli.{_MODULES.get(command, command)}")


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Build the whole parser; only the subcommand named in `arguments` is loaded in full."""
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
    """Make `list` the default of a group of actions, with its options, where it needs no arguments."""
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
