"""`hermes cron`: schedules, jobs and their runs."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

from agent.errors import ExitCode

_MODULES = {
    **dict.fromkeys(("list", "add", "edit", "pause", "resume", "remove", "log"), "jobs"),
    **dict.fromkeys(("run", "install"), "running"),
    "next": "asking",
}
"""Where each action is carried out, a module of this folder with `declare` and `run`."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cron",
        help="list, add and run jobs that work on time",
        description="Jobs that work on time, and when they are due.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name in sorted(set(_MODULES.values())):
        _module(name).declare(actions)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    code = int(_module(_MODULES[args.action]).run(args))
    sys.stdout.flush()
    return code or int(ExitCode.DONE)


def _module(name: str) -> Any:
    return importlib.import_module(f"app.cli.automate.cron.{name}")
