"""`hermes permissions`: list, test, add and remove permission rules."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, advise, agreed_by, say, say_json
from app.cli.safety import explain
from themes.states import glyph

if TYPE_CHECKING:
    from agent.safety.permissions.policy import Permissions
    from agent.safety.permissions.rules import PermissionRule

DESCRIPTION = "List, explain, test and change what may be done."


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand."""
    actions = add_actions(parser)
    listing = add_action(
        actions, "list", "every rule in force, where it stands, and the mode", _list, json="print JSON"
    )
    listing.add_argument("--surface", default="", metavar="NAME", help="with the profile of a surface")
    explaining = add_action(
        actions,
        "explain",
        "what would happen to a command, and why",
        explain.explain,
        json="one line of JSON per command",
    )
    explain.add_arguments(explaining)
    add_action(actions, "test", "check the examples of all rules; exit code 2 if one fails", _test, json="")
    for name, what in (
        ("allow", "allows, such as 'terminal(npm run *)'"),
        ("deny", "denies, such as 'write_file(secrets/**)'"),
        ("ask", "asks, such as 'terminal(git push *)'"),
    ):
        change = add_action(actions, name, f"add a rule that {what}", _change, json="")
        change.add_argument("rule", metavar="RULE", help="tool or tool(pattern)")
        change.add_argument("--yes", action="store_true", help="do not ask, even if more will pass")


def _permissions(args: argparse.Namespace, surface: str = "") -> Permissions:
    from agent.safety.permissions.policy import Permissions

    workspace = Path(os.path.realpath(Path(getattr(args, "cwd", None) or ".").expanduser()))
    return Permissions(Home.locate(), workspace, surface)


def _list(args: argparse.Namespace) -> None:
    from agent.core.config.loader import load
    from agent.core.messages import SUMMARIES, canonical
    from agent.safety.permissions.file import SURFACES

    if args.surface and args.surface not in SURFACES:
        raise ConfigError(f"There is no surface `{args.surface}`; surfaces are {', '.join(SURFACES)}.")
    permissions = _permissions(args, args.surface)
    policy = permissions.current()
    settings = load(Home.locate(), os.environ).settings
    mode = policy.mode_from(canonical(settings.approvals.mode))
    rules = policy.rules.rules
    if args.as_json:
        rows = [
            {"rule": rule.text, "verdict": rule.verdict, "file": rule.origin, "line": rule.line}
            | {"reason": rule.reason, "surface": rule.surface}
            for rule in rules
        ]
        problems = [str(problem) for problem in policy.problems]
        say_json({"mode": mode, "rules": rows, "problems": problems}, 2)
        return
    say(f"mode  {mode}: {SUMMARIES[mode]}")
    width = max((len(rule.text) for rule in rules), default=0)
    for rule in sorted(rules, key=lambda rule: ("deny", "ask", "allow").index(rule.verdict)):
        say(_row(rule, width))
    if not rules:
        advise(f"no rules; write some into {Home.locate().permissions} or use `hermes permissions deny RULE`")
    for problem in policy.problems:
        say(f"{glyph('failed')} {problem}", file=sys.stderr)
    if policy.problems:
        say("Until that is fixed nothing in the file allows anything.", file=sys.stderr)
    if policy.project == "untrusted":
        advise("This project's rules that allow are not used; see `hermes config trust`.", file=sys.stderr)


def _row(rule: PermissionRule, width: int) -> str:
    notes = [rule.place]
    if rule.surface:
        notes.append(f"for {rule.surface}")
    if rule.reason:
        notes.append(rule.reason)
    return f"{rule.verdict:5} {rule.text:{width}}  ({'; '.join(notes)})"


def _test(args: argparse.Namespace) -> int:
    from agent.safety.programs.table import program_mistakes

    checked = failed = 0
    for file in _permissions(args).files():
        checked += sum(len(rule.match) + len(rule.no_match) for rule in file.rules)
        failed += len(file.problems)
        for problem in file.problems:
            say(f"{glyph('failed')} {problem}")
    for told in program_mistakes(Home.locate().root / "programs"):
        failed += 1
        say(f"{glyph('failed')} {told}")
    examples = f"{checked} {'example' if checked == 1 else 'examples'}"
    if failed:
        say(f"{examples} checked, {failed} {'problem' if failed == 1 else 'problems'}.")
        return ExitCode.USAGE
    say(f"{examples} checked, all hold.")
    return ExitCode.DONE


def _change(args: argparse.Namespace) -> None:
    from agent.safety.permissions.file import plan_rule

    permissions = _permissions(args)
    verdict: Any = args.action
    edit = plan_rule(Home.locate(), args.rule.strip(), verdict, permissions.setting)
    nobody = "This lets more pass than before and nobody is there to confirm it; add --yes."
    question = f"{verdict} {args.rule} from now on, in every project?"
    if edit.widens and not agreed_by(args, question, nobody):
        raise ConfigError("Nothing was changed.")
    edit.write()
    say(f"{args.rule.strip()}: {verdict}   ({Home.locate().permissions})")
