"""`hermes import`, on folders of other agents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.document import parse
from app.main import main
from tests.support import other_agents
from tests.support.engines import bench
from tests.support.replies import say


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "person").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["import", *arguments]) == code
    out = capsys.readouterr()
    return out.out if code == 0 else out.err


def results(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return json.loads(run(capsys, *arguments, "--yes", "--json"))


def test_what_is_there_is_shown_first_and_nothing_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path
) -> None:
    other_agents.claude(tmp_path / "person")
    shown = json.loads(run(capsys, "claude", "--json"))
    assert [each["id"] for each in shown["found"]["sessions"]] == ["claude-5d3c", "claude-empty"]
    assert shown["found"]["servers"]["github"]["env"] == ["TOKEN"] and "t0p" not in json.dumps(shown)
    said = run(capsys, "claude", code=2)
    assert "Nobody is there to confirm it; look at the list and add --yes." in said
    assert not (home / "hermes.db").exists() and not (home / "memories").exists()


def test_all_of_it_is_taken_over_once(capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path) -> None:
    other_agents.claude(tmp_path / "person")
    said = run(capsys, "claude", "--yes")
    assert "Taken over: 1 of 2 sessions, 3 of 3 notes, 1 of 1 skills, 2 of 2 MCP servers, 7 of 7" in said
    assert "British" in (home / "memories" / "USER.md").read_text()
    (project,) = (home / "memories" / "projects").glob("*/MEMORY.md")
    assert project.read_text() == "The tests need a database.\n"
    assert list((home / "skills").rglob("deploying/SKILL.md"))
    servers = parse((home / "config.yaml").read_bytes(), "config.yaml").data["mcp_servers"]
    assert servers["github"] == {"command": "gh-mcp", "args": ["--ro"], "env": {"TOKEN": "t0p"}}
    assert (home / "config.yaml").stat().st_mode & 0o077 == 0
    rules = parse((home / "permissions.yaml").read_bytes(), "permissions.yaml").data["rules"]
    assert rules["terminal(npm run test *)"] == "allow" and rules["read_file(.env)"] == "deny"
    again = results(capsys, "claude")["results"]
    assert [each["name"] for each in again if each["done"]] == []
    assert {each["note"] for each in again if each["part"] == "sessions"} == {
        "is here already",
        "holds no messages",
    }


def test_a_rule_of_ones_own_is_never_replaced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, home: Path
) -> None:
    other_agents.claude(tmp_path / "person")
    other_agents.write(home / "permissions.yaml", "rules:\n  terminal(npm run test *): deny\n")
    taken = results(capsys, "claude", "--only", "permissions")["results"]
    assert taken[0]["note"] == "stands here already, as deny" and not taken[0]["done"]
    assert "terminal(npm run test *): deny" in (home / "permissions.yaml").read_text()


@pytest.mark.parametrize("agent", ["codex", "opencode"])
def test_the_usual_folders_are_found(agent: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    getattr(other_agents, agent)(tmp_path / "person")
    taken = results(capsys, agent)["results"]
    assert all(each["done"] for each in taken), taken
    assert {each["part"] for each in taken} >= {"sessions", "memory", "skills", "servers"}


def test_a_conversation_that_was_taken_over_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = other_agents.hermes(tmp_path / "person")

    async def go_on() -> list[Any]:
        async with bench(tmp_path, lambda _request: say("Still one.")) as b:
            monkeypatch.setenv("HERMES_HOME", str(b.home))
            await asyncio.to_thread(results, capsys, "hermes", "--from", str(root), "--only", "sessions")
            async with b.engine(resume="hermes-20261001_080000_abc123") as engine:
                ended = await engine.run("And now?")
                assert ended.outcome == "done", ended.error
            assert not b.server.refusals
            return b.server.requests[-1].body["messages"]

    messages = asyncio.run(go_on())
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "user"),
    ]
    assert messages[3]["content"] == '{"output": "a.py"}'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cursor",), "There is no import from cursor"),
        (("claude",), "name the folder of claude with --from"),
        (("claude", "--only", "cats"), "--only does not know cats; it takes sessions, memory"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in run(capsys, *arguments, code=2)
