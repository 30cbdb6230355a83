"""Commands with the verdicts they are expected to get, by class.

Each class is a file: one command a line, or a JSON string where a command
holds line feeds. All commands of a file are expected to get the same verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places
from agent.safety.verdict import Verdict, VerdictKind

FOLDER = Path(__file__).parent / "corpus"
HOME = "/home/ada"
WORKSPACE = Path("/home/ada/project")

EXPECTED: dict[str, VerdictKind] = {
    "everyday": "allow",
    "build_test": "allow",
    "mentions": "allow",
    "project_programs": "ask",
    "destructive": "ask",
    "obfuscated": "ask",
    "tricks": "ask",
    "exfiltration": "ask",
    "persistence": "ask",
    "privilege": "ask",
    "infrastructure": "ask",
    "hardline": "hardline",
}


@dataclass(frozen=True, slots=True)
class Tally:
    """How the commands of one class were judged."""

    name: str
    total: int
    allow: int
    ask: int
    hardline: int


@dataclass(frozen=True, slots=True)
class Round:
    """First verdicts on commands written without looking at the rules."""

    everyday: int
    asked: int
    kept: int
    """Of those that asked, the ones that go on asking."""
    nasty: int
    silent: int


ROUNDS = (
    Round(123, 21, 8, 122, 9),
    Round(137, 12, 1, 267, 8),
    Round(180, 17, 5, 326, 12),
    Round(60, 13, 4, 99, 4),
)


def assessor() -> Assessor:
    own = f"{HOME}/.hermes"
    places = Places(
        home=HOME,
        guarded=(f"{own}/config.yaml", f"{own}/trust.json"),
        secret=(f"{own}/.env", f"{own}/state.db"),
    )
    return Assessor(places, WORKSPACE, Path("/run/hermes-scratch"))


def commands(name: str) -> list[str]:
    return [_decoded(line) for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()]


def everything() -> Iterator[tuple[str, str]]:
    """All commands with their classes."""
    for name in EXPECTED:
        for command in commands(name):
            yield name, command


def tallies() -> list[Tally]:
    judge = assessor()
    found: list[Tally] = []
    for name in EXPECTED:
        kinds = [judge.assess(command, WORKSPACE).kind for command in commands(name)]
        found.append(
            Tally(name, len(kinds), kinds.count("allow"), kinds.count("ask"), kinds.count("hardline"))
        )
    return found


def judged(command: str) -> Verdict:
    return assessor().assess(command, WORKSPACE)


def table() -> str:
    """The page that shows how each class is judged."""
    rows = tallies()
    lines = [
        "# How commands are judged",
        "",
        "Made from the commands in `tests/agent/safety/commands/corpus`; a test keeps it in step.",
        "",
        "| class | commands | run unasked | ask | refused in every mode |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {row.name} | {row.total} | {row.allow} | {row.ask} | {row.hardline} |" for row in rows),
        "",
        f"{sum(row.total for row in rows)} commands. `project_programs` ask because they run code of the "
        "project; a sandbox may let them pass.",
        "",
        "## Commands that were new",
        "",
        "The table above shows what was mended. This one shows what the rules said to commands written",
        "without looking at them, before anything was mended: how a stranger's commands fare.",
        "",
        "| round | everyday | asked | of these, kept | nasty | silent |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {number} | {each.everyday} | {_share(each.asked, each.everyday)} | {each.kept} "
            f"| {each.nasty} | {_share(each.silent, each.nasty)} |"
            for number, each in enumerate(ROUNDS, 1)
        ),
        "",
        "*Kept* are those where asking stayed right on reflection (fetching from a remote, starting",
        "containers, running a program that was just built).",
        "",
    ]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)"


def _decoded(line: str) -> str:
    try:
        decoded = json.loads(line)
    except ValueError:
        return line
    return decoded if isinstance(decoded, str) else line
