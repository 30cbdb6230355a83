"""The audit log says which agent a ruling is about, wherever that agent works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision
from agent.safety.audit.check import verify
from agent.safety.audit.log import asker, newest
from tests.agent.session.subagents.test_delegation import team
from tests.support.model_server import call, say
from tests.support.team import report

SCRIPT = 'from hermes_tools import write_file\nwrite_file(path="b.txt", content="b")\n'


@pytest.mark.thorough
@pytest.mark.parametrize("isolation", ["shared", "copy"])
async def test_each_entry_names_the_agent_that_acted(tmp_path: Path, isolation: str) -> None:
    named = {"goal": "one", "agent": "writer", "isolation": isolation}
    scripts: dict[str, Any] = {
        "main": [call("delegate_task", tasks=[named, {"goal": "two"}]), say("Over.")],
        "one": [
            call("write_file", path="a.txt", content="a"),
            call("execute_code", code=SCRIPT),
            call("delegate_task", goal="leaf", agent="helper"),
            say(report()),
        ],
        "two": [call("write_file", path="c.txt", content="c"), say(report())],
        "leaf": [call("write_file", path="d.txt", content="d"), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        entries = newest(made.home / "audit", 100)
        wrote = {
            Path(json.loads(json.dumps(each.record["action"]))["path"]).name: asker(each)
            for each in entries
            if each.kind == "WritePath"
        }
        assert wrote == {
            "a.txt": "writer (agent-1)",
            "b.txt": "writer (agent-1)",
            "c.txt": "agent-2",
            "d.txt": "helper (agent-3)",
        }
        sent = [asker(each) for each in entries if each.kind == "SpawnAgent"]
        assert sent == ["", "", "writer (agent-1)"]
        assert verify(made.home / "audit").sound


async def test_what_a_person_was_asked_for_an_agent_is_taken_down_under_its_name(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="one", agent="writer"), say("Over.")],
        "one": [call("write_file", path=".vscode/a.json", content="a"), say(report())],
    }
    async with team(tmp_path, scripts) as made, made.engine(approve="normal", attended=True) as engine:

        def answer(event: Any) -> None:
            if isinstance(event, ApprovalAsked):
                event.reply.set_result(Decision("deny", "not there"))

        engine.stream.subscribe(answer)
        await engine.run("Go.")
        (refused,) = [each for each in newest(made.home / "audit", 100) if each.outcome == "denied"]
        assert (refused.agent, refused.agent_name, refused.judge) == ("agent-1", "writer", "person")
        assert refused.feedback == "not there"


async def test_a_yes_for_the_session_says_which_agent_asked_for_it(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="one", agent="writer"), say("Over.")],
        "one": [call("write_file", path="a.txt", content="a"), say(report())],
    }
    async with team(tmp_path, scripts) as made, made.engine(approve="careful", attended=True) as engine:

        def answer(event: Any) -> None:
            if isinstance(event, ApprovalAsked):
                event.reply.set_result(Decision("session"))

        engine.stream.subscribe(answer)
        await engine.run("Go.")
        assert [(each.agent, each.by) for each in await engine.approvals.grants()] == [
            ("writer (agent-1)", "person")
        ]
