"""The scripted model."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.core.messages import Message, ToolCall
from agent.errors import ModelError
from agent.model.codecs import codec_for
from agent.model.demo import FILE, FOLDER, INTRODUCTION, TOUR, DemoClient
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import (
    CallFragment,
    Delta,
    Frame,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ToolSpec,
    UsageDelta,
)
from agent.model.wire_format import Wire
from tests.support.tool_context import FakeContext
from tests.support.wire_rules import check_request
from tools import discovery
from tools.registry import call_tool, check_arguments, registry

CODEC = codec_for("native")
WIRE = Wire(CHAT, CODEC)
discovery.discover()
NAMES = tuple(dict.fromkeys(step.tool for step in TOUR))


def spec(name: str) -> ToolSpec:
    entry = registry.get(name)
    assert entry is not None
    return ToolSpec(entry.name, entry.description, entry.schema["parameters"])


class Conversation:
    """A conversation with the demo whose tools answer with `results` (or with success)."""

    def __init__(self, names: tuple[str, ...] = NAMES, **results: dict[str, Any]) -> None:
        self.tools = tuple(map(spec, names))
        self.results = results
        self.messages = [Message("system", "You are Hermes.")]
        self.called: list[tuple[str, dict[str, Any]]] = []

    async def deltas(self) -> list[Delta]:
        framer = WIRE.framer()
        frames = tuple(frame for message in self.messages for frame in framer.frames(message))
        tools = WIRE.tools(self.tools)
        body = {"model": "demo", "messages": [json.loads(frame.data) for frame in frames]}
        check_request(body | ({"tools": json.loads(tools)} if tools else {}))
        client = DemoClient(delay=0)
        return [
            delta async for delta in client.stream(ModelRequest(model="demo", frames=frames, tools=tools))
        ]

    async def say(self, text: str) -> str:
        """Say something and carry out the calls until there is an answer; all that was said."""
        self.messages.append(Message("user", text))
        said: list[str] = []
        while True:
            decoder = CODEC.decoder(self.tools)
            for delta in await self.deltas():
                decoder.feed(delta)
            _, reply = decoder.finish()
            said.append(reply.text)
            self.messages.append(Message("assistant", reply.text, reply.calls))
            if not reply.calls:
                return "\n".join(said)
            for call in reply.calls:
                arguments = json.loads(call.arguments)
                schema = next(tool for tool in self.tools if tool.name == call.name).parameters
                check_arguments(schema, arguments)
                self.called.append((call.name, arguments))
                result = await self.carry_out(call, arguments)
                self.messages.append(Message("tool", json.dumps(result), call_id=call.id))

    async def carry_out(self, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.results.get(call.name, {"ok": True})


class RealWork(Conversation):
    """A conversation whose calls are really carried out, in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.context = FakeContext(folder)
        self.context.asker.will_answer("Approvals")

    async def carry_out(self, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        if call.name != "terminal":
            return json.loads(await call_tool(call.name, arguments, self.context))
        command = ["sh", "-c", arguments["command"]]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=self.context.workspace, capture_output=True, text=True, check=False
        )
        return {"output": done.stdout, "exit_code": done.returncode}


async def test_the_tour_calls_the_real_tools_with_valid_arguments() -> None:
    talk = Conversation()
    said = await talk.say("Fix my bug")
    assert [name for name, _ in talk.called] == [step.tool for step in TOUR]
    assert "no language model" in said
    assert "hermes model pull" in said


async def test_the_tour_works_with_the_real_tools(tmp_path: Path) -> None:
    talk = RealWork(tmp_path)
    said = await talk.say("hi")
    assert [name for name, _ in talk.called] == [step.tool for step in TOUR]
    assert "Not everything worked" not in said
    assert "About approvals" in said
    assert (tmp_path / FILE).read_text().count("See you soon.") == 1
    results = [message.content for message in talk.messages if message.role == "tool"]
    assert any("Hello from the demo." in result for result in results)
    assert {todo.status for todo in talk.context.todos.items()} == {"completed"}


async def test_the_script_edits_what_it_wrote() -> None:
    talk = Conversation()
    await talk.say("hi")
    arguments = dict(talk.called)
    assert arguments["write_file"]["path"] == arguments["patch"]["path"] == FILE
    assert arguments["write_file"]["content"].count(arguments["patch"]["old_string"]) == 1
    assert arguments["search"]["pattern"] in arguments["patch"]["new_string"]
    assert all(str(each.get("path", FOLDER)).startswith(FOLDER) for _, each in talk.called)


async def test_ids_are_unique_in_a_session_with_two_tours() -> None:
    talk = Conversation()
    await talk.say("hi")
    await talk.say("Show me the tour again, please.")
    ids = [call.id for message in talk.messages for call in message.tool_calls]
    assert len(ids) == 2 * len(TOUR)
    assert len(set(ids)) == len(ids)


async def test_further_messages_get_a_short_honest_answer() -> None:
    talk = Conversation()
    await talk.say("hi")
    talk.called.clear()
    said = await talk.say("Now fix my bug")
    assert "no model is answering" in said
    assert "hermes --model" in said
    assert talk.called == []


async def test_a_message_in_the_middle_does_not_confuse_it() -> None:
    talk = Conversation()
    talk.messages.append(Message("user", "hi"))
    call = ToolCall("call_demo_0_0", "todo_write", json.dumps(dict(TOUR[0].arguments)))
    talk.messages += [Message("assistant", "Hello!", (call,)), Message("tool", "{}", call_id=call.id)]
    await talk.say("hurry up")
    assert [name for name, _ in talk.called] == [step.tool for step in TOUR[1:]]


@pytest.mark.parametrize("offered", [(), ("terminal",), ("todo_write", "write_file", "patch"), ("clarify",)])
async def test_only_tools_on_offer_are_called(offered: tuple[str, ...]) -> None:
    talk = Conversation(offered)
    said = await talk.say("hi")
    usable = set(offered) if "write_file" in offered else set(offered) - {"terminal"}
    assert {name for name, _ in talk.called} == usable
    assert said.count(INTRODUCTION) == 1


async def test_what_needs_the_file_is_left_out_when_it_was_not_written() -> None:
    talk = Conversation(write_file={"error": "Denied by the user.", "status": "blocked"})
    said = await talk.say("hi")
    assert [name for name, _ in talk.called] == ["todo_write", "write_file", "todo_write", "clarify"]
    assert "did not work" in said
    assert "Not everything worked (write_file)" in said


async def test_a_failed_command_is_told() -> None:
    talk = Conversation(terminal={"output": "", "exit_code": 127, "error": None})
    assert "Not everything worked (terminal)" in await talk.say("hi")


async def test_the_answer_to_its_question_counts() -> None:
    talk = Conversation(clarify={"outcome": "answered", "answer": "Sessions"})
    assert "hermes sessions" in await talk.say("hi")


async def test_it_streams_in_small_pieces_and_ends_properly() -> None:
    talk = Conversation()
    talk.messages.append(Message("user", "hi"))
    deltas = await talk.deltas()
    assert len([delta for delta in deltas if isinstance(delta, TextDelta)]) > 5
    assert len([delta for delta in deltas if isinstance(delta, CallFragment)]) > 3
    assert isinstance(deltas[-2], UsageDelta)
    assert deltas[-1] == ReplyEnd("tool_calls")
    assert await talk.deltas() == deltas


async def test_pieces_wait_for_the_clock_they_are_given() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    frames = tuple(WIRE.framer().frames(Message("user", "hi")))
    client = DemoClient(0.5, sleep=sleep)
    count = len(
        [
            delta
            async for delta in client.stream(ModelRequest(model="demo", frames=frames))
            if isinstance(delta, TextDelta)
        ]
    )
    await client.aclose()
    assert waits == [0.5] * count


@pytest.mark.parametrize(("messages", "tools"), [((b"{",), b""), ((b"[]",), b""), ((b"{}",), b"{")])
async def test_nonsense_is_a_model_error(messages: tuple[bytes, ...], tools: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        async for _ in DemoClient(0).stream(
            ModelRequest(model="demo", frames=tuple(map(Frame, messages)), tools=tools)
        ):
            pass
    assert caught.value.kind == "bad_request"


async def test_odd_messages_do_not_trip_it() -> None:
    frames = (
        Frame(b'{"role":"user","content":[1]}'),
        Frame(b'{"role":"assistant","tool_calls":5}'),
        Frame(b'{"role":"tool"}'),
        Frame(b"{}"),
    )
    deltas = [
        delta
        async for delta in DemoClient(0).stream(
            ModelRequest(model="demo", frames=frames, tools=b'[1,{"function":2}]')
        )
    ]
    assert deltas[-1] == ReplyEnd("stop")


async def test_next_skip_and_the_word_of_a_step_lead_through_the_tour() -> None:
    talk = Conversation((*NAMES, "delegate_task"))
    assert "Next: **steer.**" in await talk.say("hi")
    assert "Next: **approve" in await talk.say("skip")
    assert "Next: **branches**" in await talk.say("`check`")
    assert "alt+t" in await talk.say("timeline")
    assert "Next: **connect a model.**" in await talk.say("Skip.")
    assert "Send `tour`" in await talk.say("next")
    assert "no model is answering" in await talk.say("next")


async def test_a_step_that_nobody_steers_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.model.demo.SLOW", 0.0)
    talk = Conversation()
    await talk.say("hi")
    talk.called.clear()
    assert "Nothing came, so I went on" in await talk.say("next")
    assert [name for name, _ in talk.called] == ["read_file"] * 6


async def test_after_a_stop_the_next_message_is_no_steering() -> None:
    stopped = {"error": "Interrupted by the user.", "status": "interrupted"}
    talk = Conversation()
    await talk.say("hi")
    talk.messages.append(Message("user", "next"))
    call = ToolCall("call_demo_1_0", "read_file", json.dumps({"path": FILE}))
    talk.messages += [
        Message("assistant", "Reading.", (call,)),
        Message("tool", json.dumps(stopped), call_id=call.id),
    ]
    assert "Next: **two agents.**" in await talk.say("skip")
