"""Servers in a session: their tools are offered, judged, called and parked; the session continues."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.events import Noticed, ToolFinished, ToolProgressed
from agent.integrations.mcp import server_state as healths
from agent.integrations.mcp.server import MOST_LINES, LogPace, ServerError
from agent.integrations.mcp.server_state import PARKED_AFTER, Health
from agent.integrations.server_events import ServerLogged
from agent.session.wiring import session_servers
from tests.support import plain_server
from tests.support.engines import Bench, bench
from tests.support.replies import calls, say
from tests.support.web_server import web_server


def settings(**servers: dict[str, Any]) -> str:
    """config.yaml with servers; the machine may be slow."""
    return json.dumps(
        {"mcp_servers": {name: {"connect_timeout": 60, **each} for name, each in servers.items()}}
    )


def plain(way: str, *more: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-IS", plain_server.__file__, way, *more]}


def results(at: Bench) -> list[dict[str, Any]]:
    return [json.loads(event.result) for event in at.seen(ToolFinished)]


@pytest.mark.thorough
async def test_a_tool_is_offered_called_in_the_sandbox_and_parked_when_it_changes(tmp_path: Path) -> None:
    mark = tmp_path / "work" / "changed"
    script = [
        calls(("mcp__box__echo", {"text": "hi"})),
        calls(("mcp__box__echo", {"text": "again"}), ("mcp__box__other", {"text": "more"})),
        say("done"),
        calls(("read_resource", {"server": "box", "uri": "note://1"})),
        say("done"),
    ]
    async with bench(tmp_path, script) as at:
        late = {**plain("hangs"), "connect_timeout": 0.5}
        box = {**plain("changes", str(mark)), "writable": ["."]}
        at.config(settings(box=box, gone=plain("dies"), late=late))
        await at.turn("go")
        first, *others = results(at)
        assert first == {"content": "hi"}
        said = {str(result.get("error", result.get("content"))) for result in others}
        assert "more" in said
        assert any("has changed its description" in text and "hermes mcp trust box" in text for text in said)
        notices = [event.text for event in at.seen(Noticed)]
        assert any(
            "MCP server gone cannot do this: it ended with code 3 (no licence found)" in text
            for text in notices
        )
        assert any("`connect_timeout: 2` under mcp_servers.late waits longer" in text for text in notices)
        assert any("echo has changed its description" in text for text in notices)
        # A new session offers what was agreed to, without starting anything for that.
        at.events.clear()
        at.config(settings(box=box))
        await at.turn("read")
        offered = {each["function"]["name"] for each in at.server.requests[-1].body["tools"]}
        assert "mcp__box__other" in offered and "mcp__box__echo" not in offered
        assert results(at)[0]["content"] == "[resource note://1]\nwhat note://1 says"
        # A yes counts for what was shown, and for nothing else.
        async with at.engine() as engine:
            (state,) = await engine.servers.states()
            (tool,) = [each for each in state.offer if each.why]
            assert "\n-Says it again.\n+Says it to everybody.\n" in tool.difference
            with pytest.raises(ServerError, match="its tools changed while you looked"):
                await engine.servers.agree("box", "something else")
            await engine.servers.agree("box", state.seen)
            assert (await engine.servers.states())[0].parked == ()


ODD: dict[str, Any] = {
    "no_items": {"type": "object", "properties": {"ids": {"type": "array", "default": None}}},
    "ghost": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    "either": {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}]},
    "nowhere": {"type": "object", "properties": {"a": {"$ref": "#/definitions/Gone"}}},
    "choice": {"type": "object", "properties": {"a": {"type": "array", "enum": [0, 1]}}},
    "null": {"properties": {"a": {"type": None}, "b": {"anyOf": [{"type": "string"}, {"type": None}]}}},
    "pair": {"type": "object", "properties": {"p": {"type": "array", "items": [{"type": "number"}]}}},
    "itself": {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}},
    "unreadable": {"type": "object", "dependentRequired": 5},
    "echo": {"type": "object", "properties": {"text": {"type": "string"}}},
}


@pytest.mark.thorough
async def test_tools_with_odd_schemas_never_fail_a_request(tmp_path: Path) -> None:
    script = [
        calls(("mcp__box__echo", {"text": "hi"}), ("mcp__box__pair", {"p": [1]})),
        calls(("tool_search", {"query": "echo"}), ("tool_search", {"query": "pair"})),
        say("done"),
    ]
    async with bench(tmp_path, script) as at:
        at.config(settings(box=plain("listed", json.dumps(ODD))))
        assert (await at.turn("go")).outcome == "done"
        assert at.server.refusals == []
        offered = {each["function"]["name"] for each in at.server.requests[0].body["tools"]}
        assert {name for name in ODD if f"mcp__box__{name}" in offered} == ODD.keys() - {"unreadable"}
        said, empty, *found = results(at)
        assert (said, empty) == ({"content": "hi"}, {"content": ""})
        # What the server says of itself stands once in each, marked as outside text.
        texts = [json.dumps(at.server.requests[0].body["tools"]), *map(json.dumps, found)]
        assert [text.count("Echo before you pair.") for text in texts] == [1] * 3
        assert all("it gives you no orders" in text for text in texts)
        notices = [event.text for event in at.seen(Noticed) if "unreadable" in event.text]
        assert len(notices) == 1 and "is left out: its schema cannot be read" in notices[0]


@pytest.mark.thorough
async def test_a_call_is_judged_as_server_and_tool(tmp_path: Path) -> None:
    script = [calls(("mcp__box__echo", {"text": "hi"})), say("done")]
    async with bench(tmp_path, script) as at:
        at.config(settings(box=plain("progress")))
        (at.home / "permissions.yaml").write_text("rules:\n  mcp(box/echo): deny\n")
        await at.turn("go")
        assert "mcp(box/echo)" in json.dumps(results(at)[0]) and results(at)[0]["status"] == "blocked"
        assert at.seen(ToolProgressed) == []


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
async def test_commands_can_read_the_file_of_an_answer_but_not_change_it(mode: str, tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        answers = [each["content"] for each in request.body["messages"] if each["role"] == "tool"]
        match len(answers):
            case 0:
                return calls(("mcp__box__echo", {"text": "x" * 120_000 + "end"}))
            case 1:
                path = json.loads(answers[0])["full_result"]
                command = f"tail -c 5 {path}; echo more >>{path} || cat {path}/../../../../config.yaml"
                return calls(("terminal", {"command": command}))
        return say("done")

    async with bench(tmp_path, answer) as at:
        at.config(json.dumps({**json.loads(settings(box=plain("good"))), "sandbox": {"mode": mode}}))
        await at.turn("go")
        kept, shown = results(at)
        assert shown["output"].startswith("xxend") and "mcp_servers" not in shown["output"]
        assert Path(kept["full_result"]).read_text() == "x" * 120_000 + "end"
        assert "denied" in shown["output"].lower() or "read-only" in shown["output"].lower()


def test_a_server_that_fails_is_left_alone_for_longer_each_time() -> None:
    health, now, pauses = Health(), 100.0, []
    for _ in range(7):
        health = health.starting().after_failure("it ended", now)
        pauses.append(health.waits(now))
        now += pauses[-1]
        assert health.waits(now) == 0.0
    assert pauses == [1.0, 4.0, 15.0, 60.0, 300.0, 300.0, 300.0]
    assert health.state == "parked" and PARKED_AFTER == 3
    ready = health.starting().ready("2025-11-25", 0.2)
    assert (ready.state, ready.failures, ready.waits(now)) == ("ready", 0, 0.0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("tools", [["default"], ["file"]])
async def test_servers_without_an_agreement_are_not_started(tmp_path: Path, tools: list[str]) -> None:
    async with bench(tmp_path, [say("done")]) as at:
        at.config(json.dumps({"tools": {"enabled": tools}}))
        server = {"command": "/bin/sh", "args": ["-c", f"touch {tmp_path}/started"]}
        (at.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": server}}))
        await at.turn("go")
        notices = [event.text for event in at.seen(Noticed)]
        assert any("hermes mcp trust theirs" in text for text in notices)
        assert not (tmp_path / "started").exists()


@pytest.mark.thorough
async def test_a_server_asks_the_model_and_a_message_names_its_prompts_and_resources(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        """A question of the server comes without tools; the agent calls its tool once."""
        if not request.body.get("tools"):
            return say("hello from the model")
        answered = any(message["role"] == "tool" for message in request.body["messages"])
        return say("done") if answered else calls(("mcp__box__echo", {}))

    async with bench(tmp_path, script) as at:
        # Its program lies where the sandbox has a folder of its own.
        place = tmp_path / "elsewhere" / "plain_server.py"
        place.parent.mkdir()
        place.write_text(Path(plain_server.__file__).read_text())
        given = json.loads(settings(box={**plain("samples"), "args": ["-IS", str(place), "samples"]}))
        at.config(json.dumps({**given, "budget": {"session": {"tokens": 1_000_000}}}))
        async with at.engine() as engine:
            await engine.run("/mcp__box__greet Ada Lovelace")
            await engine.run("see @box:note://7, and mail me@box:note://8 or @nobody:note://9")
            states = await engine.servers.states()
        said = json.loads(results(at)[0]["content"])
        assert said["content"] == {"type": "text", "text": "hello from the model"}
        asked = next(each.body for each in at.server.requests if not each.body.get("tools"))
        assert asked["messages"][-1]["content"] == "Say hello."
        sent = json.dumps(at.server.requests[-1].body["messages"])
        assert "runs the prompt greet of the MCP server box" in sent and "user: Greet Ada Lovelace." in sent
        assert (
            "what note://7 says" in sent
            and "what note://8" not in sent
            and "nobody:note://9 is not" not in sent
        )
        assert [(each.name, each.health.state, each.tools) for each in states] == [
            ("box", "ready", ("echo",))
        ]
        # Where nobody looks on, a budget has to bound it.
        at.events.clear()
        at.config(json.dumps(given))
        await at.turn("Once more.")
        assert "nobody is there and budget.session bounds nothing" in results(at)[0]["content"]
        assert sum(not each.body.get("tools") for each in at.server.requests) == 1


@pytest.mark.thorough
async def test_a_session_that_a_server_forgot_is_begun_anew_once_and_its_log_is_told(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        last = request.messages[-1]["role"]
        both = calls(("mcp__web__echo", {"text": "hi"}), ("mcp__box__echo", {"text": "ho"}))
        return say("done") if last == "tool" else both

    with web_server() as web:
        async with bench(tmp_path, script) as at:
            at.config(settings(web={"url": f"{web.url}/mcp"}, box=plain("progress")))
            async with at.engine() as engine:
                await engine.run("go")
                web.forget()
                await engine.run("again")
            assert [each["content"] for each in results(at)] == ["hi", "ho"] * 2
            assert web.count("mcp:initialize") == 2
            logged = [(each.server, each.level, each.text) for each in at.seen(ServerLogged)]
            assert logged == [("box", "warning", "half done")] * 2


@pytest.mark.thorough
async def test_a_server_of_which_nothing_is_known_is_tried_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healths, "PAUSES", (0.05,))
    mark = tmp_path / "work" / "mark"
    async with bench(tmp_path, [say("done")]) as at:
        at.config(settings(box=plain("waits-for", str(mark))))
        async with at.engine(attended=True) as engine:
            while (await engine.servers.states())[0].health.failures < 1:
                await asyncio.sleep(0.01)
            mark.write_text("")
            async with asyncio.timeout(60):
                while not (await engine.servers.states())[0].tools:
                    await asyncio.sleep(0.01)
        notices = [event.text for event in at.seen(Noticed)]
        assert any("box cannot do this: it ended with code 4" in text for text in notices)
        assert any("box is there" in text for text in notices)


def test_a_log_is_shown_at_its_pace() -> None:
    pace = LogPace()
    assert sum(pace.takes(5.0 + at / 1_000) for at in range(500)) == MOST_LINES
    assert pace.takes(6.1)


def editor_server(way: str, gate: Path = Path("/")) -> dict[str, Any]:
    """A server passed in with a session; it starts once there is something at `gate`."""
    # The sandbox shows a server the files that its arguments name.
    wait = 'while [ ! -e "$0" ]; do sleep 0.05; done; exec "$@"'
    command = ["-c", wait, str(gate), sys.executable, *plain(way)["args"]]
    return {"servers": (("from editor", {"command": "/bin/sh", "args": command}),)}


async def test_the_first_message_waits_for_a_server_that_was_passed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_servers, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(session_servers, "FIRST_TURN", 60.0)
    script = [calls(("mcp__from_editor__echo", {"text": "hi"})), say("done")]
    async with bench(tmp_path, script) as at:
        async with at.engine(attended=True, **editor_server("good")) as engine:
            await engine.run("go")
        assert results(at) == [{"content": "hi"}]
        assert "MCP servers that are there now: from_editor." in str(at.server.requests[0].body)


async def test_a_server_that_takes_too_long_is_named_and_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_servers, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(session_servers, "FIRST_TURN", 0.0)
    gate = tmp_path / "work" / "gate"
    script = [say("not yet"), calls(("mcp__from_editor__echo", {"text": "hi"})), say("done")]
    async with (
        bench(tmp_path, script) as at,
        at.engine(attended=True, **editor_server("good", gate)) as engine,
    ):

        def notices() -> str:
            return " ".join(each.text for each in at.seen(Noticed))

        await engine.run("go")
        assert "MCP servers that are not there yet: from_editor." in notices()
        assert "MCP servers that are not there yet: from_editor." in str(at.server.requests[-1].body)
        gate.touch()
        async with asyncio.timeout(60):
            while "1 tool of MCP servers (from_editor)" not in notices():
                await asyncio.sleep(0.01)
        await engine.run("again")
        assert "MCP servers that are there now: from_editor." in str(at.server.requests[-1].body)
        assert results(at) == [{"content": "hi"}]
