from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.discovery import MODULES, discover
from tools.registry import registry
from tools.toolsets import TOOLSETS

BROKEN = {
    "broken_import": "import a_module_that_is_not_there\n",
    "broken_syntax": "def f(:\n",
    "broken_exit": "raise SystemExit(3)\n",
    "broken_value": "raise ValueError('two\\nlines')\n",
}


def test_every_module_of_the_list_loads() -> None:
    assert discover() == ()


def test_every_tool_comes_from_a_listed_module() -> None:
    discover()
    homes = {entry.handler.__module__ for entry in registry.entries() if entry.toolset in TOOLSETS}
    assert len(homes) > 3
    assert homes <= set(MODULES)


def test_discovering_twice_changes_nothing() -> None:
    discover()
    before = registry.entries()
    assert discover() == ()
    assert registry.entries() == before


def test_a_broken_module_is_reported_and_the_others_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(source)
    (tmp_path / "sound_module.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    problems = discover([*BROKEN, "sound_module", "not_there_at_all"])
    assert [problem.module for problem in problems] == [*BROKEN, "not_there_at_all"]
    assert all(problem.reason and "\n" not in problem.reason for problem in problems)
    assert sys.modules["sound_module"].LOADED
    monkeypatch.delitem(sys.modules, "sound_module")


def test_tools_load_without_the_engine_and_without_a_screen() -> None:
    script = (
        "import sys; from tools.discovery import discover; assert discover() == (); "
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('agent', 'app', 'textual', 'openai', 'pydantic', 'httpx2', 'mcp')])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
