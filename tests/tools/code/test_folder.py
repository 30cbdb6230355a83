"""Private folders, and what killed processes leave of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tools.code.server import PrivateFolder, sweep

LEFT = """
import os, signal
from tools.code.server import PrivateFolder
print(PrivateFolder().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_behind(root: Path) -> Path:
    environ = {**os.environ, "TMPDIR": str(root), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", LEFT], env=environ, capture_output=True, text=True)
    return Path(done.stdout.strip())


def test_the_folder_of_a_killed_process_is_swept() -> None:
    # A short path: the name of a socket has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as name:
        folder = left_behind(root := Path(name))
        assert folder.is_dir() and folder.parent == root
        sweep(root)
        assert list(root.iterdir()) == []


def test_a_folder_whose_owner_lives_stays() -> None:
    folder = PrivateFolder()
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


def test_an_old_folder_without_a_lock_is_swept(tmp_path: Path) -> None:
    old = tmp_path / "hermes-code-old"
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    sweep(tmp_path)
    assert not old.exists()


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
                folder = PrivateFolder()
                assert folder.path.is_dir()
                folder.remove()
        finally:
            over.set()
            for each in sweepers:
                each.join()
