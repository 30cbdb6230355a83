"""What stands in the home folder in place of what belongs there holds nothing up and brings nothing down."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import command
from tests.support.model_process import ServerProcess

INSTEAD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/full"),
}


@pytest.mark.thorough
def test_a_question_is_answered_all_the_same(tmp_path: Path) -> None:
    with ServerProcess("script = lambda _request: say('Here.')", tmp_path) as server:
        for name, make in INSTEAD.items():
            home = tmp_path / name
            (home / "logs").mkdir(mode=0o700, parents=True)
            for place in ("logs/hermes.log", "checkpoints", "first-frame", "history"):
                make(home / place)
            done = command.run("-p", "hello", env=command.environment(home, server.base_url), cwd=tmp_path)
            assert (done.returncode, done.stdout) == (0, "Here.\n"), (name, done.stderr)
            assert "Internal error" not in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["scratch", "run", "state.db"])
def test_what_cannot_be_done_without_ends_in_one_sentence(tmp_path: Path, place: str) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    for name, make in INSTEAD.items():
        if (place, name) in (("scratch", "folder"), ("run", "folder")):
            continue
        home = tmp_path / name
        home.mkdir(mode=0o700)
        make(home / place)
        env = command.environment(home) | {"HERMES_MODEL": "demo"}
        done = command.run("-p", "hello", env=env, cwd=workspace)
        assert done.returncode in (1, 2) and done.stdout == "", name
        assert done.stderr.count("\n") == 1 and str(home / place) in done.stderr, done.stderr
        assert "Internal error" not in done.stderr


@pytest.mark.parametrize("name", [name for name in INSTEAD if name != "folder"])
def test_a_home_that_is_no_folder_is_not_taken_for_an_empty_one(tmp_path: Path, name: str) -> None:
    INSTEAD[name](tmp_path / "home")
    env = command.environment(tmp_path / "home")
    done = command.run("sessions", "list", env=env, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "home: it is not a folder; free it or set HERMES_HOME." in done.stderr
    if name == "pipe":
        above = command.run(
            "trust", "list", env=command.environment(tmp_path / "home" / "inner"), cwd=tmp_path
        )
        told = f"inner: {tmp_path / 'home'} is not a folder; free it or set HERMES_HOME."
        assert (above.returncode, above.stdout) == (2, "") and above.stderr.count("\n") == 1
        assert told in above.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", INSTEAD)
def test_settings_that_are_no_file_are_named_and_those_by_default_count(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for file in ("config.yaml", "permissions.yaml", ".env"):
        INSTEAD[name](home / file)
    done = command.run("doctor", env=command.environment(home) | {"HERMES_MODEL": "demo"}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "config.yaml: cannot be read" in done.stdout and "permissions.yaml: it is not read" in done.stdout
