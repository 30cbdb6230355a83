"""Reading ahead: in order, only in pauses, and without leaving a trace on the interpreter."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import warmup
from tests.support.command import ROOT


def write_modules(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        (folder / f"{name}.py").write_text("import sys; INTERVAL = sys.getswitchinterval()\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))


async def test_modules_are_read_and_missing_ones_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_one", "ahead_two")
    before = sys.getswitchinterval()
    await warmup.warm_up(lambda: float("-inf"), ["ahead_one", "ahead_missing", "ahead_two"])
    assert sys.modules["ahead_one"].INTERVAL == sys.modules["ahead_two"].INTERVAL == warmup.SWITCH
    assert sys.getswitchinterval() == before


async def test_nothing_is_read_while_somebody_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_three")
    typing = asyncio.create_task(warmup.warm_up(time.monotonic, ["ahead_three"]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert "ahead_three" not in sys.modules and not typing.done()
    typing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await typing


def test_what_is_read_ahead_exists() -> None:
    import importlib.util

    found = [name for name in warmup.MODULES if importlib.util.find_spec(name.split(".", 1)[0])]
    assert {"markdown_it", "openai", "rich.syntax", "tree_sitter_bash"} <= set(found)


def test_what_opening_a_session_needs_is_there_and_read_aside() -> None:
    code = (
        "import asyncio, sys; from tools.discovery import MODULES;"
        "from app.warmup import SESSION, bring_session;"
        "asyncio.run(bring_session()); assert {*SESSION, *MODULES} <= sys.modules.keys();"
        "print(sys.getswitchinterval())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 0.005
