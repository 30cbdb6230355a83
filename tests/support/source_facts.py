"""Facts about source files that the rules of the house look at; each file is parsed once in a run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What of a file is kept: its syntax tree as a whole would take too much room."""

    docstring: str
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    """All of them, also those inside functions."""
    calls: tuple[tuple[int, str], ...]
    """Line and name of what is called by a plain name."""
    names: frozenset[str]
    """Every name that the file gives to something."""
    classes: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of the classes at the top of the file, each with its bases as they are written."""
    assigned: tuple[str, ...]
    """Names that are assigned at the top of the file."""
    functions: frozenset[str]
    """Names of all functions and methods."""
    docstrings: tuple[str, ...]
    """Those of the module, its classes and functions."""


@cache
def facts(path: Path) -> SourceFacts:
    """The facts about one file."""
    return facts_of(path.read_text("utf-8"))


def facts_of(source: str) -> SourceFacts:
    """The facts about the text of a file. Pure."""
    tree = ast.parse(source)
    imports: list[ast.Import | ast.ImportFrom] = []
    calls: list[tuple[int, str]] = []
    names: set[str] = set()
    functions: set[str] = set()
    docstrings: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                imports.append(node)
            case ast.Call(func=ast.Name(id=called)):
                calls.append((node.lineno, called))
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
                if not isinstance(node, ast.ClassDef):
                    functions.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                names.add(node.attr)
            case ast.arg():
                names.add(node.arg)
            case _:
                pass
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings.append(ast.get_docstring(node) or "")
    return SourceFacts(
        docstring=ast.get_docstring(tree) or "",
        imports=tuple(imports),
        calls=tuple(calls),
        names=frozenset(names),
        classes=tuple(
            (node.name, tuple(ast.unparse(base) for base in node.bases))
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ),
        assigned=tuple(
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ),
        functions=frozenset(functions),
        docstrings=tuple(docstrings),
    )
