"""Tools that requests do not show: what is sent, and that each is in reach with at most one further call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.schema import ToolSettings
from agent.events import ToolStarted
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, calls, say

DIRECT = set(ToolSettings.model_fields["direct"].default)
WORDS = {
    "canvas": "draw a plot beside the conversation",
    "checkpoint": "what changed since a place",
    "cronjob": "scheduel a reminder",
    "memory": "remember a preference",
    "recall_folded": "get back a compacted message",
    "save_learning": "note what failed and what worked",
    "search_learnings": "look up earlier failures",
    "session_search": "earlier sessions",
    "skill_manage": "write a new skill",
    "skills_list": "list skills",
    "subagents": "stop an agent that was sent",
    "text_to_speech": "read text aloud",
    "todo_read": "todo list",
    "vision_analyze": "look at a picture",
    "web_crawl": "fetch all pages of a site",
    "web_extract": "read a web page",
}
"""What a model might search for, by the tool it needs."""


def names(body: dict[str, Any]) -> set[str]:
    """The tools that a request shows."""
    return {each["function"]["name"] for each in body.get("tools", ())}


def results(at: Bench) -> list[dict[str, Any]]:
    """The results of tools in the last request."""
    said = at.server.requests[-1].body["messages"]
    return [json.loads(each["content"]) for each in said if each["role"] == "tool"]


async def run(at: Bench, *asked: tuple[str, dict[str, Any]], **settings: Any) -> list[dict[str, Any]]:
    """Make these calls, each in a message of its own, and return their results."""
    waiting = list(asked)

    def script(request: Any) -> Reply:
        tools = request.body.get("tools")
        return calls(waiting.pop(0)) if waiting and tools else say("done")

    at.server.script = script
    await at.turn("go", **settings)
    return results(at)


async def test_hi_costs_at_most_3800_tokens_and_shows_the_usual_tools(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hello.")) as at:
        async with at.engine() as engine:
            table = await engine.context()
            await engine.run("hi")
        body = at.server.requests[0].body
        assert names(body) == DIRECT
        shown = json.dumps(body["tools"], ensure_ascii=False, separators=(",", ":"))
        assert len(shown.encode()) <= 9_000
        assert len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()) / 4 <= 3_800
        skills = next(each for each in table.layers if each.name == "Skills")
        assert 300 < skills.tokens <= 600 and not skills.notes
        assert table.searched is not None and table.searched.count == len(WORDS)
        search = next(each for each in body["tools"] if each["function"]["name"] == "tool_search")
        assert all(name in search["function"]["description"] for name in WORDS)


async def test_each_tool_that_is_not_shown_is_found_by_words_and_runs_by_its_own_name(tmp_path: Path) -> None:
    searches = [("tool_search", {"query": words}) for words in WORDS.values()]
    async with bench(tmp_path, []) as at:
        found = await run(at, *searches)
        for (name, words), result in zip(WORDS.items(), found, strict=True):
            offered = {each["name"]: each for each in result["tools"]}
            assert name in offered, (name, words, list(offered))
            assert offered[name]["description"] and offered[name]["parameters"]["type"] == "object"
        at.events.clear()
        # Wrong on purpose: what is refused for its arguments was reached.
        wrong = {"no_such_parameter_of_any_tool": []}
        await run(at, *[("tool_call", {"name": name, "arguments": wrong}) for name in WORDS])
        await run(at, *[(name, wrong) for name in WORDS])
        made = [each.tool for each in at.seen(ToolStarted)]
        assert made == [*WORDS, *WORDS]
        assert not any("There is no tool" in json.dumps(each) for each in results(at))


async def test_a_wrong_call_of_a_tool_that_was_not_shown_is_answered_with_its_parameters(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, []) as at:
        blind, shown, right, none = await run(
            at,
            ("session_search", {"limit": "many"}),
            ("read_file", {}),
            ("tool_call", {"name": "todo_read"}),
            ("browser_click", {"ref": "e1"}),
        )
        assert blind["error"] and "query" in blind["parameters"]["properties"]
        assert shown["error"] and "parameters" not in shown
        assert "error" not in right and "There is no tool named browser_click" in none["error"]


@pytest.mark.parametrize("named", ["enabled", "direct"])
async def test_tools_that_are_named_are_shown_and_the_others_are_still_found(
    tmp_path: Path, named: str
) -> None:
    tools = (
        {"enabled": ["default", "memory"]}
        if named == "enabled"
        else {"direct": ["memory", "tool_search", "tool_call"]}
    )
    async with bench(tmp_path, []) as at:
        at.config(json.dumps({"tools": tools}))
        (found,) = await run(at, ("tool_search", {"query": "memory"}))
        shown = names(at.server.requests[0].body)
        usual = DIRECT if named == "enabled" else {"tool_search", "tool_call"}
        assert shown == usual | {"memory"}
        assert "memory" not in {each["name"] for each in found["tools"]}


async def test_a_toolset_alone_needs_no_search(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as at:
        at.config(json.dumps({"tools": {"enabled": ["file", "memory"]}}))
        assert "There is no tool named todo_read" in (await run(at, ("todo_read", {})))[0]["error"]
        shown = {"read_file", "write_file", "patch", "search", "memory"}
        assert names(at.server.requests[0].body) == shown


async def test_an_agent_that_only_looks_finds_and_reaches_only_what_looks(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        said = request.messages
        if "delegate_task" in names(request.body):
            task = ("delegate_task", {"goal": "look", "isolation": "readonly"})
            return say("done") if said[-1]["role"] == "tool" else calls(task)
        if said[-1]["role"] == "tool":
            return say("Seen.")
        asked = [("cronjob", {"action": "list"}), ("skill_manage", {}), ("session_search", {"query": "x"})]
        return calls(("tool_search", {"query": "skill_manage"}), *asked)

    async with bench(tmp_path, script) as at:
        await at.turn("go")
        inner = next(
            each.body
            for each in at.server.requests
            if "delegate_task" not in names(each.body) and each.messages[-1]["role"] == "tool"
        )
        found, cron, skill, search = (
            json.loads(each["content"]) for each in inner["messages"] if each["role"] == "tool"
        )
        assert "skill_manage" not in {each["name"] for each in found["tools"]}
        assert "There is no tool" in cron["error"] and "There is no tool" in skill["error"]
        assert "error" not in search


async def test_a_session_of_an_earlier_version_keeps_the_tools_it_showed(tmp_path: Path) -> None:
    """One opened with everything shown continues like that, and one opened now keeps its own list."""
    async with bench(tmp_path, lambda _request: say("done")) as at:
        at.config(json.dumps({"tools": {"direct": ["all"]}}))
        await at.turn("go")
        every = names(at.server.requests[-1].body)
        at.config("{}")
        await at.turn("go", resume_last=True)
        assert names(at.server.requests[-1].body) >= every - {"tool_search", "tool_call"} >= set(WORDS)
        await at.turn("again")
        assert names(at.server.requests[-1].body) == DIRECT
