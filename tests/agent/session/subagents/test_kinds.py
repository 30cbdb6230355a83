"""Agents of a kind of their own, and agents that ask other models: through the whole engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.config import trust
from agent.core.home import Home
from agent.events import AgentEnded, Noticed, ToolFinished
from tests.agent.session.subagents.test_delegation import results, team
from tests.support.engines import Bench
from tests.support.model_server import ModelServer, call, say
from tests.support.replies import Reply
from tests.support.team import by_task, report, task_of

LOOKER = """\
---
description: Looks at things.
tools: [file]
isolation: readonly
budget: {turns: 5}
---
You are the looker.
"""


def define(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def tools_of(request: Any) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


def first_words(made: Bench, goal: str) -> str:
    request = next(each for each in made.server.requests if task_of(each) == goal)
    return next(str(message["content"]) for message in request.messages if message["role"] == "user")


def kinds_told(request: Any) -> str:
    tool = next(each for each in request.body["tools"] if each["function"]["name"] == "delegate_task")
    return tool["function"]["parameters"]["properties"]["agent"]["description"]


async def test_a_definition_brings_its_instructions_tools_and_isolation(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="look", agent="looker", isolation="shared"), say("Over.")],
        "look": [call("write_file", path="a.txt", content="a"), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        define(made.home / "agents", "looker", LOOKER)
        await made.turn("Go.")
        assert first_words(made, "look").startswith("You are the looker.\n\nYour task: look")
        offered = next(tools_of(each) for each in made.server.requests if task_of(each) == "look")
        assert {"read_file", "search"} <= offered
        assert not offered & {"write_file", "patch", "terminal", "delegate_task"}
        assert not (made.workspace / "a.txt").exists()
        told = kinds_told(made.server.requests[0])
        assert "\n- looker: Looks at things." in told and "\n- reviewer: " in told


async def test_a_name_without_a_definition_is_just_a_name(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="look", agent="callers"), say("Over.")],
        "look": [say(report())],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        assert results(made)[0]["outcome"] == "completed"
        assert first_words(made, "look").startswith("Your task: look")


@pytest.mark.thorough
async def test_definitions_are_read_anew_while_the_prompt_stays_as_it_was(tmp_path: Path) -> None:
    def write_definition(_request: Any) -> Reply:
        return call("delegate_task", goal="look", agent="late")

    steps = [write_definition, say("One."), call("delegate_task", goal="look", agent="late"), say("Two.")]
    scripts = {"main": steps, "look": [say(report()), say(report())]}
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        await engine.run("Go.")
        define(made.home / "agents", "late", LOOKER)
        await engine.run("Go again.")
        mains = [each for each in made.server.requests if task_of(each) == "main"]
        assert len({json.dumps(each.body["tools"]) for each in mains}) == 1
        first, second = (each for each in made.server.requests if task_of(each) == "look")
        assert "You are the looker." not in str(first.messages[1])
        assert "You are the looker." in str(second.messages[1])


async def test_a_broken_definition_is_refused_with_its_fault_and_nothing_is_sent(tmp_path: Path) -> None:
    scripts = {"main": [call("delegate_task", goal="look", agent="reviewer"), say("Over.")]}
    async with team(tmp_path, scripts) as made:
        define(made.home / "agents", "reviewer", LOOKER.replace("readonly", "readonyl"))
        await made.turn("Go.")
        (result,) = results(made)
        assert "The agent reviewer cannot be sent. agents/reviewer.md line 4" in result["error"]
        assert made.seen(AgentEnded) == []
        assert any("agents/reviewer.md" in event.text for event in made.seen(Noticed))


@pytest.mark.thorough
async def test_a_call_can_narrow_a_definition_and_not_leave_it(tmp_path: Path) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="look", agent="looker", toolsets=["terminal"]),
            call("delegate_task", goal="look", agent="looker", toolsets=["read_file", "terminal"]),
            say("Over."),
        ],
        "look": [say(report())],
    }
    async with team(tmp_path, scripts) as made:
        define(made.home / "agents", "looker", LOOKER)
        await made.turn("Go.")
        refused, done = results(made)
        assert refused["error"].startswith("The agent looker may use file; nothing of that is in terminal.")
        assert done["outcome"] == "completed"
        offered = next(tools_of(each) for each in made.server.requests if task_of(each) == "look")
        assert offered == {"read_file", "todo_write", "todo_read"}


@pytest.mark.thorough
async def test_an_agent_with_few_tools_sends_none_with_more(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="middle", toolsets=["delegate", "read_file"]), say("Over.")],
        "middle": [
            call("delegate_task", goal="leaf"),
            call("delegate_task", goal="leaf", toolsets=["terminal", "read_file"]),
            say(report()),
        ],
        "leaf": [say(report())],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        leaves = [tools_of(each) for each in made.server.requests if task_of(each) == "leaf"]
        assert len(leaves) == 2
        assert all("read_file" in each and "terminal" not in each for each in leaves)


@pytest.mark.thorough
async def test_those_of_a_project_wait_for_trust_and_the_person_is_told(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="look", agent="looker"), say("Over.")] * 2,
        "look": [say(report())] * 2,
    }
    async with team(tmp_path, scripts) as made:
        define(made.workspace / ".hermes" / "agents", "looker", LOOKER)
        await made.turn("Go.")
        assert not first_words(made, "look").startswith("You are the looker.")
        assert "looker" not in kinds_told(made.server.requests[0])
        assert any("brings agents of its own, which were not read" in e.text for e in made.seen(Noticed))
        made.server.requests.clear()
        project = trust.read_project(Home(made.home), made.workspace)
        assert project is not None
        trust.trust(Home(made.home), project)
        await made.turn("Go.")
        assert first_words(made, "look").startswith("You are the looker.")


OTHER = """\
providers:
  lab:
    base_url: {url}
    api_key_env: LAB_KEY
    models:
      big: {{context_window: 50000, input_price: 1.0, output_price: 2.0, cached_price: 0.1}}
"""


@pytest.mark.thorough
async def test_an_agent_asks_the_model_of_its_definition_and_pays_its_price(tmp_path: Path) -> None:
    scripts = {"main": [call("delegate_task", goal="look", agent="far"), say("Over.")]}
    answers = by_task({"look": [say(report("From afar."))]})
    async with ModelServer(answers) as lab, team(tmp_path, scripts) as made:
        made.config(OTHER.format(url=lab.base_url))
        made.environ["LAB_KEY"] = "key-of-the-lab"
        define(made.home / "agents", "far", "---\ndescription: x\nmodel: lab/big\n---\nDo it.\n")
        await made.turn("Go.")
        (result,) = results(made)
        (one,) = result["results"]
        assert (one["outcome"], one["summary"]) == ("completed", "From afar.")
        (request,) = lab.requests
        assert request.body["model"] == "big"
        usage = made.seen(AgentEnded)[0]
        assert usage.cost is not None and usage.cost > 0
        assert not [each for each in made.server.requests if task_of(each) == "look"]


@pytest.mark.thorough
async def test_an_unknown_model_is_told_with_what_there_is_and_nothing_is_sent(tmp_path: Path) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="look", model="lab/big"),
            call("delegate_task", goal="look", model="demo"),
            say("Over."),
        ]
    }
    async with team(tmp_path, scripts) as made:
        made.config(OTHER.format(url="http://192.0.2.1/v1"))
        await made.turn("Go.")
        unknown, demo = results(made)
        assert "needs a key; put it into LAB_KEY" in unknown["error"]
        assert "Models here: custom/scripted" in unknown["error"]
        assert "The demo model answers no agents." in demo["error"]
        assert made.seen(AgentEnded) == []


async def test_a_definition_fixes_its_model(tmp_path: Path) -> None:
    scripts = {"main": [call("delegate_task", goal="look", agent="far", model="scripted"), say("Over.")]}
    async with team(tmp_path, scripts) as made:
        define(made.home / "agents", "far", "---\ndescription: x\nmodel: lab/big\n---\nDo it.\n")
        await made.turn("Go.")
        assert results(made)[0]["error"] == "The agent far works with lab/big; leave `model` out."
        assert len(made.seen(ToolFinished)) == 1
