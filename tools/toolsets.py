"""Toolsets: named bundles of tools that may include each other, and what a setting of names means.

`resolve` turns the lists of config.yaml into the names of tools. Being listed
here does not make a tool exist: only what is registered comes out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tools.registry import Registry, registry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Toolset:
    """A bundle: its own tools, and the toolsets whose tools it has as well."""

    description: str
    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


EVERYTHING = frozenset({"all", "*"})
"""Names that mean every registered tool."""

TOOLSETS: dict[str, Toolset] = {
    "file": Toolset("Read, search and change files", ("read_file", "write_file", "patch", "search")),
    "terminal": Toolset("Run commands and look after processes", ("terminal", "process")),
    "code": Toolset("Run scripts that call tools", ("execute_code",)),
    "todo": Toolset("Plan work on a task list", ("todo_write", "todo_read")),
    "clarify": Toolset("Ask the user", ("clarify",)),
    "session": Toolset("Recall earlier conversations", ("session_search",)),
    "checkpoint": Toolset("Name places of the session and take files back to them", ("checkpoint",)),
    "delegate": Toolset("Send other agents and look after them", ("delegate_task", "subagents")),
    "mixture": Toolset("Put one question to several models", ("mixture_of_agents",)),
    "default": Toolset(
        "What a session has unless configured otherwise",
        includes=("file", "terminal", "code", "todo", "clarify", "session", "checkpoint", "delegate"),
    ),
    "safe": Toolset(
        "Look, plan and ask, without changing anything",
        ("read_file", "search"),
        ("todo", "clarify", "session"),
    ),
    "debugging": Toolset("Find and fix a fault", includes=("terminal", "file")),
}

LEGACY: dict[str, str] = {
    "file_tools": "file",
    "terminal_tools": "terminal",
    "todo_tools": "todo",
    "clarify_tools": "clarify",
    "session_search_tools": "session",
    "planning": "todo",
    "files": "file",
    "search_files": "search",
    "hermes-cli": "default",
}
"""Names of earlier editions."""


def add_toolset(name: str, description: str, tools: Iterable[str] = (), includes: Iterable[str] = ()) -> None:
    """Add a toolset while the program runs, as plugins and MCP servers do. A known name is replaced."""
    if name in EVERYTHING:
        raise ValueError(f"{name} is reserved for all tools; give the toolset another name.")
    if name in TOOLSETS:
        log.warning("toolset %s is replaced", name)
    TOOLSETS[name] = Toolset(description, tuple(tools), tuple(includes))


def members(name: str, tools: Registry = registry) -> tuple[str, ...] | None:
    """Names of the tools that a toolset or tool name stands for; None when it stands for nothing.

    Toolsets may include each other in circles. Tools that registered themselves
    under a toolset belong to it without being listed.
    """
    name = name.strip()
    if name in EVERYTHING:
        return tuple(entry.name for entry in tools.entries())
    if (found := _toolset(name, tools)) is not None:
        return found
    if (entry := tools.get(name)) is not None:
        return (entry.name,)
    if name in LEGACY:
        return members(LEGACY[name], tools)
    return None


def _toolset(name: str, tools: Registry) -> tuple[str, ...] | None:
    own = {entry.toolset for entry in tools.entries()}
    if name not in TOOLSETS and name not in own:
        return None
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        found.update((entry.name, None) for entry in tools.entries() if entry.toolset == current)
        toolset = TOOLSETS.get(current)
        if toolset is not None:
            found.update(
                (entry.name, None) for tool in toolset.tools if (entry := tools.get(tool)) is not None
            )
            waiting.extend(reversed(toolset.includes))
        elif current not in own:
            log.warning("toolset %s includes %s, which does not exist", name, current)
    return tuple(found)


def resolve(
    enabled: Sequence[str] | None, disabled: Sequence[str] = (), tools: Registry = registry
) -> tuple[str, ...]:
    """Names of the tools on offer, in registration order.

    Both lists take names of toolsets and of tools. `enabled=None` means all
    tools; `disabled` wins. Names that mean nothing are logged and otherwise ignored.
    """
    for name in unknown_names([*(enabled or ()), *disabled], tools):
        log.warning("there is no toolset or tool named %s", name)
    wanted = _gather(("all",) if enabled is None else enabled, tools) - _gather(disabled, tools)
    return tuple(entry.name for entry in tools.entries() if entry.name in wanted)


def unknown_names(names: Iterable[str], tools: Registry = registry) -> tuple[str, ...]:
    """Those of `names` that are neither toolset nor tool, for a warning to the user."""
    return tuple(name for name in names if members(name, tools) is None)


def _gather(names: Iterable[str], tools: Registry) -> set[str]:
    return {tool for name in names for tool in members(name, tools) or ()}


def unoffered_mentions(
    definitions: Iterable[dict[str, Any]], all_names: Iterable[str]
) -> list[tuple[str, str]]:
    """Pairs (tool, other tool its texts name) where the other one is not on offer.

    A model calls what it reads about. Names with an underscore count wherever
    they stand as a word; a name that is also a plain English word counts in
    backticks, after `use`, `call`, `see`, `via` or `prefer`, and before `tool`.
    """
    definitions = list(definitions)
    offered = {definition["name"] for definition in definitions}
    missing = [(name, _mention(name)) for name in all_names if name not in offered]
    return [
        (definition["name"], name)
        for definition in definitions
        for text in [" \n".join(_texts(definition))]
        for name, pattern in missing
        if pattern.search(text)
    ]


def _mention(name: str) -> re.Pattern[str]:
    word = re.escape(name)
    if "_" in name:
        return re.compile(rf"(?<!\w){word}(?!\w)")
    return re.compile(
        rf"`{word}`|\b(?:[Uu]se|[Cc]all|[Ss]ee|[Vv]ia|[Pp]refer) (?:the )?{word}\b|\b{word} tool\b"
    )


def _texts(value: Any) -> Iterator[str]:
    """Every description in a schema."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "description" and isinstance(item, str):
                yield item
            else:
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
