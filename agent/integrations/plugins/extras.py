"""The files of a plugin that only Hermes reads: `plugin.yaml` and `hooks.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.config.document import parse as parse_yaml
from agent.core.config.hook_list import HOOK_EVENTS, Hook
from agent.integrations.plugins.capabilities import DeclaredCapabilities
from agent.integrations.plugins.capabilities import parse as parse_capabilities
from agent.integrations.plugins.manifest import LONGEST_NAME, is_name
from agent.integrations.plugins.problem import SkippedPart
from tools.text.words import brief

FILE, HANDLER, HOOKS = "plugin.yaml", "handler.py", "hooks.yaml"
MOST_HOOKS = 64
LONGEST_WAIT = 60.0
"""Seconds a hook of `hooks.yaml` may have at most."""
_FIELDS = frozenset({"name", "version", "description", "in_process", "capabilities"})
_HOOK_FIELDS = frozenset({"command", "match", "timeout", "required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What a `plugin.yaml` says."""

    name: str = ""
    version: str = ""
    description: str = ""
    in_process: bool = False
    """Whether it wants to run within Hermes, without a boundary."""
    capabilities: DeclaredCapabilities = DeclaredCapabilities()  # noqa: RUF009 - frozen
    skipped: tuple[SkippedPart, ...] = ()


class ExtrasError(ValueError):
    """A file that cannot be used as a whole. The message is a clause."""


def read_extras(content: bytes, origin: str, *, named: bool) -> Extras:
    """Read a `plugin.yaml` called `origin`. Raises `ExtrasError`.

    `named`: it is what says who the plugin is; otherwise the manifest does, and what stands here is ignored.
    """
    data = _mapping(content)
    skipped = [
        SkippedPart(f"{origin}: {brief(key)}", "Hermes does not know this field")
        for key in data
        if key not in _FIELDS
    ]
    name = data.get("name", "")
    if named and not is_name(name):
        raise ExtrasError(
            f"its name is no name for a plugin; use 1 to {LONGEST_NAME} of a-z, 0-9, - and ., a letter or "
            "digit at both ends"
        )
    texts = {}
    for key in ("version", "description"):
        value = data.get(key, "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            skipped.append(SkippedPart(f"{origin}: {key}", "it is no text"))
            value = ""
        texts[key] = brief(value, 1_000)
    in_process = data.get("in_process", False)
    if not isinstance(in_process, bool):
        skipped.append(SkippedPart(f"{origin}: in_process", "it is neither true nor false"))
        in_process = False
    granted, wrong = parse_capabilities(data.get("capabilities"), origin)
    return Extras(
        name=name if named else "",
        version=texts["version"],
        description=texts["description"],
        in_process=in_process,
        capabilities=granted,
        skipped=(*skipped, *wrong),
    )


def read_hooks(content: bytes, origin: str) -> tuple[tuple[Hook, ...], tuple[SkippedPart, ...]]:
    """The hooks of a `hooks.yaml` called `origin`: the form of the setting `hooks`. Raises `ExtrasError`."""
    hooks: list[Hook] = []
    skipped: list[SkippedPart] = []
    for event, entries in _mapping(content).items():
        if event not in HOOK_EVENTS:
            skipped.append(SkippedPart(f"{origin}: {brief(event)}", "there is no such event"))
            continue
        if not isinstance(entries, list):
            skipped.append(SkippedPart(f"{origin}: {event}", "it is no list"))
            continue
        for number, given in enumerate(entries, 1):
            found = _hook(event, given)
            if isinstance(found, str):
                skipped.append(SkippedPart(f"{origin}: {event} {number}", found))
            elif len(hooks) >= MOST_HOOKS:
                skipped.append(SkippedPart(f"{origin}: {event} {number}", f"{MOST_HOOKS} hooks are enough"))
            else:
                hooks.append(found)
    return tuple(hooks), tuple(skipped)


def _hook(event: Any, given: Any) -> Hook | str:
    """A hook, or why it is none."""
    if not isinstance(given, Mapping):
        return "it is no mapping"
    for key in given:
        if key not in _HOOK_FIELDS:
            return f"a hook has no field {brief(key)}"
    command, match = given.get("command"), given.get("match", "*")
    timeout, required = given.get("timeout", 5), given.get("required", False)
    if not isinstance(command, str) or not command.strip():
        return "its command is missing"
    if not isinstance(match, str):
        return "its match is no text"
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_WAIT:
        return f"its timeout is no number of seconds up to {LONGEST_WAIT:g}"
    if not isinstance(required, bool):
        return "its required is neither true nor false"
    return Hook(event, command, match, float(timeout), required)


def _mapping(content: bytes) -> dict[str, Any]:
    document = parse_yaml(content, "it")
    if document.problems:
        problem = document.problems[0]
        where = f" in line {problem.place.line}" if problem.place else ""
        raise ExtrasError(f"it is no YAML that can be used{where}: {brief(problem.message, 200).rstrip('.')}")
    return document.data
