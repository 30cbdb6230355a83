"""The tools `rl_…` in a session: environments, configuration, runs that start, end, stop and continue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.automation.training_runs.service import (
    TrainingConfiguration,
    TrainingRun,
    all_runs,
    edit_configuration,
)
from agent.errors import ConfigError
from agent.events import ToolFinished, TurnEnded
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, call, say

TASKS = [{"id": "france", "prompt": "Capital of France?", "checks": [{"contains": "Paris"}]}]
CONFIG = "tools: {enabled: [rl]}\nagent: {max_turns: 30}\n"


class Script:
    """The session calls the tools in order; rollouts know the answer if they are asked to look first."""

    def __init__(self, *steps: tuple[str, dict[str, Any]]) -> None:
        self.steps = list(steps)
        self.offered: set[str] = set()
        self.held = False

    def __call__(self, request: Any) -> Reply:
        texts = [str(each["content"]) for each in request.body["messages"] if each["role"] == "user"]
        if any("France" in text for text in texts):
            if self.held:
                return say("Lyon", until=lambda: not self.held)
            return say("It is Paris." if "Look first" in texts[-1] else "It is Lyon.")
        self.offered = {each["function"]["name"] for each in request.body.get("tools", ())}
        return call(self.steps[0][0], **self.steps.pop(0)[1]) if self.steps else say("Done.")


def results(at: Bench) -> list[dict[str, Any]]:
    """What the calls of the session came to."""
    return [json.loads(each.result) for each in at.seen(ToolFinished)]


async def until(true: Callable[[], object]) -> None:
    """Wait until it is so; the time limit of the test ends a wait in vain."""
    while not true():
        await asyncio.sleep(0.02)


async def one(at: Bench, script: Script, tool: str, **arguments: Any) -> dict[str, Any]:
    """Carry out one call in a session of its own."""
    script.steps.append((tool, arguments))
    ended: TurnEnded = await at.turn("Go on.")
    assert ended.outcome == "done", ended.error
    return results(at)[-1]


@pytest.mark.thorough
async def test_a_session_configures_starts_follows_and_reads_a_training(tmp_path: Path) -> None:
    script = Script()
    async with bench(tmp_path, script) as at:
        at.config(CONFIG)
        (at.workspace / "tasks.jsonl").write_text("\n".join(json.dumps(each) for each in TASKS))
        script.steps = [
            ("rl_list_environments", {}),
            ("rl_start_training", {}),
            ("rl_select_environment", {"name": "tasks.jsonl"}),
            ("rl_edit_config", {"field": "prompts", "value": ["Answer at once.", "Look first."]}),
            ("rl_edit_config", {"field": "steps", "value": 3}),
            ("rl_get_current_config", {}),
            ("rl_test_inference", {"num_steps": 1, "group_size": 2}),
        ]
        assert (await at.turn("Go on.")).outcome == "done"
        listed, unselected, chosen, _, edited_last, shown, tested = results(at)
        assert {each["name"]: each["tasks"] for each in listed["environments"]}["edits"] == 34
        assert "No environment" in unselected["error"]
        assert chosen["tasks"] == 1 and chosen["first"] == ["france"]
        assert edited_last["configuration"]["prompts"] == ["Answer at once.", "Look first."]
        assert shown["configuration"]["steps"] == 3 and "extra" in shown["trainers"]["tinker"]
        assert shown["model"].endswith("scripted")
        assert tested["groups"][0]["scores"] == [0.0, 0.0] and tested["groups_whose_scores_differ"] == 0
        run = (await one(at, script, "rl_start_training"))["run"]
        found = TrainingRun(at.home / "training" / run)
        await until(lambda: found.record()["state"] != "running")
        told = await one(at, script, "rl_check_status", run_id=run)
        assert (told["state"], told["steps"]) == ("done", 3), found.log_tail()
        ended = await one(at, script, "rl_get_results", run_id=run)
        assert ended["result"]["best"] == "Look first." and len(ended["steps"]) == 3
        assert [each["run"] for each in (await one(at, script, "rl_list_runs"))["runs"]] == [run]
        assert "is not running" in (await one(at, script, "rl_stop_training", run_id=run))["error"]


@pytest.mark.thorough
async def test_a_training_that_is_stopped_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    script = Script()
    async with bench(tmp_path, script) as at:
        at.config(CONFIG)
        (at.workspace / "tasks.jsonl").write_text(json.dumps(TASKS[0]))
        script.steps = [("rl_select_environment", {"name": "tasks.jsonl"})]
        fields = (("steps", 2), ("group", 2), ("jobs", 2))
        script.steps += [("rl_edit_config", {"field": name, "value": value}) for name, value in fields]
        await at.turn("Go on.")
        script.held = True
        before = len(at.server.requests)
        run = (await one(at, script, "rl_start_training"))["run"]
        await until(lambda: len(at.server.requests) >= before + 3)
        assert "is running" in (await one(at, script, "rl_start_training", run_id=run))["error"]
        stopped = await one(at, script, "rl_stop_training", run_id=run)
        assert stopped["state"] == "stopped"
        script.held = False
        await one(at, script, "rl_start_training", run_id=run)
        found = all_runs(at.home / "training")[0]
        await until(lambda: found.record()["state"] == "done")
        assert len(found.steps()) == 2


@pytest.mark.thorough
async def test_a_training_asks_first_and_is_offered_where_it_can_work_alone(tmp_path: Path) -> None:
    script = Script(("rl_select_environment", {"name": "tools"}), ("rl_start_training", {}))
    async with bench(tmp_path, script) as at:
        at.config(CONFIG)
        await at.turn("Go on.", approve="deny")
        assert len([name for name in script.offered if name.startswith("rl_")]) == 10
        assert results(at)[-1]["error"].startswith("Denied")
        assert not all_runs(at.home / "training")
        await at.turn("Go on.", surface="batch")
        assert not script.offered


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("approve", "yolo", "no field"),
        ("steps", 0, "from 1"),
        ("steps", True, "number"),
        ("steps", 1.5, "number"),
        ("group", 99_999_999_999, "group is a number from 1 to 64"),
        ("jobs", 9_999_999, "jobs is a number from 1 to 16"),
        ("rate", float("nan"), "rate is a number from 0.001 to 100"),
        ("trainer", "magic", "one of"),
        ("prompts", ["one"], "2 to"),
        ("prompts", "ab", "2 to"),
        ("prompts", ["a", 3], "2 to"),
        ("base_model", 7, "text"),
    ],
)
def test_wrong_values_name_the_field_and_what_it_takes(field: str, value: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        edit_configuration(TrainingConfiguration(), field, value)
