"""`hermes NAME …`: a command that a plugin registered."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from agent.integrations.plugins.shelf import ShelvedPlugin


def registered(name: str) -> str | None:
    """What a command of a plugin that was agreed to is for; None if there is none. Reads one file."""
    from agent.integrations.plugins.consent import ConsentFile

    for consent in ConsentFile(Home.locate().plugin_consent).read().values():
        for command in consent.registered.cli_commands:
            if command.name == name:
                return command.description
    return None


def add_parser(subparsers: Any, name: str, summary: str) -> None:
    """Declare the command: everything behind its name is its own business."""
    parser = subparsers.add_parser(name, help=summary, description=summary, prefix_chars="\0", add_help=False)
    parser.add_argument("arguments", nargs="*")
    parser.set_defaults(command="plugin_command", name=name)


def run(args: argparse.Namespace) -> int:
    """Carry it out; the exit code is that of the plugin. Raises `HermesError`."""
    from agent.core.config.loader import load
    from agent.integrations.plugins.enabling import PluginEnvironment
    from agent.integrations.plugins.problem import PluginError
    from agent.integrations.plugins.shelf import find_agreed

    home = Home.locate()
    for each in find_agreed(home, Path.cwd()):
        if each.is_on and _has(each, args.name):
            loaded = load(home, dict(os.environ), Path.cwd())
            around = PluginEnvironment.of(home, Path.cwd(), loaded.environ, loaded.settings.sandbox.mode)
            said = asyncio.run(_asked(each, around, args.name, args.arguments))
            break
    else:
        raise PluginError(f"The plugin with the command {args.name} is off; see `hermes plugin list`.")
    if isinstance(said, int) and not isinstance(said, bool):
        return said if 0 <= said < 256 else int(ExitCode.FAILED)
    if said is not None:
        for line in str(said).splitlines():
            say(line)
    return int(ExitCode.DONE)


def _has(shelved: ShelvedPlugin, name: str) -> bool:
    consent = shelved.consent
    return consent is not None and any(each.name == name for each in consent.registered.cli_commands)


async def _asked(shelved: ShelvedPlugin, around: Any, name: str, arguments: list[str]) -> Any:
    from agent.integrations.plugins.runner import PluginRunner

    runner = PluginRunner(shelved, around, lambda text: say(text, sys.stderr))
    try:
        return await runner.ask("cli_command", name, arguments)
    finally:
        await runner.aclose()
