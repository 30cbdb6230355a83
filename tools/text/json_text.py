"""Conversion of results into JSON text that every reader accepts."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(result: Any) -> str:
    """Return `result` as JSON text that every parser and every encoding accepts.

    A value that JSON does not support becomes text, infinite numbers become null, and half of a surrogate
    pair becomes the replacement character. Raises `ValueError` on circular data.
    """
    try:
        text = json.dumps(result, ensure_ascii=False, default=str, allow_nan=False)
    except (ValueError, TypeError):
        text = json.dumps(_plain(result, frozenset()), ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _plain(value: Any, inside: frozenset[int]) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, (dict, list, tuple)):
        return value
    if id(value) in inside:
        raise ValueError("the result contains itself")
    inside = inside | {id(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item, inside) for key, item in value.items()}
    return [_plain(item, inside) for item in value]
