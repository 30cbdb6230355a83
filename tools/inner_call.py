"""A call of one tool through `tool_call`: the target read from its arguments. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SEARCH = "tool_search"
CALL = "tool_call"


def meant_arguments(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the target tool's arguments if `tool` is `tool_call`; any other arguments unchanged."""
    found = inner_call(tool, arguments)
    return arguments if found is None else found[1]


def inner_call(tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of the target tool; None if `tool` calls no other one.

    Models sometimes write the arguments as JSON text, and omit them if there are none.
    """
    name, given = arguments.get("name"), arguments.get("arguments")
    if tool != CALL or not isinstance(name, str) or not name.strip() or name.strip() in (SEARCH, CALL):
        return None
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return None
    given = {} if given is None else given
    return (name.strip(), dict(given)) if isinstance(given, Mapping) else None
