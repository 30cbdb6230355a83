"""`hermes skills`: what there is, what is wrong with it, what comes from elsewhere and goes there."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from app.cli.extend.skills.command import SkillCommand

MODULES = ("listing", "checking", "finding", "installing", "auditing", "sharing")
"""Modules of this package; each declares its `COMMANDS`."""


def commands() -> dict[str, SkillCommand]:
    """All commands by name, in their order."""
    found = (each for name in MODULES for each in import_module(f"{__name__}.{name}").COMMANDS)
    return {each.name: each for each in found}


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    known = commands()
    width = max(map(len, known))
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "skills",
        help="list, check, install, update and hand on skills",
        description="List, check, install, update and hand on skills: written-down ways of doing a task.",
        epilog="\n".join(f"{each.name:{width}}  {each.summary}" for each in known.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for each in known.values():
        action = actions.add_parser(each.name, help=each.summary, description=f"{each.summary.capitalize()}.")
        each.declare(action)
        action.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Raises `HermesError`."""
    return commands()[args.action].run(args)
