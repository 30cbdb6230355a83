"""`hermes doctor`: checks of everything that Hermes needs on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.frame import add_json, say, say_json, supports_glyphs
from themes.states import DOUBT, glyph
from tools.command_name import as_called

if TYPE_CHECKING:
    from app.cli.health.check import Check, HealthFinding

SECONDS = 15.0
"""The time limit in seconds for all checks together; the first start after an installation takes longest."""

_GLYPHS = {"ok": glyph("done"), "warn": DOUBT, "fail": glyph("failed")}
_WORDS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


DESCRIPTION = "Check that everything Hermes needs is in order. Nothing is changed."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes doctor` to its parser."""
    parser.add_argument(
        "part", nargs="?", choices=["keys"], help="keys: what the keys of the commands arrive as here"
    )
    add_json(parser)
    parser.set_defaults(do=run)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print the report; return the exit code, which is 1 if a check fails."""
    from app.cli.health.check import HealthSubject, examine

    workspace = Path(getattr(args, "cwd", None) or ".").expanduser()
    subject = HealthSubject(Home.locate(), dict(os.environ), workspace)
    if args.part:
        from app.cli.health.keys import report_keys

        report_keys(subject, as_json=args.as_json, glyphs=supports_glyphs())
        return ExitCode.DONE
    findings = examine(checks(), subject, SECONDS)
    if args.as_json:
        say_json([dataclasses.asdict(finding) for finding in findings], 2)
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in lines(findings, supports_glyphs(), columns):
            say(line)
    failed = any(finding.state == "fail" for finding in findings)
    return ExitCode.FAILED if failed else ExitCode.DONE


def checks() -> dict[str, Check]:
    """Return every check by name, in display order."""
    from app.cli.health import checks, keys

    return {
        "python": checks.python,
        "sqlite": checks.sqlite,
        "ripgrep": checks.ripgrep,
        "git": checks.git,
        "sandbox": checks.sandbox,
        "network": checks.network,
        "browser": checks.browser,
        "languages": checks.language_servers,
        "terminal": checks.terminal,
        "keys": keys.keys,
        "clipboard": checks.clipboard,
        "notifications": checks.notifications,
        "home": checks.home,
        "config": checks.config,
        "permissions": checks.permissions,
        "store": checks.store,
        "senses": checks.senses,
        "disk": checks.disk,
        "meaning": checks.meaning,
        "model": checks.model,
    }


def lines(findings: list[HealthFinding], glyphs: bool = True, columns: int | None = None) -> list[str]:
    """Return the report as text: a line for each finding with its fix below, and a summary.

    With `columns`, lines are broken between words.
    """
    marks = _GLYPHS if glyphs else _WORDS
    arrow = "→" if glyphs else "->"
    width = max(len(finding.name) for finding in findings)
    text: list[str] = []
    for finding in findings:
        mark = marks[finding.state]
        told = [(f"{mark} {finding.name:{width}}  ", finding.detail)]
        indent = " " * (len(mark) + width + 3)
        for number, line in enumerate(finding.mend.splitlines()):
            told.append((f"{indent}{' ' * len(arrow) if number else arrow} ", line))
        for start, said in told:
            line = as_called(said)
            room = max(columns - len(start), 20) if columns else len(line) + 1
            first, *rest = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""]
            text += [start + first, *(" " * len(start) + each for each in rest)]
    failed = sum(finding.state == "fail" for finding in findings)
    warned = sum(finding.state == "warn" for finding in findings)
    if failed or warned:
        return [
            *text,
            "",
            f"{failed} failed, {warned} to look at, {len(findings) - failed - warned} in order",
        ]
    return [*text, "", "Everything is in order."]
