"""Reading ahead: in order, only in pauses, and without leaving a trace on the interpreter."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.tui.startup import preload
from tests.support.command import ROOT, environment


def write_modules(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        (folder / f"{name}.py").write_text("import threading; READ_IN = threading.current_thread()\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))


async def test_modules_are_read_and_missing_ones_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_one", "ahead_two")
    await preload.read(["ahead_one", "ahead_missing", "ahead_two"], lambda: float("-inf"))
    threads = {sys.modules[name].READ_IN for name in ("ahead_one", "ahead_two")}
    assert threads.isdisjoint({threading.main_thread()})


async def test_nothing_is_read_while_somebody_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_three")
    typing = asyncio.create_task(preload.read(["ahead_three"], time.monotonic))
    for _ in range(20):
        await asyncio.sleep(0)
    assert "ahead_three" not in sys.modules and not typing.done()
    typing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await typing


async def test_what_reads_commands_is_not_read_before_the_first_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_drawing", "ahead_asking")
    monkeypatch.setattr(preload, "DRAWING_TEXT", ["ahead_drawing"])
    monkeypatch.setattr(preload, "READING", ["ahead_asking"])
    touched = asyncio.Event()
    drawn = asyncio.create_task(preload.warm_up(lambda: float("-inf"), touched, lambda: False))
    while "ahead_drawing" not in sys.modules:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert "ahead_asking" not in sys.modules and not drawn.done()
    touched.set()
    await drawn
    assert "ahead_asking" in sys.modules


OUTER = """
import ahead_signals
ahead_signals.begun.set()
ahead_signals.go.wait(20)
import ahead_inner
"""
"""A module that tells when its reading has begun, and continues with the next one when told to."""


@pytest.fixture
def signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two modules, one of which reads the other, and the signals between it and the test."""
    preload.set_hurried(False)  # an application that was closed while a message waited may have left it so
    write_modules(tmp_path, monkeypatch, "ahead_inner", "ahead_outer")
    (tmp_path / "ahead_outer.py").write_text(OUTER)
    (tmp_path / "ahead_signals.py").write_text(
        "import threading; begun, go = threading.Event(), threading.Event()"
    )
    (tmp_path / "ahead_other.py").write_text("import ahead_outer")
    yield importlib.import_module("ahead_signals")
    for name in ("ahead_signals", "ahead_outer", "ahead_inner", "ahead_other"):
        sys.modules.pop(name, None)


async def begun(signals: Any) -> asyncio.Task[ModuleType]:
    reading = asyncio.create_task(preload.import_yielding("ahead_outer"))
    while not signals.begun.is_set():
        await asyncio.sleep(0.001)
    return reading


async def test_between_two_modules_the_event_loop_comes_first(
    signals: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "PATIENCE", 60.0)
    reading = await begun(signals)
    signals.go.set()
    time.sleep(0.1)
    assert "ahead_inner" not in sys.modules
    await reading
    assert "ahead_inner" in sys.modules
    assert not any(type(finder).__name__ == "_YieldingFinder" for finder in sys.meta_path)


async def test_another_thread_in_the_middle_of_an_import_still_finds_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(tmp_path, monkeypatch, "ahead_elsewhere")
    midway, go = threading.Event(), threading.Event()

    class Slow:
        """The last finder but one: a thread that waits in it continues when those before it have changed."""

        def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
            if name == "ahead_elsewhere":
                midway.set()
                go.wait(60)

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path[:-1], Slow(), sys.meta_path[-1]])

    found: list[ModuleType] = []
    other = threading.Thread(target=lambda: found.append(importlib.import_module("ahead_elsewhere")))

    def reading() -> None:
        other.start()
        assert midway.wait(60)

    await preload.yielding_thread(reading)
    go.set()
    await asyncio.to_thread(other.join)
    assert found == [sys.modules["ahead_elsewhere"]]


@pytest.mark.parametrize("name", ["ahead_outer", "ahead_other"])
async def test_what_the_loop_reads_itself_is_not_kept_from_it(signals: Any, name: str) -> None:
    reading = await begun(signals)
    signals.go.set()
    importlib.import_module(name)
    assert "ahead_inner" in sys.modules
    assert await reading is sys.modules["ahead_outer"]


def test_what_is_read_ahead_exists() -> None:
    import importlib.util

    named = (
        *preload.DRAWING_TEXT,
        *preload.DRAWING_CODE,
        *preload.ASKING,
        *preload.SENDING,
        *preload.READING,
    )
    found = [name for name in named if importlib.util.find_spec(name.split(".", 1)[0])]
    assert {"markdown_it", "openai", "rich.syntax", "tree_sitter_bash"} <= set(found)


@pytest.mark.thorough
def test_what_opening_a_session_needs_is_there_and_read_aside() -> None:
    code = (
        "import asyncio, sys; from tools.discovery import tool_modules;"
        "from agent.api.opening import READ_FIRST;"
        "from app.tui.startup.preload import SURFACE, import_engine, import_surface;"
        "asyncio.run(import_surface()); asyncio.run(import_engine());"
        "assert {*SURFACE, *READ_FIRST, *tool_modules()} <= sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WATCHED = """
import asyncio, sys, threading
from app.tui.conversation import background_watch

class OnTheLoop:
    def find_spec(self, name, *_):
        if threading.current_thread() is threading.main_thread():
            print(name)

async def main():
    looked = asyncio.Event()

    async def look(*_):
        looked.set()

    background_watch.SETTLED, background_watch.look = 0, look
    sys.meta_path.insert(0, OnTheLoop())
    watch = asyncio.create_task(background_watch.watch_jobs(print))
    await asyncio.wait_for(looked.wait(), 60)
    watch.cancel()

asyncio.run(main())
"""
"""Watches the jobs of an empty home and prints what the event loop itself reads meanwhile."""


@pytest.mark.thorough
def test_what_watches_jobs_is_read_beside_the_event_loop(tmp_path: Path) -> None:
    env = environment(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in done.stdout.split() if name.startswith(("agent.", "app.", "tools."))] == []
