"""`hermes agents`: list, show, check and begin kinds of agents."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from app.tui.screens.agents.agent_files import AgentKind

_ACTIONS = """\
list     every kind of agent that can be sent here
show     what one kind may do, and its instructions
check    say what is wrong with kinds of agents; exit code 2 if anything is
new      write the file of a kind of your own, with every part explained
path     where your own kinds are
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "agents",
        help="list, show, check and begin kinds of agents",
        description="List, show, check and begin kinds of agents.",
        epilog=_ACTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="every kind of agent")
    show = actions.add_parser("show", help="one kind with its instructions")
    show.add_argument("name", metavar="NAME")
    check = actions.add_parser("check", help="what is wrong")
    check.add_argument("agent", metavar="NAME|PATH", nargs="?", help="default: all kinds")
    new = actions.add_parser("new", help="write the file of a kind of your own")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--from", dest="based_on", metavar="NAME", help="the kind to start from")
    actions.add_parser("path", help="where your own kinds are")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Raises `ConfigError`."""
    home = Home.locate()
    match args.action:
        case "list":
            return _list(home)
        case "show":
            return _show(home, args.name)
        case "check":
            return _check(home, args.agent)
        case "new":
            return _new(home, args.name, args.based_on)
        case _:
            say(str(home.agents))
            return ExitCode.DONE


def _read(home: Home) -> tuple[list[AgentKind], str]:
    from app.cli.safety.folder import workspace
    from app.tui.screens.agents.agent_files import read_kinds

    return read_kinds(home, workspace(None))


def _named(home: Home, name: str) -> AgentKind:
    """The kind called `name`. Raises `ConfigError` when there is none."""
    from themes.skin_problem import nearest

    kinds = {kind.name: kind for kind in _read(home)[0]}
    wanted = name.removeprefix("@")
    if wanted not in kinds:
        raise ConfigError(f"There is no kind of agent `{wanted[:60]}`{nearest(wanted, list(kinds))}")
    return kinds[wanted]


def _list(home: Home) -> int:
    kinds, problem = _read(home)
    width = max((len(kind.name) for kind in kinds), default=0)
    for kind in kinds:
        about = (
            kind.definition.description if kind.definition else "cannot be sent, see `hermes agents check`"
        )
        notes = [kind.source] if kind.source != "built-in" else []
        notes += ["has problems, see `hermes agents check`"] if kind.doubts else []
        say(f"{kind.name:{width}}  {about}" + (f"   ({'; '.join(notes)})" if notes else ""))
    if problem:
        say(problem)
    return ExitCode.DONE


def _show(home: Home, name: str) -> int:
    from app.tui.screens.agents.agent_files import limits

    kind = _named(home, name)
    say(f"{kind.name} ({kind.source}): {kind.path}")
    if kind.hides:
        say(f"takes the place of: {', '.join(kind.hides)}")
    if kind.definition is not None:
        say(kind.definition.description)
        say(limits(kind.definition))
        say("")
        say(kind.definition.prompt)
    return _complain(kind)


def _check(home: Home, agent: str | None) -> int:
    if agent is not None and (agent.endswith(".md") or "/" in agent):
        return _check_file(Path(agent).expanduser())
    kinds, problem = ([_named(home, agent)], "") if agent is not None else _read(home)
    bad = [kind for kind in kinds if _complain(kind) != ExitCode.DONE]
    for kind in kinds:
        if kind not in bad:
            say(f"✓ {kind.name}")
    if problem:
        say(f"▲ {problem}")
    return ExitCode.USAGE if bad else ExitCode.DONE


def _check_file(path: Path) -> int:
    from agent.session.subagents.definitions import read_definition

    parsed = read_definition(path)
    for problem in parsed.problems:
        say(f"✗ {problem}")
    if parsed.definition is None:
        return ExitCode.USAGE
    say(f"✓ {parsed.definition.name}")
    return ExitCode.DONE


def _complain(kind: AgentKind) -> int:
    for problem in kind.problems:
        say(f"✗ {problem}")
    for doubt in kind.doubts:
        say(f"▲ {kind.name}: {doubt}")
    return ExitCode.DONE if kind.sound else ExitCode.USAGE


def _new(home: Home, name: str, based_on: str | None) -> int:
    from app.tui.screens.agents.agent_files import create, new_text, read_text, renamed, valid_name

    text = new_text(name)
    if based_on is not None:
        text = renamed(read_text(_named(home, based_on).path), valid_name(name))
    path = create(home, name, text)
    say(f"{path}   (edit it, then `hermes agents check {valid_name(name)}`)")
    return ExitCode.DONE
