"""`hermes hooks`: which commands hear of events, and agreeing to them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.sessions.output import say
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.config.hook_list import Hook
    from agent.integrations.hooks.consent import HookConsent


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "hooks",
        help="list and agree to your own commands that hear of events",
        description="List the hooks of the settings, or agree to run them. A hook that was changed has to be "
        "agreed to again.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="all hooks, and whether they run", description="List all hooks.")
    listed.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    trusted = actions.add_parser(
        "trust", help="agree to all hooks as they stand", description="Agree to all hooks as they stand."
    )
    trusted.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    from agent.core.config.loader import load
    from agent.integrations.hooks.consent import HookConsent

    home = Home.locate()
    loaded = load(home, dict(os.environ), Path.cwd())
    for problem in loaded.problems:
        if problem.key.startswith("hooks"):
            say(str(problem), sys.stderr)
    hooks, consent = list(loaded.hooks), HookConsent(home.hooks)
    return _list(hooks, consent, args.as_json) if args.action == "list" else _trust(hooks, consent, args.yes)


def _list(hooks: list[Hook], consent: HookConsent, as_json: bool) -> int:
    agreed = consent.agreed()
    if as_json:
        shown = [
            {
                "event": hook.event,
                "command": hook.command,
                "match": hook.match,
                "timeout": hook.timeout,
                "required": hook.required,
                "project": hook.project,
                "agreed": hook.digest in agreed,
            }
            for hook in hooks
        ]
        say(json.dumps({"hooks": shown}))
        return int(ExitCode.DONE)
    for hook in hooks:
        say(_line(hook, hook.digest in agreed))
    if not hooks:
        say("The settings have no hooks; docs/hooks.md shows how to add one.")
    elif any(hook.digest not in agreed for hook in hooks):
        say("What is marked ✗ does not run; agree with `hermes hooks trust`.")
    return int(ExitCode.DONE)


def _line(hook: Hook, agreed: bool) -> str:
    only = "" if hook.match == "*" else f" [{clean(hook.match)}]"
    required = ", required" if hook.required else ""
    command = one_line(hook.command)
    origin = f", of the project {clean(hook.project)}" if hook.project else ""
    return f"{'✓' if agreed else '✗'} {hook.event}{only}: {command} ({hook.timeout:g} s{required}{origin})"


def _trust(hooks: list[Hook], consent: HookConsent, yes: bool) -> int:
    if not hooks:
        raise ConfigError("The settings have no hooks; nothing to agree to.")
    agreed = consent.agreed()
    for hook in hooks:
        say(_line(hook, hook.digest in agreed))
    if not yes and not _confirmed():
        say("Nothing was agreed to.")
        return int(ExitCode.DENIED)
    consent.agree(hooks)
    say("These run from the next session on, until one of them changes.")
    return int(ExitCode.DONE)


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("Nobody is there to be asked; add --yes to agree to these hooks.")
    try:
        return input("They run as you, outside of the sandbox. Agree? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
