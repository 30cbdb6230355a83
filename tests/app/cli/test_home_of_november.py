"""A home that Hermes of 24 November 2026 wrote opens as it is: sessions, steps, notes, jobs and rules.

`data/home-2026-11-24.tar.xz` was written by that program (ee2ac932) with a scripted model: a session with
every kind of step, one that works with git, and one that sends an agent. Its places are those of a temporary
folder; `home` puts them elsewhere, as a person does who moves a disk.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support import command
from tests.support.model_process import ServerProcess

ARCHIVE = Path(__file__).parent / "data/home-2026-11-24.tar.xz"
THEN = "/tmp/hermes-november"
STEPS, COMMITS, AGENTS = "20261128-152604-5b777b", "20261128-152631-0f343a", "20261128-152644-2234c0"
GREETING = "script = lambda request: say('Going on.')"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the folder with the home, and the two projects of its sessions."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="tar")
    now = str(tmp_path)
    with sqlite3.connect(tmp_path / ".hermes/state.db") as database:
        database.execute("UPDATE sessions SET workspace = replace(workspace, ?, ?)", (THEN, now))
    database.close()
    checkpoints = tmp_path / ".hermes/checkpoints"
    for log in (checkpoints / "lines").iterdir():
        payloads = [line[26:].replace(THEN.encode(), now.encode()) for line in log.read_bytes().splitlines()]
        sums = [(len(each), sha256(each).hexdigest()[:16].encode(), each) for each in payloads]
        log.write_bytes(b"".join(b"%08x %s %s\n" % each for each in sums))
    for file in [*checkpoints.glob("git/*/source"), *checkpoints.glob("baselines/*")]:
        file.write_text(file.read_text().replace(THEN, now))
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ServerProcess(GREETING, tmp_path_factory.mktemp("model")) as server:
        yield server.base_url


def hermes(place: Path, *words: str, model: str = "", code: int = 0, folder: str = "work") -> str:
    done = command.run(*words, env=command.environment(place / ".hermes", model), cwd=place / folder)
    assert done.returncode == code, done.stderr
    return done.stdout


def git(place: Path, *words: str) -> str:
    done = subprocess.run(("git", *words), cwd=place / "git", capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_its_sessions_are_listed_found_shown_and_exported(place: Path) -> None:
    listed = json.loads(hermes(place, "sessions", "list", "--json"))
    assert {each["id"]: each["title"] for each in listed} == {
        STEPS: "mend it",
        COMMITS: "Commits",
        AGENTS: "send somebody",
    }
    assert STEPS in hermes(place, "sessions", "search", "Bold")
    assert "It was looked at." in hermes(place, "sessions", "show", AGENTS)
    for kind in ("jsonl", "sharegpt", "openai", "atif", "html", "patch"):
        assert hermes(place, "sessions", "export", STEPS, "--format", kind)


@pytest.mark.parametrize("session", [STEPS, COMMITS, AGENTS])
def test_a_session_replays_to_the_same_requests_and_goes_on(place: Path, model: str, session: str) -> None:
    assert hermes(place, "sessions", "replay", session).startswith("The same: ")
    assert hermes(place, "-p", "further", "--resume", session, model=model) == "Going on.\n"
    assert hermes(place, "sessions", "replay", session).startswith("The same: ")


def test_its_steps_go_back_and_forth(place: Path) -> None:
    hermes(place, "rollback", "--session", STEPS, "--to", "0", "--yes")
    assert [each.name for each in (place / "work").iterdir()] == ["a.py"]
    assert (place / "work/a.py").read_text() == "def f():\n    return 1\n"
    assert not (place / ".hermes/memories/MEMORY.md").exists()
    hermes(place, "rollback", "--session", STEPS, "--to", "5", "--yes")
    assert (place / "work/d.txt").read_text() == "from script"


def test_its_steps_of_git_go_back_whole(place: Path) -> None:
    for position in ("2", "1", "0"):
        hermes(place, "rollback", "--session", COMMITS, "--to", position, "--yes", folder="git")
        git(place, "fsck", "--strict")
        assert git(place, "status", "--porcelain") == ""
    assert git(place, "log", "--all", "--format=%s") == "x"


def test_its_notes_lessons_jobs_rules_and_settings_hold(place: Path) -> None:
    assert "The project is tiny." in hermes(place, "memory")
    assert "use uv" in hermes(place, "learnings", "list", "--all-projects")
    assert "look" in hermes(place, "cron")
    assert "terminal(git push *)" in hermes(place, "permissions")
    assert hermes(place, "config", "get", "display.vi").strip() == "true"
    assert "patch" in hermes(place, "audit")
