"""Calls as Gemma 4 writes them: `<|tool_call>call:name{key:<|"|>text<|"|>,count:3}<tool_call|>`."""

from __future__ import annotations

import json
import re
from typing import Any

from agent.model.calls.lenient_json import LenientError, LenientReader

GEMMA_CALL = re.compile(r"<\|tool_call>\s*call:([\w.:-]+)(?=\{)")
_END = re.compile(r"<tool_call\|>")
_QUOTE = '<|"|>'


def read_gemma(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The arguments that stand at `at`, and where the call ends; None if they are cut off or no object."""
    parts = text[at:].split(_QUOTE)
    stop = None
    # Every second part is text between quotes, in which no mark counts.
    for number in range(0, len(parts), 2):
        if stop := _END.search(parts[number]):
            parts = [*parts[:number], parts[number][: stop.start()]]
            break
    if stop is None:
        return None, len(text)
    inside = [json.dumps(part) if number % 2 else part for number, part in enumerate(parts)]
    reader = LenientReader("".join(inside).strip())
    try:
        value, end = reader.read()
    except LenientError:
        return None, len(text)
    whole = end == len(reader.text) and not reader.truncated and isinstance(value, dict)
    length = sum(map(len, parts)) + len(_QUOTE) * (len(parts) - 1) + len(stop.group())
    return (value if whole else None), at + length
