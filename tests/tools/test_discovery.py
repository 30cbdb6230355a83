from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.discovery import TOOLS, discover, tool_modules
from tools.parts import searching
from tools.registry import registry

ROOT = Path(__file__).parents[2]
BROKEN = {
    "broken_import": "import a_module_that_is_not_there\n",
    "broken_syntax": "def f(:\n",
    "broken_exit": "raise SystemExit(3)\n",
    "broken_value": "raise ValueError('two\\nlines')\n",
}


def test_every_module_of_a_tool_is_found_by_its_name_and_loads() -> None:
    assert discover() == ()
    assert {"tools.terminal.tool", "tools.files.patch_tool", "tools.todo_tool"} <= set(tool_modules())


def test_every_tool_comes_from_a_module_that_is_called_so() -> None:
    discover()
    homes = {entry.handler.__module__ for entry in registry.entries()}
    ours = {home for home in homes if home.startswith("tools.")}
    assert ours == set(tool_modules())


def test_finding_tools_reads_no_module() -> None:
    script = (
        "import sys; from tools.discovery import tool_modules; names = tool_modules(); "
        "print([name for name in names if name in sys.modules], len(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded, count = done.stdout.rsplit(maxsplit=1)
    assert loaded == "[]" and int(count) >= 15


def test_discovering_twice_changes_nothing() -> None:
    discover()
    before = registry.entries()
    assert discover() == ()
    assert registry.entries() == before


def test_a_broken_module_is_reported_and_the_others_load(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, source in BROKEN.items():
        (folder / f"{name}.py").write_text(source)
    (folder / "sound_module.py").write_text("LOADED = True\n")
    with searching(tmp_path):
        modules, problems = TOOLS.load_all()
        assert [Path(problem.module).stem for problem in problems] == sorted(BROKEN)
        assert all(problem.reason and "\n" not in problem.reason for problem in problems)
        assert modules[-1].LOADED


@pytest.mark.thorough
def test_tools_load_without_the_engine_and_without_a_screen() -> None:
    script = (
        "import sys; from tools.discovery import discover; assert discover() == (); "
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('agent', 'app', 'textual', 'openai', 'pydantic', 'httpx2', 'mcp')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
