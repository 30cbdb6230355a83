"""The needs that a plugin declares; what it does not declare is not granted. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from agent.core.config.hook_list import HOOK_EVENTS, HookEvent
from agent.core.net.hosts import entry
from agent.integrations.plugins.problem import SkippedPart
from tools.text.words import brief

MOST = 64
"""Entries of one list that are read."""
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER_PASSED = re.compile(
    r"(?i)LD_.*|DYLD_.*|PYTHON.*|BASH_ENV|ENV|HOME|PATH|TMPDIR|PLUGIN_ROOT|PLUGIN_DATA"
)
"""Variables that decide what code runs, or that the plugin's process is given anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCapabilities:
    """What a plugin may do, as it declared it."""

    tools: tuple[str, ...] = ()
    """Names of tools it registers."""
    read: tuple[str, ...] = ()
    """Files and folders it reads: absolute, with `~`, or from the workspace on."""
    write: tuple[str, ...] = ()
    """Files and folders it changes."""
    hosts: tuple[str, ...] = ()
    """Hosts it reaches, as in `sandbox.hosts`."""
    events: tuple[HookEvent, ...] = ()
    """What its hooks hear of."""
    env: tuple[str, ...] = ()
    """Variables of the person it is given."""

    def lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What is declared, in the words a person is asked with."""
        for title, values in (
            ("adds tools", self.tools),
            ("reads", self.read),
            ("changes", self.write),
            ("reaches", self.hosts),
            ("hears of", self.events),
            ("is given the variables", self.env),
        ):
            if values:
                yield title, values

    def to_json(self) -> dict[str, Any]:
        """The same form as in `plugin.yaml`."""
        return {
            "tools": list(self.tools),
            "paths": {"read": list(self.read), "write": list(self.write)},
            "hosts": list(self.hosts),
            "events": list(self.events),
            "env": list(self.env),
        }


def parse(given: Any, origin: str) -> tuple[DeclaredCapabilities, tuple[SkippedPart, ...]]:
    """Read `capabilities` of a `plugin.yaml` called `origin`; an entry that is wrong is not granted."""
    if given is None:
        return DeclaredCapabilities(), ()
    if not isinstance(given, Mapping):
        return DeclaredCapabilities(), (SkippedPart(f"{origin}: capabilities", "it is no mapping"),)
    reader = _Reader(origin)
    paths = given.get("paths")
    if paths is not None and not isinstance(paths, Mapping):
        reader.skip("paths", "it is no mapping with read and write")
        paths = None
    paths = paths or {}
    found = DeclaredCapabilities(
        tools=reader.listed("tools", given.get("tools"), _tool),
        read=reader.listed("paths.read", paths.get("read"), _path),
        write=reader.listed("paths.write", paths.get("write"), _path),
        hosts=reader.listed("hosts", given.get("hosts"), _host),
        events=cast("tuple[HookEvent, ...]", reader.listed("events", given.get("events"), _event)),
        env=reader.listed("env", given.get("env"), _variable),
    )
    for key in given.keys() - {"tools", "paths", "hosts", "events", "env"}:
        reader.skip(brief(key), "there is no such capability")
    for key in paths.keys() - {"read", "write"}:
        reader.skip(f"paths.{brief(key)}", "there is no such capability")
    return found, tuple(reader.skipped)


class _Reader:
    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.skipped: list[SkippedPart] = []

    def skip(self, key: str, reason: str) -> None:
        self.skipped.append(SkippedPart(f"{self._origin}: capabilities.{key}", reason))

    def listed(self, key: str, given: Any, check: Callable[[str], str]) -> tuple[str, ...]:
        """The entries that pass `check`, which gives a clause on what is wrong."""
        if given is None:
            return ()
        if not isinstance(given, list):
            self.skip(key, "it is no list")
            return ()
        if len(given) > MOST:
            self.skip(key, f"it has more than {MOST} entries; those behind are not read")
        found: list[str] = []
        for each in given[:MOST]:
            wrong = check(each) if isinstance(each, str) else "it is no text"
            if wrong:
                self.skip(f"{key}: {brief(each)}", wrong)
            elif each not in found:
                found.append(each)
        return tuple(found)


def _tool(text: str) -> str:
    return "" if TOOL_NAME.fullmatch(text) else "no tool can be called so; use letters, digits, _ and -"


def _path(text: str) -> str:
    if not text.strip() or "\0" in text or not text.isprintable():
        return "it is no path"
    if re.search(r"[*?\[]", text):
        return "patterns are not read; name the folder"
    return ""


def _host(text: str) -> str:
    try:
        entry(text)
    except ValueError as error:
        return f"it {error}"
    return ""


def _event(text: str) -> str:
    return "" if text in HOOK_EVENTS else f"there is no such event; there are {', '.join(HOOK_EVENTS)}"


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        return "no variable can be called so"
    return "it is not for plugins to choose" if _NEVER_PASSED.fullmatch(text) else ""
