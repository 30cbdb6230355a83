"""`hermes hooks`: list the commands that receive events, and approve them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import YES, add_action, add_actions, advise, agreed_by, load_settings, say, say_json
from themes.states import NEEDS_YOU, glyph
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.config.hook_list import Hook
    from agent.integrations.hooks.session_hooks import HookConsent


DESCRIPTION = (
    "List the hooks of the settings, or agree to run them. A hook that was changed has to be agreed to again."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes hooks` to its parser."""
    actions = add_actions(parser)
    add_action(actions, "list", "all hooks, and whether they run", _list)
    trust = add_action(actions, "trust", "agree to all hooks as they stand", _trust, json="")
    trust.add_argument("--yes", action="store_true", help=YES)


def _hooks() -> tuple[list[Hook], HookConsent]:
    """Return the configured hooks and the record of approvals; print problems of their settings to stderr."""
    from agent.integrations.hooks.session_hooks import HookConsent

    home = Home.locate()
    loaded = load_settings(home)
    for problem in loaded.problems:
        if problem.key.startswith("hooks"):
            say(str(problem), sys.stderr)
    return list(loaded.hooks), HookConsent(home.hooks)


def _list(args: argparse.Namespace) -> None:
    hooks, consent = _hooks()
    agreed = consent.agreed_digests()
    if args.as_json:
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
        say_json({"hooks": shown})
        return
    for hook in hooks:
        say(_line(hook, hook.digest in agreed))
    if not hooks:
        say("The settings have no hooks; docs/hooks.md shows how to add one.")
    elif any(hook.digest not in agreed for hook in hooks):
        advise(f"What is marked {NEEDS_YOU} does not run; agree with `hermes hooks trust`.")


def _line(hook: Hook, agreed: bool) -> str:
    only = "" if hook.match == "*" else f" [{clean(hook.match)}]"
    required = ", required" if hook.required else ""
    command = one_line(hook.command)
    origin = f", of the project {clean(hook.project)}" if hook.project else ""
    mark = glyph("done" if agreed else "needs you")
    return f"{mark} {hook.event}{only}: {command} ({hook.timeout:g} s{required}{origin})"


def _trust(args: argparse.Namespace) -> int:
    hooks, consent = _hooks()
    if not hooks:
        raise ConfigError("The settings have no hooks; nothing to agree to.")
    agreed = consent.agreed_digests()
    for hook in hooks:
        say(_line(hook, hook.digest in agreed))
    question = "They run as you, outside of the sandbox. Agree?"
    if not agreed_by(args, question, "Nobody is there to be asked; add --yes to agree to these hooks."):
        say("Nothing was agreed to.")
        return int(ExitCode.DENIED)
    consent.agree(hooks)
    say("These run from the next session on, until one of them changes.")
    return int(ExitCode.DONE)
