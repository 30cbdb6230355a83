"""Filling the registry: importing a tool's module registers the tool.

A tool is declared in a file of `tools` that is called `tool.py` or ends with `_tool.py`, or in the folder
`tools` of the search path.
"""

from __future__ import annotations

from tools.parts import PartKind, Problem

TOOLS = PartKind("tools", "tools", "_tool")


def discover() -> tuple[Problem, ...]:
    """Import all tool modules; failures are logged and returned, the others load.

    May be called again: loaded modules are not reloaded.
    """
    return TOOLS.load_all()[1]


def tool_modules() -> tuple[str, ...]:
    """Return the dotted names of the program's modules that declare tools. Only reads file names."""
    return tuple(part.module for part in TOOLS.files() if part.path is None)
