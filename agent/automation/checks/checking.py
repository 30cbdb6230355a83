"""Carrying checks out: over the answer, the files, the calls, by a command, by a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.automation.checks.check import Check, CheckResult
from agent.automation.checks.json_answer import holds
from agent.automation.checks.pattern import PatternError, found

MOST_FILE = 10_000_000
"""Bytes of a file that are looked at."""

Ran = tuple[int, str]
"""The exit code of a command and the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a task left behind. `run` carries a command out in its folder, `judge` asks a model."""

    answer: str
    folder: Path
    calls: Sequence[str] = ()
    """Names of the tools it called, in order."""
    run: Callable[[str, float], Awaitable[Ran]] | None = None
    judge: Callable[[Any, str], Awaitable[CheckResult]] | None = None
    prompt: str = ""


async def carry_out(checks: Sequence[Check], evidence: Evidence) -> tuple[CheckResult, ...]:
    """The results of all checks, in their order."""
    return tuple([await _one(check, evidence) for check in checks])


async def _one(check: Check, evidence: Evidence) -> CheckResult:
    passed, detail = await _told(check, evidence)
    if passed is not None and check.negated:
        passed = not passed
    return CheckResult(check.name, passed, detail)


async def _told(check: Check, evidence: Evidence) -> tuple[bool | None, str]:
    if check.kind in ("contains", "exact", "regex", "json_schema", "file"):
        try:
            return await asyncio.to_thread(_looked, check, evidence)
        except PatternError as error:
            return None, str(error)
    if check.kind == "tools":
        ((order, names),) = check.given.items()
        return _tools(order, names, evidence.calls)
    if check.kind == "command":
        return await _command(check.given, evidence)
    if evidence.judge is None:
        return None, "there is no model to judge with"
    said = await evidence.judge(check.given, evidence.answer)
    return said.passed, said.detail


def _looked(check: Check, evidence: Evidence) -> tuple[bool | None, str]:
    """What answer and files show. Raises `PatternError`."""
    if check.kind == "json_schema":
        return holds(check.given, evidence.answer)
    if check.kind == "file":
        given = check.given if isinstance(check.given, Mapping) else {"path": check.given}
        return _file(given, evidence.folder)
    return _text(check.kind, check.given, evidence.answer)


def _text(kind: str, wanted: str, text: str) -> tuple[bool, str]:
    if kind == "contains":
        return wanted.casefold() in text.casefold(), ""
    if kind == "exact":
        return text.strip() == wanted.strip(), ""
    return found(wanted, text, by_line=True), ""


def _file(given: Mapping[str, Any], folder: Path) -> tuple[bool, str]:
    path = (folder / given["path"]).resolve()
    if not path.is_relative_to(folder.resolve()):
        return False, "the path leads out of the folder"
    if not path.is_file():
        return given.get("exists") is False, "there is no such file"
    if given.get("exists") is False:
        return False, "the file exists"
    with path.open("rb") as file:
        text = file.read(MOST_FILE).decode("utf-8", "replace")
    for kind in ("contains", "exact", "regex"):
        if kind in given and not _text(kind, given[kind], text)[0]:
            return False, f"`{kind}` does not hold"
    return True, ""


def _tools(order: str, wanted: Sequence[str], called: Sequence[str]) -> tuple[bool, str]:
    said = f"called: {', '.join(called[:20]) or 'none'}"
    if order == "exact":
        return list(called) == list(wanted), said
    if order == "subset":
        return set(wanted) <= set(called), said
    rest = iter(called)
    return all(name in rest for name in wanted), said


async def _command(given: Any, evidence: Evidence) -> tuple[bool | None, str]:
    settings = given if isinstance(given, Mapping) else {"run": given}
    if evidence.run is None:
        return None, "commands cannot be run here"
    code, output = await evidence.run(settings["run"], float(settings.get("seconds", 120)))
    passed = code == int(settings.get("exit", 0))
    if "contains" in settings:
        passed = passed and str(settings["contains"]) in output
    return passed, "" if passed else f"exit {code}: {output[-300:].strip()}"
