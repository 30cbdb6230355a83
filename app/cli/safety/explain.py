"""`hermes permissions explain`: the gate's verdict on commands, without running them."""

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

from agent.errors import ConfigError
from agent.safety.verdict import Verdict
from app.cli.frame import say

if TYPE_CHECKING:
    from agent.safety.gate import Gate

LONGEST = 4_000_000
"""Characters of one line that are read as a command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `explain`."""
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
    """Return a function that judges commands in `cwd` (also the workspace) by all active rules."""
    from tools.services.actions import RunCommand

    gate = _gate(cwd, "tui")
    return lambda command: gate.decide(RunCommand(tool="terminal", command=command, cwd=cwd))


def narrow_rule(tool: str, arguments: Mapping[str, Any], cwd: Path) -> str:
    """Return the narrowest rule that would allow a denied call; empty if no single rule does."""
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
    """Return `git push *` for `git push origin main`; empty for anything but a plain command. Pure."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    plain = [each for each in words[:2] if each.replace("-", "").replace("_", "").isalnum()]
    if len(plain) < 2 or plain[1].startswith("-") or any(mark in command for mark in "|&;<>()$`\n"):
        return ""
    return f"{plain[0]} {plain[1]} *"


def _gate(cwd: Path, surface: str, allow: Sequence[str] = ()) -> Gate:
    """Return the gate of a folder with extra `allow` rules. Raises `ValueError` for an invalid rule."""

    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.safety.gate import Gate
    from agent.safety.permissions.policy import Permissions
    from agent.safety.sandbox.boundary import NO_COVERAGE, coverage_of
    from agent.safety.sandbox.opening import probe
    from agent.safety.verdict import NO_UNDO

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
    """Return the object that `--json` prints."""
    return {
        "command": command,
        "verdict": verdict.kind,
        "reasons": list(verdict.reasons),
        "parts": [asdict(part) for part in verdict.parts],
    }


def _lines() -> Iterator[tuple[str, str]]:
    """Yield the commands of stdin, each with the error of its line, or an empty text."""
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
    """Return the text of a line that is a JSON string; other lines unchanged."""
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
