"""`hermes sessions` as a person runs it: a child process with its own home."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from agent.core.store.nodes import Session
from agent.core.store.store import Store
from app.main import main

ROOT = Path(__file__).resolve().parents[3]
EVIL = "\x1b]0;owned\x07 \x9b31m \u202e"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


async def _fill(home: Home, workspace: str) -> Session:
    async with await Store.open(home.database) as store:
        other = await store.create_session(workspace="/elsewhere", model="m", title="Old one")
        await store.append(other.id, "user", "nothing of interest")
        session = await store.create_session(workspace=workspace, model="some/model")
        first = await store.append(session.id, "user", f"Where is the needle? {EVIL}")
        calls = [{"id": "1", "name": "terminal", "arguments": '{"command": "find ."}'}]
        await store.append(session.id, "assistant", "Let me look.", {"calls": calls})
        await store.finish_call(session.id, "1", '{"output": "needle.txt\\nhaystack"}', {"outcome": "done"})
        await store.append(session.id, "assistant", "In needle.txt.", {"state": "complete"})
        await store.fork(session.id, first.id, "side")
        await store.append(session.id, "assistant", "Somewhere else.", head="side")
        return await store.session(session.id)


@pytest.fixture
def session(home: Home, tmp_path: Path) -> Session:
    return asyncio.run(_fill(home, str(tmp_path)))


def sessions(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `hermes sessions …`."""
    try:
        code = main(["sessions", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert not any(mark in text for mark in "\x1b\x07\x9b\u202e")
        assert "Traceback" not in text
    return code, captured.out, captured.err


def test_what_was_only_opened_is_listed_on_demand(
    home: Home, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    async def open_one() -> str:
        async with await Store.open(home.database) as store:
            opened = await store.create_session(workspace="/elsewhere", model="m")
            await store.append(opened.id, "system", "You are an agent.")
            return opened.id

    opened = asyncio.run(open_one())
    assert opened not in sessions(capsys, "list")[1]
    assert opened in sessions(capsys, "list", "--all")[1]


def test_list_shows_the_newest_first(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = sessions(capsys, "list")
    assert code == 0
    first, second = out.splitlines()
    assert first.startswith(session.id)
    assert "Where is the needle?" in first
    assert "Old one" in second
    assert "Old one" not in sessions(capsys, "list", "--workspace", str(tmp_path))[1]
    assert sessions(capsys, "list", "--workspace", "/nowhere")[1] == "No sessions in that folder.\n"
    records = json.loads(sessions(capsys, "list", "--json", "--limit", "1")[1])
    assert [record["id"] for record in records] == [session.id]
    assert records[0]["length"] == 4


@pytest.mark.parametrize("action", [("list",), ("search", "x"), ("show", "x")])
def test_a_store_that_is_a_link_to_nowhere_is_not_taken_for_none(
    home: Home, capsys: pytest.CaptureFixture[str], action: tuple[str, ...]
) -> None:
    home.root.mkdir(mode=0o700)
    home.database.symlink_to(home.database)
    code, out, error = sessions(capsys, *action)
    assert code == 1 and out == "" and error.endswith("state.db is a link that leads nowhere; remove it.\n")


def test_without_a_store_nothing_is_made(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert sessions(capsys, "list") == (0, "No sessions yet.\n", "")
    assert sessions(capsys, "search", "x", "--json") == (0, "[]\n", "")
    code, _, errors = sessions(capsys, "show", "x")
    assert code == 1
    assert "none was saved yet" in errors
    assert not home.root.exists()


def test_show_prints_a_branch(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sessions(capsys, "show", session.id)
    assert code == 0
    assert "needle.txt\nhaystack" in out
    assert "terminal find ." in out
    assert "Branch main of side, main" in out
    assert "Somewhere else." in sessions(capsys, "show", session.id, "--branch", "side")[1]
    record = json.loads(sessions(capsys, "show", session.id[:-2], "--json")[1])
    assert [node["kind"] for node in record["nodes"]] == ["user", "assistant", "tool", "assistant"]
    assert record["nodes"][0]["content"].endswith(EVIL)
    code, _, errors = sessions(capsys, "show", session.id, "--branch", "none")
    assert (code, "has no branch none" in errors) == (1, True)


@pytest.mark.thorough
def test_search_finds_and_filters(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sessions(capsys, "search", "needle")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert all(line.startswith(session.id) for line in out.splitlines())
    (hit,) = json.loads(sessions(capsys, "search", "needle", "--role", "user", "--json")[1])
    assert hit["kind"] == "user"
    assert len(json.loads(sessions(capsys, "search", "needle", "--tool", "terminal", "--json")[1])) == 1
    assert "1 of 3 matches; --offset 1" in sessions(capsys, "search", "needle", "--limit", "1")[1]
    assert sessions(capsys, "search", "needle", "--session", "Old one")[1] == "Nothing found.\n"
    assert sessions(capsys, "search", "needle", "--until", "2020-01-01")[1] == "Nothing found.\n"
    assert len(sessions(capsys, "search", "needle", "--since", "1d", "--newest")[1].splitlines()) == 3
    assert sessions(capsys, "search", "needle", "--since", "soon")[0] == 2
    assert sessions(capsys, "search", " ")[0] == 2
    assert sessions(capsys, "search", "--", "-> \x1b[31m")[0] == 0


@pytest.mark.thorough
def test_search_takes_projects_and_branches(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    def found(*options: str) -> int:
        return len(json.loads(sessions(capsys, "search", "needle", *options, "--json")[1]))

    name = Path(session.workspace).name
    assert found("--project", name[:4]) == found("--project", session.workspace) == found() == 3
    assert found("--project", "elsewhere") == 0
    assert found("--branch", "ma") == 3 and found("--branch", "main", "--project", name) == 3
    assert found("--branch", "side") == 1 and found("--branch", "none") == 0
    code, _, err = sessions(capsys, "search", "needle", "--branch", " ")
    assert code == 2 and "an empty name narrows nothing" in err


def test_rename_and_delete(session: Session, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert sessions(capsys, "rename", session.id, "A", "better", "name")[0] == 0
    assert sessions(capsys, "rename", "A better name", "")[0] == 1
    code, _, errors = sessions(capsys, "rename", "A beter name", "x")
    assert (code, session.id in errors) == (1, True)
    with SessionLock(home.run, session.id):
        code, _, errors = sessions(capsys, "delete", "A better name", "--yes")
        assert (code, "in use by process" in errors) == (1, True)
    code, out, _ = sessions(capsys, "delete", "A better name", "--yes", "--json")
    assert (code, json.loads(out)) == (0, {"deleted": [session.id]})
    assert "better name" not in sessions(capsys, "list")[1]


def test_without_a_terminal_delete_needs_yes(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code, _, errors = sessions(capsys, "delete", session.id)
    assert (code, "give --yes" in errors) == (2, True)
    assert session.id in sessions(capsys, "list")[1]


@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 4), (b"\n", 4), (b"y\n", 0)])
def test_on_a_terminal_delete_asks(
    session: Session, capsys: pytest.CaptureFixture[str], answer: bytes, code: int
) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "app.main", "sessions", "delete", session.id],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    os.close(theirs)
    os.write(ours, answer)
    _, errors = child.communicate(timeout=200)
    os.close(ours)
    assert child.returncode == code
    assert b"[y/N]" in errors
    assert (session.id in sessions(capsys, "list")[1]) is (code != 0)


def test_export_writes_a_private_file_once(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.jsonl"
    assert sessions(capsys, "export", session.id, "--output", str(target))[0] == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [record["kind"] for record in records].count("assistant") == 3
    assert (records[0]["title"], records[0]["workspace"]) == (session.title, session.workspace)
    assert sorted(name for record in records for name in record.get("heads", [])) == ["main", "side"]
    before = target.read_bytes()
    code, _, errors = sessions(capsys, "export", session.id, "--output", str(target), "--format", "sharegpt")
    assert (code, "--force" in errors) == (2, True)
    assert target.read_bytes() == before
    options = ("--output", str(target), "--format", "sharegpt", "--force")
    assert sessions(capsys, "export", session.id, *options)[0] == 0
    record: dict[str, Any] = json.loads(target.read_text())
    assert [turn["from"] for turn in record["conversations"]] == ["human", "gpt", "tool", "gpt"]
    assert record["completed"] is True
    assert len(list(tmp_path.glob(".out*"))) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ((), True),
        (
            (
                "--model",
                "some/model",
                "--tool",
                "terminal",
                "--tool",
                "patch",
                "--min-calls",
                "1",
                "--completed",
            ),
            True,
        ),
        (("--project", "LAYS", "--since", "1d", "--until", "2999-01-01"), True),
        (("--model", "other"), False),
        (("--tool", "patch"), False),
        (("--min-calls", "2"), False),
        (("--project", "elsewhere"), False),
        (("--since", "2999-01-01"), False),
        (("--until", "1999-01-01"), False),
        (("--branch", "none"), False),
    ],
)
def test_all_sessions_that_pass_the_filters_are_exported(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], passes: bool
) -> None:
    session = asyncio.run(_fill(home, str(tmp_path / "plays")))
    target = tmp_path / "all.jsonl"
    wanted = ("export", "--all", "--format", "sharegpt", *options)
    code, _, errors = sessions(capsys, *wanted, "--output", str(target))
    if not passes:
        assert code == 1 and "None of 2 sessions passes the filters, so nothing is written." in errors
        assert not target.exists() and sorted(each.name for each in tmp_path.iterdir()) == ["home"]
        return
    assert code == 0 and "wrote 1 of 2 sessions" in errors
    (line,) = target.read_text().splitlines()
    assert json.loads(line)["tool_stats"] == {"terminal": {"calls": 1, "done": 1}}
    assert json.loads(sessions(capsys, *wanted)[1]) == json.loads(line)
    lines = [json.loads(each) for each in sessions(capsys, "export", "--all", *options)[1].splitlines()]
    ends = {name: stats for each in lines for name, stats in each.get("tool_stats", {}).items()}
    assert ends == {"main": {"terminal": {"calls": 1, "done": 1}}, "side": {}}
    assert {each["session"] for each in lines} == {session.id}


def test_only_sessions_of_tasks_that_passed_are_exported(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = {
        "id": "1",
        "key": "k",
        "outcome": "done",
        "text": "",
        "usage": {},
        "seconds": 1.0,
        "attempts": 1,
        "session": session.id,
    }
    for passed, code in ((False, 1), (True, 0)):
        checks = [{"check": "contains: x", "passed": passed, "detail": ""}]
        (tmp_path / "results.jsonl").write_text(json.dumps({**result, "checks": checks}) + "\n")
        wanted = ("export", "--all", "--format", "openai", "--passed", str(tmp_path))
        assert sessions(capsys, *wanted)[0] == code
    assert sessions(capsys, "export", "--all", "--passed", "nowhere")[0] == 2


def test_export_to_the_terminal_is_plain_ascii(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sessions(capsys, "export", session.id)
    assert code == 0
    assert out.isascii()
    assert len([json.loads(line) for line in out.splitlines()]) == 5


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["", "missing/folder/x", ".", "a\0b", "pipe"])
def test_a_file_that_cannot_be_written_is_named(
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    code, _, errors = sessions(capsys, "export", session.id, "--force", "--output", target)
    assert (code, "Cannot write" in errors) == (2, True)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("export", "SESSION", "--branch", "none"), 1, "no branch none"),
        (("export",), 2, "Name a SESSION, or give --all"),
        (("export", "SESSION", "--all"), 2, "--all takes no SESSION"),
        (("export", "--all", "--format", "html"), 2, "writes jsonl, sharegpt, openai or atif"),
        (("export", "SESSION", "--tool", "patch"), 2, "give --all instead of SESSION"),
        (("export", "--all", "--min-calls", "-1"), 2, "0 or more"),
        (("export", "--all", "--since", "soon"), 2, "soon"),
        (("export", "SESSION", "--max-tokens", "0", "--format", "openai"), 2, "a number above 0"),
        (("export", "SESSION", "--max-tokens", "1", "--format", "openai"), 0, "tokens, more than 1."),
        (("replay", "SESSION", "--from", "0", "--live"), 2, "There is no step 0"),
        (("replay", "SESSION", "--from", "99", "--live"), 2, "There is no step 99"),
        (("replay", "SESSION", "--model", "x"), 2, "give --from STEP --live too"),
    ],
)
def test_what_cannot_be_exported_or_replayed_is_told_in_one_sentence(
    session: Session, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    words = [session.id if word == "SESSION" else word for word in arguments]
    ended, _, errors = sessions(capsys, *words)
    assert (ended, errors.count("\n")) == (code, 1) and said in errors, errors


def test_a_damaged_store_is_recovered_beside_it(
    session: Session, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    os.truncate(home.database, home.database.stat().st_size - 4096)
    before = home.database.read_bytes()
    code, _, errors = sessions(capsys, "list")
    assert (code, "hermes sessions recover" in errors) == (1, True)
    code, out, _ = sessions(capsys, "recover", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["sessions"] == 2
    assert Path(report["file"]).parent == home.root
    assert home.database.read_bytes() == before
    assert "Saved 2 sessions" in sessions(capsys, "recover", str(home.database))[1]
    assert sessions(capsys, "recover", "/nowhere/state.db")[0] == 1


@pytest.mark.thorough
def test_a_reader_that_leaves_early_is_no_error(session: Session) -> None:
    python = shlex.quote(sys.executable)
    command = f"{python} -m app.main sessions export {session.id} --format sharegpt | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=ROOT, check=False)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("list", "--limit", "-1"), ("list", "--limit", "x"), ("show",)]
)
def test_a_wrong_command_line_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, _, errors = sessions(capsys, *arguments)
    assert code == 2
    assert len(errors.splitlines()) == 1
