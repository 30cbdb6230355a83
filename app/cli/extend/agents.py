"""`hermes agents`: list, show, check and create kinds of agents."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, advise, say, say_json, say_path
from themes.states import glyph

if TYPE_CHECKING:
    from app.tui.screens.agents.agent_files import AgentKind

DESCRIPTION = "List, show, check and create kinds of agents."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes agents` to its parser."""
    actions = add_actions(parser)
    add_action(actions, "list", "every kind of agent that can be sent here", _list, json="print JSON")
    show = add_action(actions, "show", "what one kind may do, and its instructions", _show)
    show.add_argument("name", metavar="NAME")
    check = add_action(
        actions,
        "check",
        "say what is wrong with kinds of agents; exit code 2 if anything is",
        _check,
        json="",
    )
    check.add_argument("agent", metavar="NAME|PATH", nargs="?", help="default: all kinds")
    new = add_action(
        actions, "new", "write the file of a kind of your own, with every part explained", _new, json=""
    )
    new.add_argument("name", metavar="NAME")
    new.add_argument("--from", dest="based_on", metavar="NAME", help="the kind to start from")
    add_action(actions, "path", "where your own kinds are", lambda args: say_path(args, Home.locate().agents))


def _read() -> tuple[list[AgentKind], str]:
    from app.cli.safety.folder import workspace
    from app.tui.screens.agents.agent_files import read_kinds

    return read_kinds(Home.locate(), workspace(None))


def _find_kind(name: str) -> AgentKind:
    """Return the kind called `name`. Raises `ConfigError` if there is none."""
    from themes.skin import nearest

    kinds = {kind.name: kind for kind in _read()[0]}
    wanted = name.removeprefix("@")
    if wanted not in kinds:
        guess = nearest(wanted, list(kinds))
        raise ConfigError(f"There is no kind of agent `{wanted[:60]}`{guess} `hermes agents` lists them.")
    return kinds[wanted]


def _list(args: argparse.Namespace) -> None:
    kinds, problem = _read()
    if args.as_json:
        say_json([_data(kind) for kind in kinds], 2)
        kinds = []
    width = max((len(kind.name) for kind in kinds), default=0)
    for kind in kinds:
        about = (
            kind.definition.description if kind.definition else "cannot be sent, see `hermes agents check`"
        )
        notes = [kind.source] if kind.source != "built-in" else []
        notes += ["has problems, see `hermes agents check`"] if kind.doubts else []
        say(f"{kind.name:{width}}  {about}" + (f"   ({'; '.join(notes)})" if notes else ""))
    if problem:
        say(problem, sys.stderr if args.as_json else None)


def _data(kind: AgentKind) -> dict[str, Any]:
    """Return the data about a kind that `--json` prints."""
    definition = kind.definition
    limits = (
        {
            "description": definition.description,
            "tools": definition.tools,
            "isolation": definition.isolation,
            "model": definition.model,
            "budget": dataclasses.asdict(definition.budget),
        }
        if definition
        else {}
    )
    return {
        "name": kind.name,
        "source": kind.source,
        "path": str(kind.path),
        "problems": kind.problems + kind.doubts,
        "hides": kind.hides,
        **limits,
    }


def _show(args: argparse.Namespace) -> int:
    from app.tui.screens.agents.agent_files import limits

    kind = _find_kind(args.name)
    if args.as_json:
        say_json(_data(kind) | {"instructions": kind.definition.prompt if kind.definition else ""}, 2)
        return ExitCode.DONE if kind.is_valid else ExitCode.USAGE
    say(f"{kind.name} ({kind.source}): {kind.path}")
    if kind.hides:
        say(f"takes the place of: {', '.join(kind.hides)}")
    if kind.definition is not None:
        say(kind.definition.description)
        say(limits(kind.definition))
        say("")
        say(kind.definition.prompt)
    return _print_problems(kind)


def _check(args: argparse.Namespace) -> int:
    agent: str | None = args.agent
    if agent is not None and (agent.endswith(".md") or "/" in agent):
        return _check_file(Path(agent).expanduser())
    kinds, problem = ([_find_kind(agent)], "") if agent is not None else _read()
    bad = [kind for kind in kinds if _print_problems(kind) != ExitCode.DONE]
    for kind in kinds:
        if kind not in bad:
            say(f"{glyph('done')} {kind.name}")
    if problem:
        say(f"▲ {problem}")
    return ExitCode.USAGE if bad else ExitCode.DONE


def _check_file(path: Path) -> int:
    from agent.session.subagents.definitions import read_definition

    parsed = read_definition(path)
    for problem in parsed.problems:
        say(f"{glyph('failed')} {problem}")
    if parsed.definition is None:
        return ExitCode.USAGE
    say(f"{glyph('done')} {parsed.definition.name}")
    return ExitCode.DONE


def _print_problems(kind: AgentKind) -> int:
    for problem in kind.problems:
        say(f"{glyph('failed')} {problem}")
    for doubt in kind.doubts:
        say(f"▲ {kind.name}: {doubt}")
    return ExitCode.DONE if kind.is_valid else ExitCode.USAGE


def _new(args: argparse.Namespace) -> None:
    from app.tui.screens.agents.agent_files import create, new_text, read_text, valid_name, with_name

    name = args.name
    text = new_text(name)
    if args.based_on is not None:
        text = with_name(read_text(_find_kind(args.based_on).path), valid_name(name))
    path = create(Home.locate(), name, text)
    advise(f"{path}   (edit it, then `hermes agents check {valid_name(name)}`)")
