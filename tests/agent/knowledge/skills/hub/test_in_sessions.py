"""Installed skills in whole sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.events import ToolFinished
from agent.knowledge.skills.hub.opening import SkillSources
from agent.knowledge.skills.hub.service import SkillHub
from tests.support.engines import bench
from tests.support.replies import by_step, call, say
from tests.support.skills import write_skill


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))


async def test_an_installed_skill_is_not_changed_by_the_agent_and_off_when_others_change_it(
    tmp_path: Path,
) -> None:
    change = {"action": "patch", "name": "greet", "old_string": "Say hello.", "new_string": "Say goodbye."}
    script = by_step(
        [
            call("skill_view", name="greet"),
            call("skill_manage", **change),
            call("skill_view", name="greet"),
            say("done"),
        ]
    )
    async with bench(tmp_path, script) as b:
        hub = SkillHub(Home(b.home), SkillSources(tmp_path))
        with hub.candidate(str(write_skill(tmp_path / "from", "greet", body="Say hello."))) as candidate:
            place = hub.installed.lock.place(hub.installed.install(candidate))
        b.config("approvals:\n  mode: yolo\n")
        await b.turn("go")
        first, changed, then = (json.loads(event.result) for event in b.seen(ToolFinished))
        assert first["content"] == then["content"] == "Say hello."
        assert changed["error"].startswith("greet was installed from elsewhere")
        assert "- greet:" in b.server.requests[0].body["messages"][0]["content"]
        file = place / "SKILL.md"
        file.write_text(file.read_text().replace("Say hello.", "Say goodbye."))
        await b.turn("again")
        assert "- greet:" not in b.server.requests[-1].body["messages"][0]["content"]
        seen = hub.audit()[0]
        hub.installed.approve(seen.row, seen.digest)
        await b.turn("once more")
        assert "- greet:" in b.server.requests[-1].body["messages"][0]["content"]
