"""`hermes NAME …`: running a command that a plugin registered."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.frame import load_settings, say

if TYPE_CHECKING:
    from agent.integrations.plugins.shelf import FoundPlugin


def add_registered(subparsers: Any, name: str) -> None:
    """Add a parser for the command that an approved plugin registered as `name`, if any. Reads one file."""
    from agent.integrations.plugins.consent import PluginConsents

    for consent in PluginConsents(Home.locate().plugin_consent).read().values():
        for command in consent.registered.cli_commands:
            if command.name == name:
                text = command.description
                # The command itself reads everything behind its name.
                parser = subparsers.add_parser(
                    name, help=text, description=text, prefix_chars="\0", add_help=False
                )
                parser.add_argument("arguments", nargs="*")
                parser.set_defaults(command="plugin_command", name=name, do=run)
                return


def run(args: argparse.Namespace) -> int:
    """Run the plugin's command and return its exit code. Raises `HermesError`."""
    from agent.integrations.plugins.files import PluginError
    from agent.integrations.plugins.installing import PluginEnvironment
    from agent.integrations.plugins.session_plugins import PluginRunner
    from agent.integrations.plugins.shelf import find_approved_plugins

    home = Home.locate()
    for each in find_approved_plugins(home, Path.cwd()):
        if each.is_on and _has(each, args.name):
            loaded = load_settings(home)
            around = PluginEnvironment.of(home, Path.cwd(), loaded.environ, loaded.settings.sandbox.mode)

            async def ask(runner: PluginRunner) -> Any:
                try:
                    return await runner.ask("cli_command", args.name, args.arguments)
                finally:
                    await runner.aclose()

            said = asyncio.run(ask(PluginRunner(each, around, lambda text: say(text, sys.stderr))))
            break
    else:
        raise PluginError(f"The plugin with the command {args.name} is off; see `hermes plugin list`.")
    if isinstance(said, int) and not isinstance(said, bool):
        return said if 0 <= said < 256 else int(ExitCode.FAILED)
    if said is not None:
        say(str(said).removesuffix("\n"))
    return int(ExitCode.DONE)


def _has(shelved: FoundPlugin, name: str) -> bool:
    consent = shelved.consent
    return consent is not None and any(each.name == name for each in consent.registered.cli_commands)
