"""What of a ruling is taken down, and reading it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import Decision
from agent.safety.audit.check import verify
from agent.safety.audit.log import (
    MAX_TEXT,
    AuditLog,
    AuditRecorder,
    AuditTail,
    canonical,
    entry,
    files,
    newest,
)
from agent.safety.gate import Ruling
from agent.safety.rules import Verdict
from tests.support.gates import plain_gate
from tools.results import DeniedError
from tools.services.actions import Action, Fetch, RunCommand, WritePath

WORKSPACE = Path("/srv/project")


def recorder(folder: Path, **extra: Any) -> AuditRecorder:
    return AuditRecorder(AuditLog(folder), "s1", "tui", WORKSPACE, **extra)


def run(command: str = "make test") -> RunCommand:
    return RunCommand(tool="terminal", command=command, cwd=WORKSPACE)


def ruling(action: Action, outcome: Any = "allowed", feedback: str = "") -> Ruling:
    return Ruling(action, Verdict("ask", ("runs a command",)), "person", outcome, feedback)


async def test_who_what_when_and_by_whom_is_taken_down(tmp_path: Path) -> None:
    await recorder(tmp_path, agent="helper")(ruling(run(), "denied", "not now"))
    (found,) = newest(tmp_path, 9)
    assert found.time > 1_600_000_000
    said = found.record
    assert (said["session"], said["surface"], said["agent"], said["workspace"]) == (
        "s1",
        "tui",
        "helper",
        "/srv/project",
    )
    assert (said["tool"], said["kind"], said["headline"]) == ("terminal", "RunCommand", "make test")
    assert (
        said["action"].items()
        >= {
            "command": "make test",
            "cwd": "/srv/project",
            "background": False,
            "pty": False,
        }.items()
    )
    assert (said["verdict"], said["reasons"], said["judge"]) == ("ask", ["runs a command"], "person")
    assert (said["outcome"], said["feedback"]) == ("denied", "not now")


async def test_secrets_are_masked_everywhere(tmp_path: Path) -> None:
    secret, token = "hunter-22-Xy", "ghp_" + "a1B2c3D4e5" * 4
    take = recorder(tmp_path, secrets={"DB_PASSWORD": secret})
    await take(
        ruling(run(f"psql {secret}; curl -H 'Authorization: Bearer {token}' x"), "denied", f"no {secret}")
    )
    await take(ruling(Fetch(tool="web_extract", url=f"https://ada:{secret}@example.com/")))
    content = files(tmp_path)[0].read_text()
    assert secret not in content and token not in content
    assert content.count("DB_PASSWORD redacted") >= 4


async def test_a_huge_command_keeps_both_ends_and_a_sum(tmp_path: Path) -> None:
    await recorder(tmp_path)(ruling(run("echo start " + "x " * MAX_TEXT + "end")))
    (found,) = newest(tmp_path, 1)
    text = found.record["action"]["command"]
    assert text.startswith("echo start") and text.endswith("end") and "SHA-256" in text
    assert len(text) < MAX_TEXT + 200


@pytest.mark.parametrize("text", ["\x1b]0;x\x07 \u202e", "\udcff\udc00", "a\nb\u2028c", "[bold]"])
async def test_any_text_is_one_line(tmp_path: Path, text: str) -> None:
    await recorder(tmp_path)(ruling(run(text)))
    assert newest(tmp_path, 1)[0].headline == text
    assert files(tmp_path)[0].read_bytes().count(b"\n") == 1
    assert files(tmp_path)[0].read_bytes().isascii()
    assert verify(tmp_path).sound


async def test_the_gate_of_a_session_leaves_a_line_for_each_ruling(tmp_path: Path) -> None:
    class Person:
        async def ask(self, action: Action, verdict: Verdict) -> Decision:
            return Decision("once" if "yes" in action.headline() else "deny", "because")

    gate = plain_gate(WORKSPACE, approver=Person(), audit=recorder(tmp_path))
    await gate.permit(WritePath(tool="write_file", path=Path("/srv/other/yes")))
    with pytest.raises(DeniedError):
        await gate.permit(WritePath(tool="write_file", path=Path("/srv/other/no")))
    with pytest.raises(DeniedError):
        await gate.permit(run("rm -rf /"))
    found = [(each.verdict, each.judge, each.outcome) for each in newest(tmp_path, 9)]
    assert found == [
        ("ask", "person", "allowed"),
        ("ask", "person", "denied"),
        ("hardline", "rule", "denied"),
    ]


async def test_what_cannot_be_taken_down_is_denied(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    folder.write_text("a file where the folder should be")
    gate = plain_gate(WORKSPACE, "all", audit=recorder(folder))
    with pytest.raises(DeniedError) as caught:
        await gate.permit(WritePath(tool="write_file", path=WORKSPACE / "a.py"))
    assert caught.value.extra["outcome"] == "unrecorded"


def test_odd_lines_are_read_without_fail() -> None:
    odd = {
        "seq": 3,
        "hash": "x",
        "previous": "y",
        "time": "soon",
        "reasons": "none",
        "tool": 7,
        "outcome": None,
    }
    found = entry(odd)
    assert (found.seq, found.time, found.reasons, found.tool) == (3, 0.0, (), "7")


def test_the_newest_come_from_as_many_files_as_it_takes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 500)
    for number in range(20):
        log.append({"headline": str(number), "tool": "even" if number % 2 == 0 else "odd"})
    assert len(files(tmp_path)) > 3
    assert [each.headline for each in newest(tmp_path, 7)] == [str(number) for number in range(13, 20)]
    assert [each.headline for each in newest(tmp_path, 3, lambda each: each.tool == "odd")] == [
        "15",
        "17",
        "19",
    ]
    assert len(newest(tmp_path, 100)) == 20
    assert newest(tmp_path / "none", 5) == []


def test_a_tail_tells_every_entry_once_across_files_and_torn_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 500)
    tail = AuditTail(tmp_path, 100)
    assert tail.read() == []
    seen = []
    for number in range(20):
        log.append({"headline": str(number)})
        if number % 3 == 0:
            seen += tail.read()
    seen += tail.read()
    assert [each.headline for each in seen] == [str(number) for number in range(20)]
    path = files(tmp_path)[-1]
    whole = path.read_bytes()
    path.write_bytes(whole + canonical({"seq": 21, "hash": "", "previous": ""})[:9])
    assert tail.read() == []
    path.write_bytes(whole + canonical({"seq": 21, "hash": "", "previous": ""}) + b"\n")
    assert [each.seq for each in tail.read()] == [21]


def test_a_tail_begins_with_the_last_ones(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 500)
    for number in range(20):
        log.append({"headline": str(number)})
    assert [each.headline for each in AuditTail(tmp_path, 4).read()] == ["16", "17", "18", "19"]
