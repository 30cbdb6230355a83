"""What the modules of the interface hand on."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from agent.api.lazy import exports

FOLDER = Path(__file__).parents[3] / "agent" / "api"
HANDING_ON = sorted(path for path in FOLDER.glob("*.py") if "= exports(" in path.read_text("utf-8"))


def _typed(path: Path) -> dict[str, str]:
    """What a module tells the type checker it hands on: each name and where it lives."""
    blocks = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: str(node.module)
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.sample(34)
@pytest.mark.parametrize("path", HANDING_ON, ids=lambda path: path.stem)
def test_a_module_hands_on_what_it_tells_the_type_checker(path: Path) -> None:
    module = importlib.import_module(f"agent.api.{path.stem}")
    typed = _typed(path)
    assert typed
    for name, home in typed.items():
        place = importlib.import_module(home)
        wanted = getattr(place, name) if hasattr(place, name) else importlib.import_module(f"{home}.{name}")
        assert getattr(module, name) is wanted
    assert len(HANDING_ON) > 10


def test_a_name_that_nobody_hands_on_is_missing_as_in_any_module() -> None:
    read = exports("agent.api.lazy", {"agent.errors": "HermesError"})
    with pytest.raises(AttributeError, match=r"module 'agent\.api\.lazy' has no attribute 'Nothing'"):
        read("Nothing")


@pytest.mark.thorough
def test_whatever_is_asked_of_the_interface_is_there() -> None:
    """The type checker takes any name from a module that hands on, so all that are asked for are tried."""
    root = FOLDER.parents[1]
    files = [path for floor in ("app", "agent", "benchmarks") for path in (root / floor).rglob("*.py")]
    asked = {
        (node.module, alias.name)
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("agent.api.")
        for alias in node.names
    }
    missing = [
        f"{module}.{name}" for module, name in asked if not hasattr(importlib.import_module(module), name)
    ]
    assert sorted(missing) == [] and len(asked) > 100
