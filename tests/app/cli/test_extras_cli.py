"""`hermes extras`, the guess for a mistyped word, and groups without an action."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent.integrations.extras import adding, check_names, removing
from app.main import main
from app.tui.terminal.pip_progress import PipProgress, with_raw_progress
from tests.support import command
from tools.extras import EXTRAS


def test_extras_are_listed_with_what_they_bring(tmp_path: Path) -> None:
    done = command.run("extras", "list", "--json", env=command.environment(tmp_path / "home"), cwd=tmp_path)
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(EXTRAS)
    assert all(set(row) == {"name", "installed", "brings", "size"} for row in rows)


def test_a_mistyped_extra_gets_a_guess_and_nothing_is_run(tmp_path: Path) -> None:
    done = command.run("extras", "add", "sreve", env=command.environment(tmp_path / "home"), cwd=tmp_path)
    assert done.returncode == 2 and "Did you mean serve?" in done.stderr


def test_an_extra_of_a_checkout_is_installed_with_its_pins_and_hashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.integrations.extras.is_installed", lambda name: False)
    change = adding(check_names(["serve"]))
    assert "--require-hashes" in change.command
    pins = Path(change.command[-1])
    text = pins.read_text()
    pins.unlink()
    assert all(f"{name}==" in text for name in ("starlette", "uvicorn", "websockets", "segno", "anyio"))
    assert "pytest==" not in text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"n\n", "changed.\n"),
        (b"\x04", "changed.\n"),
        (b"", "as nobody can be asked here; add --yes.\n"),
    ],
    ids=["no", "end of input", "nobody"],
)
def test_a_no_is_told_from_nobody_being_there(
    answer: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("agent.integrations.extras.is_installed", lambda name: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    master, slave = pty.openpty()
    os.write(master, answer)
    with open(slave if answer else os.devnull) as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert main(["extras", "add", "serve"]) == 2
    os.close(master)
    assert capsys.readouterr().err.endswith(f"Nothing was {said}" if answer else said)
    assert list(tmp_path.iterdir()) == []


def test_removing_leaves_what_others_need() -> None:
    command = removing(["serve"]).command
    assert "segno" in command and not {"websockets", "starlette", "h11"} & set(command)
    assert "aiohttp" not in removing(["discord", "slack"]).command
    assert "numpy" not in removing(["semantic"]).command


def test_progress_of_pip_is_said_in_a_few_words() -> None:
    now = [0.0]
    progress = PipProgress(100_000_000, lambda: now[0])
    assert progress.read("Downloading onnxruntime-1.0-cp311.whl (20.0 MB)").startswith("fetching onnxruntime")
    now[0] = 10.0
    assert "10 of about 100 MB, 90 s left" in progress.read("Progress 10000000 of 20000000").replace(
        "2 min", "90 s"
    )
    assert progress.read("Installing collected packages: a, b, c") == "installing 3 packages …"
    assert progress.read("WARNING: lxml 6.1.3 does not provide the extra 'html_clean'") == ""


def test_the_progress_of_make_run_needs_nothing_that_is_not_installed_yet(tmp_path: Path) -> None:
    program = Path(__file__).parents[3] / "app/tui/terminal/pip_progress.py"
    words = [
        sys.executable,
        "-I",
        "-S",
        program,
        "5",
        sys.executable,
        "-c",
        "print('reason'); raise SystemExit(3)",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split()[-1]) == (3, "reason")
    words[-1] = "print('Failed building wheel for regex'); raise SystemExit(1)"
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "regex has no ready-made build for Python" in done.stderr and "PYTHON=" in done.stderr


@pytest.mark.parametrize(
    ("version", "raw"), [("pip 23.2.1 from x", False), ("pip 24.1 from x", True), ("pip 26.2", True)]
)
def test_only_a_pip_that_knows_raw_progress_is_asked_for_it(version: str, raw: bool, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{version}'\n")
    python.chmod(0o755)
    install = [str(python), "-m", "pip", "install", "x"]
    assert with_raw_progress(install) == [*install, *(["--progress-bar", "raw"] if raw else [])]
    uv = [str(python), "pip", "install", "x"]
    assert with_raw_progress(uv) == uv


@pytest.mark.sample(1)
@pytest.mark.parametrize(("words", "meant"), [(("sesions",), "sessions"), (("sessions", "lst"), "list")])
def test_a_mistyped_subcommand_gets_a_guess(words: tuple[str, ...], meant: str, tmp_path: Path) -> None:
    done = command.run(*words, env=command.environment(tmp_path / "home"), cwd=tmp_path)
    assert done.returncode == 2 and f"Did you mean {meant}?" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("group", ["sessions", "cron", "memory", "checkpoints"])
def test_a_group_without_an_action_lists(group: str, tmp_path: Path) -> None:
    env = command.environment(tmp_path / "home")
    bare, full = (command.run(*words, env=env, cwd=tmp_path) for words in ((group,), (group, "list")))
    assert bare.returncode == 0 and bare.stdout
    assert full.returncode != 0 or bare.stdout == full.stdout
