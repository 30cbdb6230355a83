"""Toolsets: named bundles of tools, and what a setting of names means.

A tool says itself which toolsets it is in; `resolve` turns the lists of config.yaml
into the names of tools.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tools.registry import Registry, registry

log = logging.getLogger(__name__)


EVERYTHING = frozenset({"all", "*"})
"""Names that mean every registered tool."""

BUNDLES = ("default", "safe", "debugging")
"""Toolsets that are there whether or not a tool is in them: what a session has unless configured otherwise;
looking, planning and asking, without changing anything; finding and fixing a fault."""

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


def members(name: str, tools: Registry = registry) -> tuple[str, ...] | None:
    """Names of the tools that a toolset or tool name stands for; None when it stands for nothing.

    A tool is in the toolset it registered under, and in the bundles it named then.
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
    found = tuple(entry.name for entry in tools.entries() if name in (entry.toolset, *entry.bundles))
    return found if found or name in BUNDLES else None


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
