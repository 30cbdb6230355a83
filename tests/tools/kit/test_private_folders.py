"""Private folders, and what killed processes leave of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.code.server import ScriptServer
from tools.kit.private_folders import PrivateFolder, sweep, sweep_once
from tools.terminal.terminals import Terminals

LEFT = """
import asyncio, os, signal, sys
from pathlib import Path
from agent.safety.sandbox.opening import NoSandbox, is_effective
from agent.workspace.fs_events import open_source
from tools.code.server import ScriptServer

class Killing(NoSandbox):
    def wrap(self, argv, policy):
        os.kill(os.getpid(), signal.SIGKILL)

watch = open_source(Path(sys.argv[1]), lambda path: None)
watch.watch("")
watch.catch_up()
asyncio.run(ScriptServer().start())
is_effective(Killing())
"""


def left_behind(root: Path) -> list[Path]:
    environ = {**os.environ, "TMPDIR": str(root), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", LEFT, root], env=environ, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return sorted(root.iterdir())


def test_what_a_killed_process_left_is_swept() -> None:
    # A short path: the name of a socket has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as name:
        left = left_behind(root := Path(name))
        uses = ["code", "probe", *(["watch"] if sys.platform == "linux" else [])]
        assert [path.name.split("-")[1] for path in left] == uses
        sweep(root)
        assert list(root.iterdir()) == []


@pytest.mark.parametrize("begins", ["a script", "a command"])
def test_a_later_process_sweeps_when_its_first_script_or_command_begins(
    monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as name:
        left = left_behind(Path(name))
        monkeypatch.setattr(tempfile, "tempdir", name)
        sweep_once.cache_clear()

        async def begin() -> None:
            server = ScriptServer()
            if begins == "a script":
                await server.start()
            else:
                caller: Any = SimpleNamespace(task="t", workspace=Path(name), scratch=Path(name), options={})
                Terminals({}).shell(caller)
            try:
                async with asyncio.timeout(60):
                    while any(path.exists() for path in left):
                        await asyncio.sleep(0.01)
                assert begins == "a command" or server.path.exists()
            finally:
                server.close()

        asyncio.run(begin())
        assert list(Path(name).iterdir()) == []


def test_a_folder_whose_owner_lives_stays() -> None:
    folder = PrivateFolder("code")
    try:
        sweep(folder.path.parent)
        assert folder.path.is_dir()
    finally:
        folder.remove()
    assert not folder.path.exists()


def test_what_is_not_ours_to_remove_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tmp_path / "hermes-code-link").symlink_to(outside)
    (tmp_path / "hermes-code-file").touch()
    (tmp_path / "hermes-code-fresh").mkdir()
    sweep(tmp_path)
    names = {"outside", "hermes-code-link", "hermes-code-file", "hermes-code-fresh"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (outside / "kept").exists()


def test_a_folder_that_was_never_finished_is_swept_after_an_hour(tmp_path: Path) -> None:
    old, fresh, foreign = (
        tmp_path / name for name in ("hermes-make-old", "hermes-make-new", "hermes-web-old")
    )
    for each in (old, fresh, foreign):
        each.mkdir()
    for each in (old, foreign):
        os.utime(each, (0, 0))
    sweep(tmp_path)
    assert (old.exists(), fresh.exists(), foreign.exists()) == (False, True, True)


def test_what_remains_of_a_removal_that_was_cut_off_is_swept_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = PrivateFolder("code", str(tmp_path))
    (folder.path / "rest").touch()
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: (path / "owner").unlink())
    folder.remove()
    monkeypatch.undo()
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_sweep_never_meets_a_folder_that_is_just_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        over = threading.Event()

        def sweeping() -> None:
            while not over.is_set():
                sweep(Path(name))

        sweepers = [threading.Thread(target=sweeping) for _ in range(3)]
        for each in sweepers:
            each.start()
        try:
            for _ in range(300):
                folder = PrivateFolder("code")
                assert folder.path.is_dir()
                folder.remove()
        finally:
            over.set()
            for each in sweepers:
                each.join()
