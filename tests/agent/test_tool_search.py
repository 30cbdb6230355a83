"""Tools of many servers: little of them is in a request, all of them can be found and called."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.loader import load
from agent.core.home import Home
from agent.events import Noticed, PrefixBroken, ToolFinished, ToolStarted
from agent.integrations.mcp.catalog import merge_listing, save_catalog
from agent.integrations.mcp.server_config import declared_servers
from agent.model.protocol import ToolSpec
from agent.session.further_tools import divide_tools, size
from tests.support import plain_server
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, calls, say

SERVERS, TOOLS = 10, 50


def offer(server: int) -> list[dict[str, Any]]:
    """What one of many servers lists."""
    schema = {
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": "What it is about, by its address in the service."},
            "count": {"type": "integer", "description": "How many at most."},
        },
        "required": ["target"],
    }
    return [
        {
            "name": f"work_{number}",
            "description": f"Do work {number} of {server}. " * 8,
            "inputSchema": schema,
        }
        for number in range(TOOLS)
    ]


def many(at: Bench) -> None:
    """Settings with many servers whose offers are known, and one that runs."""
    config = {f"s{number}": {"command": "/nowhere/server"} for number in range(SERVERS)}
    running = {"command": sys.executable, "args": ["-IS", plain_server.__file__, "comes-and-goes"]}
    at.config(json.dumps({"mcp_servers": {**config, "box": {**running, "connect_timeout": 60}}}))
    home = Home(at.home)
    settings = load(home, {}, at.workspace).settings
    for number, server in enumerate(declared_servers(settings, home.servers, at.workspace).servers):
        if server.config.name != "box":
            save_catalog(
                home.servers, server.config, merge_listing(None, {"tools": offer(number)}, ["tools"])
            )


def names(body: dict[str, Any]) -> set[str]:
    """The tools that a request shows."""
    return {each["function"]["name"] for each in body.get("tools", ())}


def beginning(body: dict[str, Any]) -> str:
    """The part of a request that has to stay as it is."""
    return json.dumps([body["tools"], body["messages"][0]], ensure_ascii=False)


@pytest.mark.parametrize("turns", [9, pytest.param(50, marks=pytest.mark.thorough)])
async def test_500_tools_cost_little_and_the_prefix_stays_while_tools_come_and_go(
    tmp_path: Path, turns: int
) -> None:
    def script(request: Any) -> Reply:
        if request.messages[-1]["role"] == "tool" or not request.body.get("tools"):
            return say("done")
        turn = sum(message["role"] == "user" for message in request.messages)
        echo = {"name": "mcp__box__echo", "arguments": {"text": f"extra_{turn}"}}
        extra = {"name": f"mcp__box__extra_{turn - 1}"}
        gone = {"name": f"mcp__box__extra_{turn - 2}"}
        return calls(("tool_call", extra), ("tool_call", gone), ("tool_call", echo))

    async with bench(tmp_path, script) as at:
        at.config("{}")
        await at.turn("go")
        small = len(beginning(at.server.requests[0].body))
        many(at)
        (at.home / "permissions.yaml").write_text("rules:\n  mcp(box/extra_3): deny\n")
        at.events.clear()
        at.server.requests.clear()
        async with at.engine() as engine:
            for turn in range(1, turns + 1):
                ended = await engine.run(f"Message {turn}.")
                assert ended.outcome == "done", ended.error
                while f"extra_{turn}" not in next(
                    each.tools for each in (await engine.servers.states()) if each.name == "box"
                ):
                    await asyncio.sleep(0.001)
        bodies = [each.body for each in at.server.requests if each.body.get("tools")]
        assert len(bodies) == 2 * turns and len({beginning(body) for body in bodies}) == 1
        assert (len(beginning(bodies[0])) - small) / 4 <= 2_000
        shown = names(bodies[0])
        assert {"tool_search", "tool_call"} <= shown and not any(name.startswith("mcp__") for name in shown)

        ended = {each.call: each for each in at.seen(ToolFinished)}
        made = [(each.tool, ended[each.call]) for each in at.seen(ToolStarted)]
        of = {
            (tool, each.outcome): json.loads(each.result) for tool, each in made if tool != "mcp__box__echo"
        }
        assert of["mcp__box__extra_7", "done"] == {"content": "extra_7 did it"}
        assert "it has no tool 'extra_7' (any more)" in of["mcp__box__extra_7", "failed"]["error"]
        assert "mcp(box/extra_3)" in of["mcp__box__extra_3", "denied"]["error"]
        assert ("mcp__box__extra_3", "done") not in of
        assert "There is no tool named mcp__box__extra_0" in of["tool_call", "failed"]["error"]
        card = next(each for tool, each in made if tool == "mcp__box__echo")
        assert card.display.subject == "box/echo text=extra_1" and card.tool == "mcp__box__echo"


@pytest.mark.thorough
async def test_what_is_found_is_called_checked_and_refused_as_if_it_were_shown(tmp_path: Path) -> None:
    scripts = "from hermes_tools import tool_call\nprint(tool_call('mcp__box__echo', {'text': ''}))"
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tool_search", {"query": "mcp__s4__work_7", "limit": 2}),
        ("tool_search", {}),
        ("tool_search", {"query": "zebra"}),
        ("tool_call", {"name": "mcp__s4__work_7", "arguments": {"count": "many", "target": "x"}}),
        ("tool_call", {"name": "mcp__s4__work_7"}),
        ("tool_call", {"name": "terminal", "arguments": {"command": "true"}}),
        ("tool_call", {"name": "mcp__box__echo", "arguments": "["}),
        ("tool_call", {}),
        ("mcp__box__echo", {}),
        ("execute_code", {"code": scripts}),
        ("delegate_task", {"goal": "look", "toolsets": ["mcp__s4", "read_file"]}),
        ("delegate_task", {"goal": "look", "isolation": "readonly"}),
    ]

    def script(request: Any) -> Reply:
        if not request.body.get("tools") or "delegate_task" not in names(request.body):
            return say("Over.")
        return say("done") if request.messages[-1]["role"] == "tool" else calls(*asked)

    async with bench(tmp_path, script) as at:
        many(at)
        await at.turn("go")
        said = [each for each in at.server.requests[-1].body["messages"] if each["role"] == "tool"]
        found, all_of_them, none, wrong, missing, ours, no_object, nothing, direct, ran, *_ = (
            json.loads(each["content"]) for each in said
        )
        assert found["tools"][0]["name"] == "mcp__s4__work_7" and len(found["tools"]) == 2
        assert found["tools"][0]["parameters"]["required"] == ["target"]
        ours_found = all_of_them["total"] - SERVERS * TOOLS - 2
        assert all_of_them["tools_of"]["mcp__s9"] == TOOLS and all_of_them["tools_of"]["skills"] == 2
        assert ours_found == sum(n for each, n in all_of_them["tools_of"].items() if "mcp" not in each)
        assert none["tools"] == [] and "hint" in none
        assert "count" in wrong["error"] and missing["error"] == "Missing parameter target."
        assert ours["exit_code"] == 0
        assert "must be an object" in no_object["error"] and nothing["error"] == "Missing parameter name."
        assert direct == {"content": "echo did it"}
        assert "echo did it" in json.dumps(ran)
        assert "mcp__box__echo" in {each.tool for each in at.seen(ToolStarted) if each.parent}
        # An agent that is given a server is shown its tools; one that only reads finds what only reads.
        sent = [names(each.body) for each in at.server.requests]
        reading, given = sorted((each for each in sent if each and "delegate_task" not in each), key=len)
        assert {name for name in given if name.startswith("mcp__")} == {
            f"mcp__s4__work_{number}" for number in range(TOOLS)
        }
        assert not {"tool_search", "tool_call"} & given and "read_file" in given & reading
        assert {"tool_search", "tool_call"} <= reading and not {"terminal", "write_file"} & reading


@pytest.mark.parametrize(
    ("window", "characters", "searched"),
    [
        (None, 40_000, False),
        (None, 40_001, True),
        (200_000, 40_001, True),
        (50_000, 20_000, False),
        (50_000, 20_001, True),
    ],
)
def test_tools_are_shown_up_to_a_tenth_of_the_window(
    window: int | None, characters: int, searched: bool
) -> None:
    def spec(name: str, length: int = 0) -> ToolSpec:
        empty = ToolSpec(name, "", {})
        return ToolSpec(name, "x" * (length - size(empty)), {})

    core = [spec("terminal", 90_000), spec("tool_search"), spec("tool_call")]
    further = [spec("mcp__a__b", characters // 2), spec("shout", characters - characters // 2)]
    brought, direct = {"mcp__a__b", "shout", "other"}, {"terminal"}
    found = divide_tools([*core, *further], direct, brought, window)
    assert found.direct == tuple(core if searched else [*core, *further])
    assert found.searched == (tuple(further) if searched else ())
    # Where the settings take the search away, all are shown.
    assert divide_tools([core[0], *further], direct, brought, window).direct == (core[0], *further)


async def test_a_session_that_is_taken_up_again_keeps_its_tools_while_servers_come_and_go(
    tmp_path: Path,
) -> None:
    """Offers are as they were kept; nothing is started."""
    first, second = offer(1)[:2], offer(2)[:2]
    offers = [{"a": first}, {"a": first, "b": second}, {"a": first[:1], "b": second}, {"b": second}]
    async with bench(tmp_path, lambda _request: say("done")) as at:
        for turn, known in enumerate(offers):
            at.config(json.dumps({"mcp_servers": {name: {"command": "/nowhere/server"} for name in known}}))
            home = Home(at.home)
            settings = load(home, {}, at.workspace).settings
            for server in declared_servers(settings, home.servers, at.workspace).servers:
                save_catalog(
                    home.servers,
                    server.config,
                    merge_listing(None, {"tools": known[server.config.name]}, ["tools"]),
                )
            at.events.clear()
            await at.turn("go", resume_last=turn > 0)
            said = " ".join(each.text for each in at.seen(Noticed))
            body, before = at.server.requests[-1].body, at.server.requests[0].body
            if turn < 3:
                assert beginning(body) == beginning(before) and not at.seen(PrefixBroken)
                assert "mcp__a__work_1" in names(body) and "mcp__b__work_0" not in names(body)
                assert ("2 new ones" in said, "1 cannot be called" in said) == (turn > 0, turn == 2)
            else:  # its server is not there any more
                assert at.seen(PrefixBroken) and not any(name.startswith("mcp__") for name in names(body))
