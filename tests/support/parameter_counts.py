"""Counts of parameters, each counted once: Textual asks anew for every function in a partial."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any


def counted_once(count: Callable[[Callable[..., Any]], int]) -> Callable[[Callable[..., Any]], int]:
    """`textual._callback._count_parameters`, asked once for each piece of code."""
    known: dict[tuple[CodeType, bool], int] = {}

    def counted(function: Callable[..., Any]) -> int:
        if not isinstance(function, FunctionType | MethodType) or hasattr(function, "__wrapped__"):
            return count(function)
        key = (function.__code__, isinstance(function, MethodType))
        if key not in known:
            known[key] = count(function)
        return known[key]

    return counted
