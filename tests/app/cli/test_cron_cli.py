"""`hermes cron`: jobs and the heartbeat as commands, on a real home."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.automation.schedule.heartbeat import FILE
from app.main import main
from tests.support.command import environment, events, run
from tests.support.model_server import ModelServer, by_step, say


def cron(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints, on stderr where it is refused."""
    assert main(["cron", *arguments]) == code
    printed = capsys.readouterr()
    return printed.err if code == 2 else printed.out


@pytest.mark.thorough
def test_a_job_is_made_changed_run_and_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert cron(capsys, "list") == "No jobs.\n" and not (tmp_path / "home" / "state.db").exists()
    cron(capsys, "add", "every 2h", "--script", "echo well", "--name", "eyes", "--deliver", "none")
    mistakes: tuple[tuple[list[str], str], ...] = (
        (["edit", "eyes"], "Nothing would change"),
        (["edit", "eyes", "--cwd", "lost"], "There is no folder"),
        (["add", "1h", "Look.", "--cwd", "~nosuchuser/x"], "There is no folder"),
        (["edit", "eyes", "--schedule", "soon"], "is not a schedule"),
        (["add", "1h", "Look.", "--cwd", str(tmp_path / "lost")], "There is no folder"),
        (["add", "1h", "Look.", "--name", "eyes"], "There is a job 'eyes' already"),
        (["add", "1h", "Look.", "--context-from", "nobody"], "'nobody' is not a job"),
        (["add", "1h", "Look.", "--deliver", "pigeon"], "is not a way to deliver"),
        (["add", "1h"], "either a prompt or a script"),
        (["pause", "nobody"], "'nobody' is not a job"),
        (["run", "nobody"], "'nobody' is not a job"),
        (["run", "", "--once"], "'' is not a job"),
        (["add", "1h", "Look.", "--skill", "nosuch"], "There is no skill 'nosuch'; there are "),
        (["edit", "eyes", "--skill", "nosuch"], "There is no skill 'nosuch'; there are "),
        (["add", "1h", "Look.", "--toolset", "fiel"], "There is no toolset 'fiel'; did you mean `file`?"),
        (["add", "1h", "Look.", "--toolset", "mcp__lost"], "There is no toolset 'mcp__lost'; there are "),
        (["edit", "eyes", "--toolset", "fiel"], "There is no toolset 'fiel'; did you mean `file`?"),
        (["edit", "eyes", "--context-from", "nobody"], "'nobody' is not a job"),
    )
    for words, said in mistakes:
        told = cron(capsys, *words, code=2)
        assert said in told and told.count("\n") == 1
    nowhere = (
        ("file:~nosuchuser/x", "Its delivery will fail: The file"),
        (f"file:{'a' * 5000}", "Its delivery will fail: The file"),
        ("message:nobody", "There is no target 'nobody'"),
    )
    for place, said in nowhere:
        assert said in cron(capsys, "add", "1h", "Look.", "--name", "lost", "--deliver", place)
        cron(capsys, "remove", "lost")
    assert json.loads(cron(capsys, "run", "eyes"))["output"] == "well\n"
    cron(capsys, "edit", "eyes", "--script", "exit 3", "--cwd", ".")
    assert json.loads(cron(capsys, "run", "eyes", code=1))["error"] == "exit code 3"
    assert [each["state"] for each in json.loads(cron(capsys, "log", "--json"))["runs"]] == ["failed", "done"]
    assert "paused" in cron(capsys, "pause", "eyes") and "next" in cron(capsys, "resume", "eyes")
    assert cron(capsys, "run", "--once") == ""
    with closing(sqlite3.connect(tmp_path / "home" / "state.db")) as state, state:
        state.execute("UPDATE jobs SET intent = json_set(intent, '$.zone', 'Mars/Base')")
    assert "There is no time zone 'Mars/Base', so this job is never due; `hermes cron" in cron(capsys, "list")
    (lost,) = json.loads(cron(capsys, "list", "--json"))["jobs"]
    assert lost["next"] is None and "'Mars/Base'" in lost["problem"] and lost["text"] == "every 2h"
    assert "next" in cron(capsys, "edit", "eyes", "--tz", "UTC")
    cron(capsys, "remove", "eyes")
    assert cron(capsys, "list") == "No jobs.\n"


def test_a_job_whose_skill_or_toolset_is_gone_asks_no_model_and_its_receipt_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HERMES_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    skill = home / "skills" / "mine" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: mine\ndescription: How I look at things.\n---\nLook well.\n")
    (home / "config.yaml").write_text("mcp_servers: {here: {command: 'true'}}\n")
    for name in ("file", "safe", "read_file", "mcp__here", "mcp__here__look", "mcp"):
        cron(capsys, "add", "1h", "Look.", "--name", name, "--toolset", name, "--deliver", "none")
    cron(capsys, "add", "1h", "Look.", "--name", "look", "--skill", "mine", "--deliver", "none")
    skill.unlink()
    (home / "config.yaml").unlink()
    for job, said in (
        ("look", "There is no skill 'mine'; there are "),
        ("mcp__here", "There is no toolset 'mcp__here'; there are "),
    ):
        ended = json.loads(cron(capsys, "run", job, code=1))
        assert (ended["state"], ended["session"], said in ended["error"]) == ("failed", "", True), ended


@pytest.mark.thorough
async def test_the_heartbeat_asks_once_for_a_change_and_nothing_while_idle(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("heartbeat: {interval: 60}\n")

    async def beat() -> list[dict[str, Any]]:
        """Let a beat be due, and do it in a process; its runs."""
        for state in (home / "schedule").glob("*.json"):
            state.write_text(json.dumps({**json.loads(state.read_text()), "last": 0}))
        done = await asyncio.to_thread(run, "cron", "run", "--once", env=env, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return events(done.stdout)

    script = by_step([say("HEARTBEAT_OK"), say("Water the plants.")])
    async with ModelServer(script) as server:
        env = environment(home, server.base_url)
        assert await beat() == [] and server.requests == []
        (home / FILE).write_text("Look after the plants.\n")
        (first,) = await beat()
        assert (first["state"], first["delivery"], len(server.requests)) == ("done", "none", 1)
        assert "Look after the plants." in str(server.requests[0].body["messages"][-1]["content"])
        assert [await beat() for _ in range(2)] == [[], []] and len(server.requests) == 1
        (home / FILE).write_text("Look after the plants, and the cat.\n")
        (second,) = await beat()
        assert (second["output"], second["delivery"]) == ("Water the plants.", "waiting")
        assert second["session"] == first["session"] and len(server.requests) == 2
