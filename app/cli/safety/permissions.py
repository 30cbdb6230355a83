"""`hermes permissions`: what may be done, by which rule; try rules out and add some."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.safety import explain
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from agent.safety.permissions.file import PermissionFile
    from agent.safety.permissions.policy import Permissions
    from agent.safety.permissions.rules import PermissionRule

_ACTIONS = """\
list     every rule in force, where it stands, and the mode
explain  what would happen to a command, and why
test     check the examples of all rules; exit code 2 if one fails
allow    add a rule that allows, such as 'terminal(npm run *)'
deny     add a rule that denies, such as 'write_file(secrets/**)'
ask      add a rule that asks, such as 'terminal(git push *)'
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "permissions",
        help="list, explain, test and change what may be done",
        description="List, explain, test and change what may be done.",
        epilog=_ACTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every rule in force")
    listing.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    listing.add_argument("--surface", default="", metavar="NAME", help="with the profile of a surface")
    explaining = actions.add_parser("explain", help="what would happen to a command, and why")
    explain.add_arguments(explaining)
    actions.add_parser("test", help="check the examples of all rules; exit code 2 if one fails")
    for name in ("allow", "deny", "ask"):
        change = actions.add_parser(name, help=f"add a rule with the verdict {name}")
        change.add_argument("rule", metavar="RULE", help="tool or tool(pattern)")
        change.add_argument("--yes", action="store_true", help="do not ask, even if more will pass")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Raises `ConfigError`."""
    match args.action:
        case "list":
            return _list(args)
        case "explain":
            return explain.explain(args)
        case "test":
            return _test(_permissions(args))
        case verdict:
            return _change(args, verdict)


def _permissions(args: argparse.Namespace, surface: str = "") -> Permissions:
    from agent.safety.permissions.policy import Permissions

    workspace = Path(os.path.realpath(Path(getattr(args, "cwd", None) or ".").expanduser()))
    return Permissions(Home.locate(), workspace, surface)


def _list(args: argparse.Namespace) -> int:
    from agent.core.config.loader import load
    from agent.core.modes import SUMMARIES, canonical
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
        print(json.dumps({"mode": mode, "rules": rows, "problems": problems}, ensure_ascii=True, indent=2))
        return ExitCode.DONE
    say(f"mode  {mode}: {SUMMARIES[mode]}")
    width = max((len(rule.text) for rule in rules), default=0)
    for rule in sorted(rules, key=lambda rule: ("deny", "ask", "allow").index(rule.verdict)):
        say(_row(rule, width))
    if not rules:
        say(f"no rules; write some into {Home.locate().permissions} or use `hermes permissions deny RULE`")
    _tell(policy.problems)
    if policy.project == "untrusted":
        say("This project's rules that allow are not used; see `hermes config trust`.", file=sys.stderr)
    return ExitCode.DONE


def _row(rule: PermissionRule, width: int) -> str:
    notes = [rule.place]
    if rule.surface:
        notes.append(f"for {rule.surface}")
    if rule.reason:
        notes.append(rule.reason)
    return f"{rule.verdict:5} {rule.text:{width}}  ({'; '.join(notes)})"


def _tell(problems: tuple[object, ...]) -> None:
    for problem in problems:
        say(f"✗ {problem}", file=sys.stderr)
    if problems:
        say("Until that is mended nothing in the file allows anything.", file=sys.stderr)


def _test(permissions: Permissions) -> int:
    from agent.safety.programs.table import program_mistakes

    checked = failed = 0
    for file in permissions.files():
        checked += sum(len(rule.match) + len(rule.no_match) for rule in file.rules)
        failed += len(file.problems)
        _show(file)
    for told in program_mistakes(Home.locate().root / "programs"):
        failed += 1
        say(f"✗ {told}")
    examples = f"{checked} {'example' if checked == 1 else 'examples'}"
    if failed:
        say(f"{examples} checked, {failed} {'problem' if failed == 1 else 'problems'}.")
        return ExitCode.USAGE
    say(f"{examples} checked, all hold.")
    return ExitCode.DONE


def _show(file: PermissionFile) -> None:
    for problem in file.problems:
        say(f"✗ {problem}")


def _change(args: argparse.Namespace, verdict: Any) -> int:
    from agent.safety.permissions.editing import plan_rule

    permissions = _permissions(args)
    edit = plan_rule(Home.locate(), args.rule.strip(), verdict, permissions.setting)
    if edit.widens and not args.yes:
        _confirm(f"{verdict} {args.rule} from now on, in every project?")
    edit.write()
    say(f"{args.rule.strip()}: {verdict}   ({Home.locate().permissions})")
    return ExitCode.DONE


def _confirm(question: str) -> None:
    """Return if a person says yes. Raises `ConfigError`."""
    if not sys.stdin.isatty():
        raise ConfigError("This lets more pass than before and nobody is there to confirm it; add --yes.")
    say(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("Nothing was changed.")
