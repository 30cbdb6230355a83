"""Toolsets: named bundles of tools, and the meaning of names in settings.

A tool declares its toolsets; `resolve` turns the lists of config.yaml into the names of tools.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from tools.registry import Registry, registry
from tools.text.safe_text import clean

log = logging.getLogger(__name__)


EVERYTHING = frozenset({"all", "*"})
"""Names that mean every registered tool."""

BUNDLES = ("default", "safe", "debugging")
"""Toolsets that exist even without tools: the default of a session; reading, planning and asking, without
changes; finding and fixing a fault.
"""

LEGACY: dict[str, str] = {
    "session_search_tools": "session",
    "image_tools": "image_gen",
    "moa": "mixture",
    "moa_tools": "mixture",
    "delegation": "delegate",
    "code_execution": "code",
    "planning": "todo",
    "files": "file",
    "search_files": "search",
    **{f"hermes-{each}": "default" for each in ("acp", "cli", "discord", "slack", "telegram", "whatsapp")},
}
"""Names from earlier versions. The others with `_tools` at the end mean the toolset without it."""


def members(name: str, tools: Registry = registry) -> tuple[str, ...] | None:
    """Return the tools that a name of a toolset or tool means; None for an unknown name.

    A tool belongs to the toolset and to the bundles with which it was registered.
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
    return _toolset(name.removesuffix("_tools"), tools)


def _toolset(name: str, tools: Registry) -> tuple[str, ...] | None:
    found = tuple(entry.name for entry in tools.entries() if name in (entry.toolset, *entry.bundles))
    return found if found or name in BUNDLES else None


def resolve(
    enabled: Sequence[str] | None, disabled: Sequence[str] = (), tools: Registry = registry
) -> tuple[str, ...]:
    """Return the names of the offered tools, in the order of `Registry.entries`.

    Both lists take names of toolsets and of tools. `enabled=None` means all tools; `disabled` wins. Unknown
    names are logged and otherwise ignored.
    """
    for name in unknown_names([*(enabled or ()), *disabled], tools):
        log.warning("there is no toolset or tool named %s", name)
    wanted = _gather(("all",) if enabled is None else enabled, tools) - _gather(disabled, tools)
    return tuple(entry.name for entry in tools.entries() if entry.name in wanted)


def specific(names: Iterable[str], tools: Registry = registry) -> frozenset[str]:
    """Return the tools that `names` mean, ignoring names that stand for the default tools or for all."""
    usual = EVERYTHING | {"default"}
    return frozenset(
        _gather([name for name in names if LEGACY.get(name.strip(), name.strip()) not in usual], tools)
    )


def unknown_names(names: Iterable[str], tools: Registry = registry) -> tuple[str, ...]:
    """Return those of `names` that are neither toolset nor tool, for a warning to the user."""
    return tuple(name for name in names if members(name, tools) is None)


def no_such(names: Iterable[str], tools: Registry = registry) -> str:
    """Return a sentence about the first of `names` that is neither toolset nor tool; or empty."""
    if not (unknown := unknown_names(names, tools)):
        return ""
    known = ", ".join(sorted({entry.toolset for entry in tools.entries()}))
    return f"There is no toolset or tool named {clean(unknown[0])[:60]}; known toolsets: {known}."


def _gather(names: Iterable[str], tools: Registry) -> set[str]:
    return {tool for name in names for tool in members(name, tools) or ()}
