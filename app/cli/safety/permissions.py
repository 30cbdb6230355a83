"""`hermes permissions`: list, test, add and remove permission rules."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from agent.safety.rules import Verdict
from app.cli.frame import add_action, add_actions, advise, agreed_by, say, say_json
from themes.states import glyph

if TYPE_CHECKING:
    from agent.safety.gate import Gate
    from agent.safety.permissions.policy import Permissions
    from agent.safety.permissions.subjects import PermissionRule

LONGEST = 4_000_000
"""The largest number of characters of a line that is read as a command."""


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the action `explain` to its parser."""
    parser.add_argument("--stdin", action="store_true", help="read commands from stdin, one a line")
    parser.add_argument("--cwd", metavar="D", default=None, help="folder the commands would run in")
    parser.add_argument("shell", nargs="*", metavar="CMD", help="the command, behind --")


def explain(args: argparse.Namespace) -> None:
    """Print the verdict on one command or on many. Raises `ConfigError`."""
    words: list[str] = list(args.shell)
    if args.stdin == bool(words):
        raise ConfigError(
            "Give a command (`hermes permissions explain -- git push`), or several with --stdin."
        )
    cwd = Path(args.cwd or ".").resolve()
    if not cwd.is_dir():
        raise ConfigError(f"{cwd} is not a folder; give another one with --cwd.")
    decide = decider(cwd)
    show = _print_json if args.as_json else _print_text
    if not args.stdin:
        # A single argument is a command line as it is; several are its words.
        command = words[0] if len(words) == 1 else shlex.join(words)
        show(command, decide(command))
        return
    for command, problem in _lines():
        show(command, Verdict("ask", (problem,)) if problem else decide(command))


def decider(cwd: Path) -> Callable[[str], Verdict]:
    """Return a function that judges commands in `cwd`, which is also the workspace, by all rules in force."""
    from tools.services.actions import RunCommand

    gate = _gate(cwd, "tui")
    return lambda command: gate.decide(RunCommand(tool="terminal", command=command, cwd=cwd))


def narrow_rule(tool: str, arguments: Mapping[str, Any], cwd: Path) -> str:
    """Return the narrowest rule that would allow a denied call; empty if no such rule is found."""
    from tools.services.actions import Action, RunCommand, WritePath

    action: Action
    if tool == "terminal" and isinstance(command := arguments.get("command"), str):
        action = RunCommand(tool=tool, command=command, cwd=cwd)
        wanted = [_command_pattern(command), command.strip()]
    elif tool in ("write_file", "patch") and isinstance(path := arguments.get("path"), str):
        action = WritePath(tool=tool, path=Path(os.path.normpath(cwd / Path(path).expanduser())))
        tool, wanted = "write_file", [path]
    else:
        return ""
    for rule in (f"{tool}({each})" for each in wanted if each):
        try:
            if _gate(cwd, "oneshot", [rule]).decide(action).kind == "allow":
                return rule
        except ValueError:
            continue
    return ""


def _command_pattern(command: str) -> str:
    """Return `git push *` for `git push origin main`; empty if the command is not plain. Pure."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    plain = [each for each in words[:2] if each.replace("-", "").replace("_", "").isalnum()]
    if len(plain) < 2 or plain[1].startswith("-") or any(mark in command for mark in "|&;<>()$`\n"):
        return ""
    return f"{plain[0]} {plain[1]} *"


def _gate(cwd: Path, surface: str, allow: Sequence[str] = ()) -> Gate:
    """Return a folder's permission gate with extra `allow` rules. Raises `ValueError` for an invalid one."""

    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.safety.gate import Gate
    from agent.safety.permissions.policy import Permissions
    from agent.safety.rules import NO_UNDO
    from agent.safety.sandbox.boundary import NO_COVERAGE, coverage_of
    from agent.safety.sandbox.opening import probe

    home = Home.locate()
    loaded = load(home, os.environ).settings
    settings = loaded.sandbox
    coverage = NO_COVERAGE
    if loaded.terminal.backend == "local":
        coverage = coverage_of(probe(settings.mode), settings.network, steps=loaded.checkpoints.enabled)
    return Gate.for_home(
        home,
        cwd,
        loaded.approvals.mode,
        permissions=Permissions(home, cwd, surface, allow=allow),
        coverage=coverage,
        undo=None if loaded.checkpoints.enabled else NO_UNDO,
    )


def verdict_data(command: str, verdict: Verdict) -> dict[str, Any]:
    """Return the data about a verdict that `--json` prints."""
    return {
        "command": command,
        "verdict": verdict.kind,
        "reasons": list(verdict.reasons),
        "parts": [asdict(part) for part in verdict.parts],
    }


def _lines() -> Iterator[tuple[str, str]]:
    """Yield the commands on stdin, each with an error sentence about its line, or ""."""
    for raw in sys.stdin.buffer:
        line = raw.rstrip(b"\n").removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            yield line.decode("utf-8", "replace"), "the line is not UTF-8"
            continue
        if len(text) > LONGEST:
            yield f"{text[:200]}…", "the line is too long to be a command"
            continue
        command = _decode_line(text)
        if not command.strip():
            yield command, "the line is empty"
        elif any(0xD800 <= ord(letter) < 0xE000 for letter in command):
            yield command.encode("utf-8", "replace").decode(), "the line holds halves of characters"
        else:
            yield command, ""


def _decode_line(line: str) -> str:
    """Return the text in a line that is a JSON string; other lines are returned unchanged."""
    if not line.startswith('"'):
        return line
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return decoded if isinstance(decoded, str) else line


def _print_json(command: str, verdict: Verdict) -> None:
    sys.stdout.write(json.dumps(verdict_data(command, verdict)) + "\n")


_SAID = {"allow": "would run unasked", "ask": "asks", "deny": "is denied", "hardline": "is never allowed"}


def _print_text(command: str, verdict: Verdict) -> None:
    say(f"{command}\n  {_SAID[verdict.kind]}: {'; '.join(verdict.reasons) or 'nothing speaks against it'}")
    if len(verdict.parts) > 1:
        for part in verdict.parts:
            say(f"    {part.kind:<9} {part.text}  ({part.reason})")


DESCRIPTION = "List, explain, test and change what may be done."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes permissions` to its parser."""
    actions = add_actions(parser)
    listing = add_action(
        actions, "list", "every rule in force, where it stands, and the mode", _list, json="print JSON"
    )
    listing.add_argument("--surface", default="", metavar="NAME", help="with the profile of a surface")
    explaining = add_action(
        actions,
        "explain",
        "what would happen to a command, and why",
        explain,
        json="one line of JSON per command",
    )
    add_explain_arguments(explaining)
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
