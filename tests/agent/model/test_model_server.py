"""The scripted model server refuses what real providers refuse, and answers from its script."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.faults import FAULTS
from tests.support.model_process import ServerProcess
from tests.support.model_server import ModelServer, by_step, call, calls, first, say
from tests.support.wire_rules import Refused, Rules, check_request, parse_body

Body = dict[str, Any]

TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "lines": {"type": "array", "items": {"type": ["integer", "null"]}},
                "mode": {"enum": ["a", "b"]},
                "more": {"anyOf": [{"type": "object"}, {"type": "string"}]},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    },
}


def wire_call(call_id: str, arguments: Any = '{"path": "a"}', name: Any = "read_file") -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def good() -> Body:
    """A request with everything in it that a provider takes."""
    return {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 10,
        "temperature": 0.5,
        "tools": [copy.deepcopy(TOOL)],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "user", "content": "and more"},
            {"role": "assistant", "content": None, "tool_calls": [wire_call("c1"), wire_call("c2")]},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    }


def messages(*extra: Any) -> Callable[[Body], object]:
    def change(body: Body) -> None:
        body["messages"] = list(extra)

    return change


def put(*path: Any) -> Callable[[Body], object]:
    """Sets the value at a path; the value is the last item."""

    def change(body: Any) -> None:
        *way, last, value = path
        for step in way:
            body = body[step]
        body[last] = value

    return change


def drop(*path: Any) -> Callable[[Body], object]:
    def change(body: Any) -> None:
        *way, last = path
        for step in way:
            body = body[step]
        del body[last]

    return change


USER = {"role": "user", "content": "hi"}
FUNCTION = ("tools", 0, "function")
CALLS = ("messages", 3, "tool_calls")
BAD: dict[str, tuple[Callable[[Body], object], str]] = {
    "no model": (drop("model"), "model parameter"),
    "empty model": (put("model", ""), "model parameter"),
    "no messages": (drop("messages"), "messages"),
    "empty messages": (messages(), "empty array"),
    "messages no list": (put("messages", {}), "messages"),
    "message no object": (messages("hi"), "expected an object"),
    "message null": (messages(None), "expected an object"),
    "unknown role": (messages({"role": "bot", "content": "x"}), "Supported values"),
    "role missing": (messages({"content": "x"}), "Supported values"),
    "unknown field": (put("messages", 7, "node", 3), "Unknown parameter"),
    "reasoning in history": (put("messages", 6, "reasoning", "x"), "Unknown parameter"),
    "second system message": (put("messages", 7, "role", "system"), "beginning"),
    "content null": (put("messages", 7, "content", None), "got null"),
    "content missing": (drop("messages", 7, "content"), "got null"),
    "content number": (put("messages", 7, "content", 3), "expected a string"),
    "content empty list": (put("messages", 7, "content", []), "empty array"),
    "content of texts": (put("messages", 7, "content", ["x"]), "content parts"),
    "assistant null without calls": (put("messages", 6, "content", None), "got null"),
    "tool without content": (drop("messages", 4, "content"), "got null"),
    "empty calls": (put(*CALLS, []), "empty array"),
    "calls null": (put(*CALLS, None), "expected an array"),
    "call without id": (drop(*CALLS, 0, "id"), ".id"),
    "call with empty id": (put(*CALLS, 0, "id", ""), ".id"),
    "call without type": (drop(*CALLS, 0, "type"), "type"),
    "call with index": (put(*CALLS, 0, "index", 0), "Unknown parameter"),
    "call ids twice": (put(*CALLS, 1, "id", "c1"), "Duplicate"),
    "call name with space": (put(*CALLS, 0, "function", "name", "read file"), "pattern"),
    "call name empty": (put(*CALLS, 0, "function", "name", ""), "pattern"),
    "call name too long": (put(*CALLS, 0, "function", "name", "a" * 65), "pattern"),
    "arguments object": (put(*CALLS, 0, "function", "arguments", {}), "expected a string"),
    "arguments empty": (put(*CALLS, 0, "function", "arguments", ""), "not valid JSON"),
    "arguments cut off": (put(*CALLS, 0, "function", "arguments", '{"path": "a'), "not valid JSON"),
    "arguments a list": (put(*CALLS, 0, "function", "arguments", "[]"), "not a JSON object"),
    "unanswered call": (drop("messages", 4), "did not have response"),
    "unanswered call at the end": (
        messages(USER, {"role": "assistant", "content": "", "tool_calls": [wire_call("c")]}),
        "did not have response",
    ),
    "answer after another message": (
        messages(
            USER,
            {"role": "assistant", "content": None, "tool_calls": [wire_call("c")]},
            USER,
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ),
        "did not have response",
    ),
    "answer without a call": (
        messages(USER, {"role": "tool", "tool_call_id": "c", "content": "x"}),
        "preceding",
    ),
    "answer before the call": (
        messages(
            {"role": "tool", "tool_call_id": "c", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [wire_call("c")]},
        ),
        "preceding",
    ),
    "answer twice": (put("messages", 4, "tool_call_id", "c1"), "preceding"),
    "answer with unknown id": (put("messages", 4, "tool_call_id", "c9"), "preceding"),
    "answer without id": (drop("messages", 4, "tool_call_id"), "preceding"),
    "unknown body field": (put("mood", "good"), "Unrecognized"),
    "stream as text": (put("stream", "yes"), "boolean"),
    "stream options without stream": (put("stream", False), "stream_options"),
    "tool choice without tools": (
        lambda body: (body.pop("tools"), body.update(tool_choice="auto")),
        "tool_choice",
    ),
    "both limits": (put("max_completion_tokens", 5), "at the same time"),
    "limit zero": (put("max_tokens", 0), "max_tokens"),
    "limit text": (put("max_tokens", "10"), "max_tokens"),
    "temperature too high": (put("temperature", 3), "temperature"),
    "tools empty": (put("tools", []), "empty array"),
    "tools no list": (put("tools", {}), "array"),
    "tool without type": (drop("tools", 0, "type"), "type"),
    "tool name with dot": (put(*FUNCTION, "name", "a.b"), "pattern"),
    "tool name twice": (lambda body: body["tools"].append(body["tools"][0]), "unique"),
    "tool field unknown": (put(*FUNCTION, "toolset", "x"), "Unknown parameter"),
    "tool description null": (put(*FUNCTION, "description", None), "description"),
    "schema no object": (put(*FUNCTION, "parameters", []), "schema"),
    "schema of a text": (put(*FUNCTION, "parameters", {"type": "string"}), "object"),
    "schema type unknown": (put(*FUNCTION, "parameters", "properties", "path", "type", "str"), "'str'"),
    "schema property no object": (put(*FUNCTION, "parameters", "properties", "path", "string"), "object"),
    "schema requires unknown": (put(*FUNCTION, "parameters", "required", ["nope"]), "not a property"),
    "schema array without items": (drop(*FUNCTION, "parameters", "properties", "lines", "items"), "items"),
    "schema enum empty": (put(*FUNCTION, "parameters", "properties", "mode", "enum", []), "enum"),
    "schema anyOf empty": (put(*FUNCTION, "parameters", "properties", "more", "anyOf", []), "anyOf"),
}


def test_a_good_request_passes():
    check_request(good())
    check_request({"model": "m", "messages": [USER]})


@pytest.mark.sample(42)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused(name):
    change, words = BAD[name]
    body = good()
    change(body)
    with pytest.raises(Refused) as caught:
        check_request(body)
    assert words in caught.value.message


@pytest.mark.parametrize("body", [None, [], "text", 3])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(Refused):
        check_request(body)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a": NaN}', b'"\xff"', b'"\\ud83d"', b"[" * 100_000])
def test_what_is_no_strict_json_is_refused(raw):
    with pytest.raises(Refused):
        parse_body(raw)


def test_rules_can_be_loosened_and_tightened():
    body = good()
    body["messages"][7]["role"] = "system"
    check_request(body, Rules(system_first=False))
    body = good()
    body["messages"][6]["reasoning_content"] = "hm"
    check_request(body, Rules(message_fields=frozenset({"reasoning_content"})))
    body = good() | {"chat_template_kwargs": {}}
    check_request(body, Rules(body_fields=frozenset({"chat_template_kwargs"})))
    with pytest.raises(Refused, match="max_completion_tokens"):
        check_request(good(), Rules(refused_fields=frozenset({"max_tokens"})))
    body = good()
    body["messages"][7]["content"] = "  "
    check_request(body)
    with pytest.raises(Refused, match="non-empty"):
        check_request(body, Rules(text_required=True))


async def post(
    server: ModelServer, body: Any, path: str = "/v1/chat/completions", **headers: str
) -> tuple[int, str]:
    """Status and body, over a connection of its own."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    port = int(server.base_url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = {"content-type": "application/json", "content-length": str(len(raw)), **headers}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + raw)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, rest = answer.partition(b"\r\n\r\n")
    text = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        text += rest[:length]
        rest = rest[length + 2 :]
    return int(head.split()[1]), text.decode()


async def test_replies_come_in_order_and_then_the_script_is_exhausted():
    body = {"model": "m", "messages": [USER]}
    async with ModelServer([say("one"), call("read_file", path="a")]) as server:
        first_answer = json.loads((await post(server, body))[1])
        second = json.loads((await post(server, body))[1])
        status, third = await post(server, body)
    assert first_answer["choices"][0]["message"] == {"role": "assistant", "content": "one"}
    assert second["choices"][0]["finish_reason"] == "tool_calls"
    assert json.loads(second["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {
        "path": "a"
    }
    assert (status, json.loads(third)["error"]["code"]) == (400, "script_exhausted")
    assert [request.body for request in server.requests] == [body] * 3


async def test_a_refused_request_is_recorded_and_uses_up_no_reply():
    async with ModelServer([say("one")]) as server:
        status, text = await post(server, {"model": "m", "messages": []})
        assert status == 400
        assert json.loads(text)["error"]["type"] == "invalid_request_error"
        assert (await post(server, b"{"))[0] == 400
        assert (await post(server, good(), **{"content-type": "text/plain"}))[0] == 400
        assert len(server.refusals) == 3
        assert (await post(server, {"model": "m", "messages": [USER]}))[0] == 200
    assert server.requests[1].raw == b"{"


async def test_keys_models_and_paths_are_checked():
    async with ModelServer([say("one")], api_key="right", models=["m"]) as server:
        body = {"model": "m", "messages": [USER]}
        assert (await post(server, body))[0] == 401
        assert (await post(server, body, authorization="Bearer wrong"))[0] == 401
        status, text = await post(server, {**body, "model": "x"}, authorization="Bearer right")
        assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")
        assert (await post(server, body, "/v1/completions", authorization="Bearer right"))[0] == 404
        assert (await post(server, body, authorization="Bearer right"))[0] == 200


async def test_the_models_are_listed():
    async with ModelServer(models=["a", "b"]) as server:
        text = await asyncio.to_thread(_get, f"{server.base_url}/models")
    assert [model["id"] for model in json.loads(text)["data"]] == ["a", "b"]


def _get(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        return answer.read().decode()


async def test_a_stream_carries_the_reply_in_pieces():
    reply = calls(("read_file", {"path": "abcdefgh"}), text="Looking.", reasoning="hm", piece=3)
    async with ModelServer([reply]) as server:
        _, text = await post(server, {"model": "m", "messages": [USER], "stream": True})
    payloads = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert payloads[-1] == "[DONE]"
    deltas = [json.loads(payload)["choices"][0]["delta"] for payload in payloads[:-1]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Looking."
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm"
    fragments = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert json.loads("".join(piece["function"]["arguments"] for piece in fragments)) == {"path": "abcdefgh"}
    assert len(fragments) > 3


async def test_usage_is_streamed_only_when_asked_for():
    body = {"model": "m", "messages": [USER], "stream": True}
    async with ModelServer(lambda _: say("hi")) as server:
        assert '"usage"' not in (await post(server, body))[1]
        assert '"usage"' in (await post(server, {**body, "stream_options": {"include_usage": True}}))[1]


async def test_a_script_by_step_looks_only_at_the_conversation():
    async with ModelServer(by_step([call("read_file", path="a"), say("done")])) as server:
        start: Body = {"model": "m", "messages": [USER]}
        message: Body = {}
        for _ in range(2):
            message = json.loads((await post(server, start))[1])["choices"][0]["message"]
            assert message["tool_calls"][0]["id"] == "call_1_0"
        answer = {"role": "tool", "tool_call_id": "call_1_0", "content": "x"}
        later = {"model": "m", "messages": [USER, message, answer]}
        assert json.loads((await post(server, later))[1])["choices"][0]["message"]["content"] == "done"
        end = {
            "model": "m",
            "messages": [USER, message, answer, {"role": "assistant", "content": "done"}, USER],
        }
        assert (await post(server, end))[0] == 400
    assert server.refusals == []


async def test_a_script_item_can_go_wrong_before_it_comes_right():
    async with ModelServer(by_step([first(FAULTS["status_503"](say("x")), say("right"), times=2)])) as server:
        body = {"model": "m", "messages": [USER]}
        assert [(await post(server, body))[0] for _ in range(3)] == [503, 503, 200]


@pytest.mark.sample(71)
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_changes_an_answer_and_leaves_the_original_alone(name):
    reply = calls(
        ("terminal", {"command": "ls 🎉"}), ("read_file", {"path": "b"}), text="Sure 🎉.", reasoning="hm"
    )
    before = repr(reply)
    assert repr(FAULTS[name](reply)) != before
    assert repr(reply) == before


@pytest.mark.thorough
def test_the_server_runs_as_a_child_process_and_ends_with_its_block(tmp_path):
    script = "rules = Rules(refused_fields=frozenset({'max_tokens'}))\nscript = by_step([say('Hello.')])"
    with ServerProcess(script, tmp_path, options=["--api-key", "k"]) as server:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for body in ({"model": "m", "messages": [USER]}, {"model": "m", "messages": []}):
            request = urllib.request.Request(
                f"{server.base_url}/chat/completions",
                json.dumps(body).encode(),
                {"content-type": "application/json", "authorization": "Bearer k"},
            )
            try:
                with opener.open(request) as answer:
                    assert json.load(answer)["choices"][0]["message"]["content"] == "Hello."
            except urllib.error.HTTPError as error:
                assert error.code == 400
                error.close()
        recorded = server.requests()
        pid = server.pid
    assert [bool(entry["refused"]) for entry in recorded] == [False, True]
    assert recorded[0]["body"]["messages"] == [USER]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
