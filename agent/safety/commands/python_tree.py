"""A Python program as a syntax tree, read once for all who look at it in one decision. Never run."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from agent.safety.look import current

Nodes = Sequence[ast.AST]
"""The nodes of a program in the order of `ast.walk`, without those that hold nothing, such as operators."""


def nodes_of(code: str) -> Nodes | None:
    """All nodes of a program, the module first; None when it is none."""
    return current().once(("python", code), lambda: _read(code))


def _read(code: str) -> Nodes | None:
    try:
        nodes: list[ast.AST] = [ast.parse(code)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in nodes:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                if value._fields:
                    nodes.append(value)
            elif isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST) and each._fields]
    return nodes
