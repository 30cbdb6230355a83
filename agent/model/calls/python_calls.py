"""Tool calls written as Python: `[name(key="value"), …]`, as Llama 4, Gemma, LFM2 and OLMo write them."""

from __future__ import annotations

import ast
import re
from typing import Any

LIST = re.compile(r"\[\s*([A-Za-z_][\w.]*)\s*\(")
"""The beginning of a list of calls; `[name](address)` of Markdown is none."""
CALL = re.compile(r"(?:print\()?(?:default_api\.)?([A-Za-z_][\w.]*)\s*\(")
"""A call; Gemini prints those of its `default_api`."""

_LONGEST = 50_000
"""Characters of Python that are read at most."""
_STRANGE_ESCAPE = re.compile(r"\\[^\n\\'\"abfnrtvxuUN0-7]")


def read_python(text: str, at: int) -> tuple[list[tuple[str, dict[str, Any]]] | None, int]:
    """The calls that stand at `at`, each with its arguments, and where they end; None if they are no calls.

    Nothing is evaluated: arguments are keywords with literal values.
    """
    stop = max(text.rfind(")"), text.rfind("]")) + 1
    source = text[at:stop]
    # Python warns of an unknown escape on stderr, which belongs to the screen.
    if not source or len(source) > _LONGEST or _STRANGE_ESCAPE.search(source):
        return None, at
    try:
        found = [_call(node) for statement in ast.parse(source).body for node in _nodes(statement)]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None, at
    return (found or None), stop


def _nodes(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Expr(value=ast.List(elts=items)):
            return items
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[ast.Call() as inner], keywords=[])):
            return [inner]
        case ast.Expr(value=value):
            return [value]
    raise ValueError("no expression")


def _call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call with keywords")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("no plain keyword")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return ast.unparse(node.func).removeprefix("default_api.").removesuffix(".call"), arguments
