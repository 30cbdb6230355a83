"""Texts as every provider takes them: JSON without lone surrogates, names, arguments, empty contents."""

from __future__ import annotations

import json
from typing import Any

from agent.model.calls.call_assembly import UNNAMED
from agent.model.calls.repair import repair_arguments, without_surrogates

EMPTY = {"system": "(none)", "user": "(empty message)", "assistant": "(empty reply)", "tool": "(no output)"}
"""What stands for empty content, which many providers refuse; by role."""

_NAME_LENGTH = 64


def compact(value: Any) -> bytes:
    """`value` as compact UTF-8 JSON, whatever characters its texts hold."""
    return without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def filled(content: str, role: str) -> str:
    """`content`, or what stands for it if it is blank."""
    return content if content.strip() else EMPTY[role]


def wire_name(name: str) -> str:
    """A tool's name as providers take it, for calls in the history whose name the model made up."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return safe[:_NAME_LENGTH] or UNNAMED


def object_text(arguments: str) -> str:
    """Arguments as the text of a JSON object; `{}` if they are none."""
    return repair_arguments(arguments)[0] or "{}"
