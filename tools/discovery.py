"""Filling the registry: importing a tool's module registers the tool."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

MODULES: tuple[str, ...] = (
    "tools.terminal.tool",
    "tools.terminal.process_tool",
    "tools.files.read_file",
    "tools.files.write_file",
    "tools.files.patch",
    "tools.files.search",
    "tools.todo",
    "tools.clarify",
    "tools.session_search",
    "tools.checkpoint",
    "tools.delegate",
    "tools.subagents",
    "tools.mixture",
    "tools.code.tool",
)
"""Every module that registers tools, in the order in which the model sees them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A module that could not be loaded, and why, in one line."""

    module: str
    reason: str


def discover(modules: Sequence[str] = MODULES) -> tuple[Problem, ...]:
    """Import all tool modules; those that fail are logged and returned, the others load all the same.

    May be called again: a module that is loaded stays as it is.
    """
    problems: list[Problem] = []
    for module in modules:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            log.warning("tool module %s could not be loaded", module, exc_info=True)
            reason = " ".join(str(error).split()) or "no reason given"
            problems.append(Problem(module, f"{type(error).__name__}: {reason}"))
    return tuple(problems)
