"""`hermes audit` as a real process, over the log a real session left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.safety.audit.log import AuditLog, files
from tests.support import command
from tests.support.model_process import ServerProcess

SCRIPT = """
script = by_step([
    calls(("terminal", {"command": "touch made.txt"}), ("read_file", {"path": "seen.txt"})),
    say("Done."),
])
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def filled(home: Path) -> None:
    log = AuditLog(home / "audit")
    for number, outcome in enumerate(["allowed", "denied", "allowed", "nobody"]):
        log.append(
            {
                "time": 1_760_000_000 + number * 86_400,
                "session": f"s{number // 2}",
                "tool": "terminal",
                "headline": f"echo {number} \x1b[31m\u202e",
                "reasons": ["runs a command"],
                "judge": "person",
                "outcome": outcome,
            }
        )


def audit(home: Path, *arguments: str) -> tuple[int, str, str]:
    done = command.run("audit", *arguments, env=command.environment(home), cwd=home.parent)
    return done.returncode, done.stdout, done.stderr


def test_the_last_rulings_are_one_line_each(home: Path) -> None:
    filled(home)
    code, out, err = audit(home)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 4
    assert "✓ allowed by person" in lines[0] and "terminal" in lines[0] and "(runs a command)" in lines[0]
    assert "⊘ nobody by person" in lines[3]
    assert "\x1b" not in out and "\u202e" not in out


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--limit", "1"), [3]),
        (("--session", "s0"), [0, 1]),
        (("--session", "s"), [0, 1, 2, 3]),
        (("--outcome", "allowed"), [0, 2]),
        (("--tool", "terminal", "--outcome", "denied"), [1]),
        (("--since", "2025-10-11"), [2, 3]),
        (("--tool", "patch"), []),
    ],
)
def test_what_is_wanted_can_be_narrowed(home: Path, arguments: tuple[str, ...], found: list[int]) -> None:
    filled(home)
    code, out, _ = audit(home, "--json", *arguments)
    assert code == 0
    assert [json.loads(line)["headline"].split()[1] for line in out.splitlines()] == list(map(str, found))


@pytest.mark.thorough
def test_a_whole_log_verifies_and_a_changed_one_does_not(home: Path) -> None:
    filled(home)
    assert audit(home, "--verify")[:2] == (0, "4 lines in 1 file: as they were written.\n")
    path = files(home / "audit")[0]
    path.write_bytes(path.read_bytes().replace(b"echo 1", b"echo 9"))
    code, out, _ = audit(home, "--verify")
    assert code == 1
    assert f"▲ {path.name}:2: it was changed" in out and "not as they were written" in out
    code, out, _ = audit(home, "--verify", "--json")
    report = json.loads(out)
    assert (code, report["sound"], report["problems"][0]["line"]) == (1, False, 2)
    path.write_bytes(b"torn\n")
    assert audit(home)[1] == "No line of the log can be read; see hermes audit --verify.\n"
    assert audit(home, "--tool", "terminal")[1] == "Nothing was found.\n"


@pytest.mark.thorough
def test_an_empty_log_is_told_and_not_made(home: Path) -> None:
    assert audit(home)[:2] == (0, "No action was checked yet.\n")
    assert audit(home, "--json")[:2] == (0, "")
    assert audit(home, "--verify")[0] == 0
    assert not (home / "audit").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("arguments", [("--since", "soonish"), ("--limit", "0"), ("--outcome", "maybe")])
def test_a_wrong_argument_is_one_sentence(home: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = audit(home, *arguments)
    assert (code, out) == (2, "") and err.count("\n") == 1


@pytest.mark.thorough
def test_a_session_without_a_person_takes_every_ruling_down(tmp_path: Path, home: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "seen.txt").write_text("x\n")
    with ServerProcess(SCRIPT, tmp_path) as server:
        for approve in ("all", "deny"):
            environment = command.environment(home, server.base_url)
            done = command.run("-p", "go", "--json", "--approve", approve, env=environment, cwd=work)
            assert done.returncode in (0, 4), done.stderr
    records = [json.loads(line) for line in audit(home, "--json")[1].splitlines()]
    commands = [each for each in records if each["tool"] == "terminal"]
    assert {each["action"]["command"] for each in commands} == {"touch made.txt"}
    assert "allowed" in {each["outcome"] for each in commands}
    assert {each["surface"] for each in records} == {"json"}
    assert {each["outcome"] for each in records if each["tool"] == "read_file"} == {"allowed"}
    assert len({each["session"] for each in records}) == 2
    assert audit(home, "--verify")[0] == 0


@pytest.mark.thorough
def test_a_command_that_cannot_be_taken_down_does_not_run(tmp_path: Path, home: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    home.mkdir()
    (home / "audit").write_text("in the way")
    with ServerProcess(SCRIPT, tmp_path) as server:
        environment = command.environment(home, server.base_url)
        done = command.run("-p", "go", "--json", "--approve", "all", env=environment, cwd=work)
    assert not (work / "made.txt").exists()
    results = [each for each in command.events(done.stdout) if each["type"] == "tool_finished"]
    assert {each["outcome"] for each in results} == {"denied"}
    assert "audit" in results[0]["result"]
