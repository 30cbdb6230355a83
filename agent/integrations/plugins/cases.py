"""Test cases of a plugin: the input of each call and the expected result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.config.document import UnusableError, decode
from agent.integrations.plugins.files import OutsideError, PluginError, PluginFailedError, read_part
from agent.integrations.plugins.package import PluginPackage
from agent.integrations.plugins.process import HOOK, TOOL, PluginLaunch, PluginProcess
from agent.integrations.plugins.registrations import Registrations, check_registrations
from tools.text.words import brief

FILES = ("cases.yaml", "dev.hermes-tui/cases.yaml")
KINDS = ("tool", "command", "cli_command", "hook", "provider")
MOST = 500
_EXPECTED = ("result", "contains", "error")


@dataclass(frozen=True, slots=True)
class PluginCase:
    """One call and its expected result."""

    name: str
    kind: str
    called: str
    given: Any
    expected: Mapping[str, Any]
    """The expectation, under the key `result`, `contains` or `error`."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one test case."""

    name: str
    wrong: str = ""
    """A sentence on how the result differs; empty if the case passed."""


def read_cases(root: Path) -> tuple[PluginCase, ...]:
    """Return the test cases of a plugin. Raises `PluginError`."""
    for name in FILES:
        try:
            content = read_part(root, name)
        except (OutsideError, OSError) as error:
            raise PluginError(f"{name} cannot be used: {error}.") from None
        if content is not None:
            return tuple(
                _case(number, each, name) for number, each in enumerate(_read_list(content, name), 1)
            )
    raise PluginError(f"The plugin in {brief(root, 300)} brings no cases; write them into {FILES[0]}.")


async def run_cases(
    plugin: PluginPackage, launch: PluginLaunch, cases: Sequence[PluginCase]
) -> tuple[Registrations, list[CaseResult]]:
    """Load a plugin inside its sandbox and run its cases in order. Raises `PluginFailedError`.

    Returns what the plugin registered, and the result of each case. If a case ends the process, it fails, and
    the next case gets a new process.
    """
    process = PluginProcess(launch)
    try:
        registered = check_registrations(await process.start(), plugin.capabilities)
        results: list[CaseResult] = []
        for case in cases:
            if not process.is_alive:
                await process.aclose()
                process = PluginProcess(launch)
                await process.start()
            results.append(CaseResult(case.name, await _run(case, process, registered)))
    finally:
        await process.aclose()
    return registered, results


async def _run(case: PluginCase, process: PluginProcess, registered: Registrations) -> str:
    known = {
        "tool": [each.name for each in registered.tools],
        "command": [each.name for each in registered.commands],
        "cli_command": [each.name for each in registered.cli_commands],
        "hook": list(registered.events),
        "provider": [f"{each.kind} {each.name}" for each in registered.providers],
    }
    if case.called not in known[case.kind]:
        reasons = [each.reason for each in registered.skipped if case.called in each.part]
        return f"There is no {case.kind} {brief(case.called)}" + (f": {reasons[0]}." if reasons else ".")
    try:
        said = await process.ask(
            case.kind, HOOK if case.kind == "hook" else TOOL, name=case.called, given=case.given
        )
    except PluginFailedError as error:
        expected = case.expected.get("error")
        return "" if expected is not None and str(expected) in str(error) else str(error)
    return await asyncio.to_thread(_differs, case.expected, said)


def _differs(expected: Mapping[str, Any], said: Any) -> str:
    if "error" in expected:
        return f"It gave {brief(said, 300)} instead of an error."
    if "result" in expected and said != expected["result"]:
        return f"It gave {brief(said, 300)} instead of {brief(expected['result'], 300)}."
    if "contains" in expected and str(expected["contains"]) not in str(said):
        return f"It gave {brief(said, 300)}, which does not contain {brief(expected['contains'], 300)}."
    return ""


def _read_list(content: bytes, name: str) -> list[Any]:
    from tools.kit.yaml_text import YamlError, YamlForm, load_yaml

    try:
        data = load_yaml(decode(content), YamlForm("a file of cases", aliases=False))
    except (UnusableError, YamlError) as error:
        raise PluginError(f"{name} cannot be read: {brief(error.message.rstrip('.'), 300)}.") from None
    if not isinstance(data, list) or not 0 < len(data) <= MOST:
        raise PluginError(f"{name} is not a list of cases.")
    return data


def _case(number: int, given: Any, file: str) -> PluginCase:
    if not isinstance(given, dict):
        raise PluginError(f"{file}: case {number} is not a mapping.")
    kinds = [kind for kind in KINDS if kind in given]
    expected = {key: given[key] for key in _EXPECTED if key in given}
    unknown = [key for key in given if key not in ("name", "given", *KINDS, *_EXPECTED)]
    if unknown:
        raise PluginError(f"{file}: case {number} has the unknown field {brief(unknown[0])}.")
    if len(kinds) != 1 or not isinstance(given[kinds[0]], str):
        raise PluginError(f"{file}: case {number} names not one of {', '.join(KINDS)}.")
    if not expected:
        raise PluginError(f"{file}: case {number} lacks one of {', '.join(_EXPECTED)}.")
    called = given[kinds[0]]
    default: Any = {"tool": {}, "hook": {}, "provider": {}, "cli_command": []}.get(kinds[0], "")
    return PluginCase(
        brief(given.get("name", called)), kinds[0], called, given.get("given", default), expected
    )
