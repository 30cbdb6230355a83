"""`hermes checkpoints` as a real process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import write
from tests.support import command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def hermes(home: Path, *arguments: str) -> Any:
    return command.run(*arguments, env=command.environment(home), cwd=home.parent)


def filled(home: Path) -> CheckpointStore:
    store = CheckpointStore(home / "checkpoints")
    write(store, "a", b"one", created=1_700_000_000)
    write(store, "a", b"two", created=4_000_000_000)
    return store


@pytest.mark.sample(1)
@pytest.mark.parametrize("action", ["status", "verify", "gc"])
def test_where_nothing_is_kept_that_is_said_and_nothing_made(home: Path, action: str) -> None:
    done = hermes(home, "checkpoints", action)
    assert (done.returncode, done.stdout) == (0, "No checkpoints are kept yet.\n")
    assert not (home / "checkpoints").exists()


@pytest.mark.thorough
def test_the_status_in_words_and_as_json(home: Path) -> None:
    filled(home)
    done = hermes(home, "checkpoints", "status")
    assert done.returncode == 0
    assert "2 steps of 1 session, the oldest of 2023-11-1" in done.stdout
    assert "of 2,000 MB in 2 objects" in done.stdout
    record = json.loads(hermes(home, "checkpoints", "status", "--json").stdout)
    assert (record["steps"], record["objects"], record["max_bytes"]) == (2, 2, 2_000_000_000)


@pytest.mark.thorough
def test_damage_is_named_and_the_exit_code_says_so(home: Path) -> None:
    store = filled(home)
    assert hermes(home, "checkpoints", "verify").returncode == 0
    (digest, *_) = store.objects.names()
    (store.objects.folder / digest[:2] / digest).write_bytes(b"")
    done = hermes(home, "checkpoints", "verify")
    assert done.returncode == 1
    assert digest in done.stdout
    assert "not all as they were written" in done.stdout
    record = json.loads(hermes(home, "checkpoints", "verify", "--json").stdout)
    assert (record["sound"], len(record["problems"])) == (False, 1)


@pytest.mark.thorough
def test_old_steps_are_removed(home: Path) -> None:
    store = filled(home)
    record = json.loads(hermes(home, "checkpoints", "gc", "--json").stdout)
    assert (record["steps"], record["left_because_busy"]) == (1, False)
    assert store.line("s").floor == 1
    assert "Removed 0 steps" in hermes(home, "checkpoints", "gc").stdout


@pytest.mark.thorough
def test_a_newer_store_is_one_sentence(home: Path) -> None:
    folder = home / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "format").write_text("hermes-checkpoints 9\n")
    for action in ("status", "verify", "gc"):
        done = hermes(home, "checkpoints", action)
        assert done.returncode == 1
        assert "update Hermes" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert (folder / "format").read_text() == "hermes-checkpoints 9\n"


def test_an_unknown_action_is_a_matter_of_usage(home: Path) -> None:
    assert hermes(home, "checkpoints").returncode == 0
    assert hermes(home, "checkpoints", "burn").returncode == 2
