"""`hermes extras`: list, add and remove optional packages; also the offer to add a missing one."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.errors import ConfigError, HermesError
from app.cli.frame import YES, add_action, add_json, agrees, say, say_json
from themes.states import glyph
from tools.extras import EXTRAS, is_installed, missing

if TYPE_CHECKING:
    from agent.integrations.extras import ExtrasChange

DESCRIPTION = (
    "List what can be added to the program, add it to the environment Hermes runs from, or "
    "remove it. The command that does it is shown before it runs."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of `hermes extras` to its parser."""
    add_json(parser)
    parser.set_defaults(do=_list)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add_action(
        actions, "list", "every extra, what it brings, and whether it is there", _list, json="print JSON"
    )
    for action, about, do in (
        ("add", "install extras", _add_named),
        ("remove", "remove what only these extras need", _remove),
    ):
        each = add_action(actions, action, about, do, json="print the result as JSON")
        each.add_argument("names", metavar="NAME", nargs="+")
        each.add_argument("--yes", action="store_true", help=YES)


def _add_named(args: argparse.Namespace) -> None:
    from agent.integrations.extras import check_names

    names = check_names(args.names)
    _add(names, ask=not args.yes)
    if args.as_json:
        _list(args, names)


def _remove(args: argparse.Namespace) -> None:
    from agent.integrations.extras import check_names, removing

    names = check_names(args.names)
    change = removing(names)
    if change.command:
        _carry_out(change, 0, ask=not args.yes)
    else:
        say("Nothing is removed: none is installed, or something else needs what they brought.", sys.stderr)
    if args.as_json:
        _list(args, names)


def require(name: str, what: str) -> None:
    """Make sure an extra is installed, offering to add it on a terminal. Raises `ConfigError` otherwise."""
    if is_installed(name):
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        extra = EXTRAS[name]
        say(f"{what} needs the extra `{name}`: {extra.brings} (about {extra.size} MB).", sys.stderr)
        _add([name], ask=True)
    if not is_installed(name):
        raise ConfigError(missing(what, name))


def _add(names: Sequence[str], *, ask: bool) -> None:
    from agent.integrations.extras import adding

    change = adding(names)
    if not change.command:
        say(f"{', '.join(names)}: installed already.", sys.stderr)
        return
    size = sum(EXTRAS[name].size for name in names if not is_installed(name))
    try:
        _carry_out(change, size, ask=ask)
    finally:
        change.clear()
    import importlib

    importlib.invalidate_caches()
    if gone := [name for name in names if not is_installed(name)]:
        raise HermesError(
            f"It was installed, but {', '.join(gone)} still cannot be used; see `hermes doctor`."
        )
    say(f"Added: {', '.join(names)}.", sys.stderr)


def _carry_out(change: ExtrasChange, size: int, *, ask: bool) -> None:
    """Show the command, ask for consent if `ask`, and run it. Raises `ConfigError` and `HermesError`."""
    from app.tui.terminal.pip_progress import ProgressLine, failure_hint, with_raw_progress
    from app.tui.terminal.pip_progress import run as run_pip
    from tools.kit.umask import person_umask

    if change.obstacle:
        raise ConfigError(f"Hermes cannot change this itself: {change.obstacle}. Run this: {change.line}")
    say(f"$ {change.line}", sys.stderr)
    if ask and not sys.stdin.isatty():
        raise ConfigError("Nothing was changed, as nobody can be asked here; add --yes.")
    if ask and not agrees(f"Run it{f', about {size} MB' if size else ''}?", default=True):
        raise ConfigError("Nothing was changed.")
    shown = ProgressLine()
    try:
        code, said = run_pip(with_raw_progress(change.command), size * 1_000_000, shown.show, person_umask())
    except (OSError, subprocess.SubprocessError) as error:
        raise HermesError(f"{shlex.quote(change.command[0])} could not be run: {error}.") from error
    finally:
        shown.end()
    if code:
        say(said, sys.stderr)
        raise HermesError(failure_hint(said) or "The command above failed; what it said is above.")


def _list(args: argparse.Namespace, names: Sequence[str] = ()) -> None:
    from dataclasses import asdict

    from agent.integrations.extras import states

    listed = [each for each in states() if not names or each.name in names]
    if args.as_json:
        say_json([asdict(each) for each in listed], 2)
        return
    width = max(len(each.name) for each in listed)
    for each in listed:
        mark = glyph("done" if each.installed else "skipped")
        size = "" if each.installed else f"  about {each.size / 1e6:.0f} MB"
        say(f"{mark} {each.name:<{width}}  {each.brings}{size}")
