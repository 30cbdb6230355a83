"""The name, arguments and result of a call for display, masked and shortened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agent.core.messages import ToolCall
from tools.registry import ToolEntry
from tools.results import Display
from tools.text.redact import redact, redact_data
from tools.text.safe_text import clean
from tools.text.words import brief

SMALL_RESULT = 8_000
"""The maximum number of characters of a result that is processed on the event loop."""
NAME_SHOWN = 64
"""The maximum number of characters shown of a tool's name."""
_SHOWN_DEPTH = 20
"""The number of levels of nested arguments that are shown."""


def describe(entry: ToolEntry | None, call: ToolCall, arguments: dict[str, Any], result: Any) -> Display:
    """Return the display of a call; a plain one if the tool has no display function or it fails."""
    if entry is not None and entry.describe is not None:
        try:
            return entry.describe(arguments, result)
        except Exception:
            pass
    subject = clean(next((str(value) for value in arguments.values()), ""))[:100]
    error = str(result.get("error", "")) if isinstance(result, dict) else ""
    return Display(shown_name(call), subject, clean(error)[:200])


def shown_name(call: ToolCall) -> str:
    """Return the tool's name as it is shown, shortened, because a model may invent a name of any length."""
    return brief(call.name[: 2 * NAME_SHOWN], NAME_SHOWN)


async def shown_masked(
    call: ToolCall, arguments: dict[str, Any], secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments with secrets masked; large ones are processed in a thread."""
    if len(call.arguments) > SMALL_RESULT:
        return await asyncio.to_thread(redact_data, arguments, secrets)
    return redact_data(arguments, secrets)


def shown_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for display: without control characters, and limited in depth."""
    return {clean(name): _shown_value(value, _SHOWN_DEPTH) for name, value in arguments.items()}


def _shown_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, (dict, list)) and depth == 0:
        return "…"
    if isinstance(value, dict):
        return {clean(str(name)): _shown_value(each, depth - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown_value(each, depth - 1) for each in value]
    return value


def as_data(text: str, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return a result as data, secrets masked; a value other than an object becomes the field `result`."""
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        result = text
    result = _redact_value(result, secrets)
    return result if isinstance(result, dict) else {"result": result}


def _redact_value(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, dict):
        return {name: _redact_value(item, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_redact_value(item, secrets) for item in value]
    return value
