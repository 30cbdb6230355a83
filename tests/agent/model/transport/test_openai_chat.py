"""The client against a real server on loopback that does everything a provider may do."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agent.model.transport.answer as answer_module
import agent.model.transport.client as chat_module
from agent.core.event_data import Usage
from agent.errors import ModelError
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import Frame, ModelRequest
from tests.support.chat import ASK, RICH, Seen, failure, read, talking
from tests.support.faults import FAULTS
from tests.support.model_server import Rules, calls, refuse, say

# Faults


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", FAULTS)
async def test_every_fault_has_its_effect_and_no_other(name):
    fault = FAULTS[name]
    stall = 1.0 if fault.effect == "timeout" else 30
    async with talking([RICH, fault(RICH), RICH], stall=stall) as (server, client):
        before = await read(client)
        try:
            after: Seen | ModelError = await read(client)
        except ModelError as error:
            after = error
        again = await read(client)
    assert again == before
    assert server.refusals == []
    if fault.effect == "same":
        assert isinstance(after, Seen)
        assert (after.text, after.reasoning, after.calls) == (before.text, before.reasoning, before.calls)
        assert after.finish in ("tool_calls", "stop", "unknown")
    elif fault.effect == "altered":
        assert isinstance(after, Seen)
        assert after != before
    else:
        assert isinstance(after, ModelError)
        assert after.kind == fault.effect
        assert str(after).endswith(".")
        assert str(after).isprintable()


SPELLINGS = (
    "crlf",
    "cr",
    "no_space_after_data",
    "comments",
    "multiline_data",
    "bom",
    "ascii_escapes",
    "tiny_pieces",
    "event_lines",
)
SHAPES = (
    "bare_chunks",
    "more_fields",
    "null_deltas",
    "content_parts",
    "missing_index",
    "index_always_zero",
    "flat_calls",
    "empty_finish",
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.thorough
@given(
    TEXTS,
    TEXTS,
    st.lists(st.dictionaries(st.text(max_size=5), TEXTS, max_size=2), max_size=3),
    st.lists(st.sampled_from(SPELLINGS), max_size=3),
    st.lists(st.sampled_from(SHAPES), max_size=2, unique=True),
    st.integers(1, 9),
    st.sampled_from([0, 0, 3, 40]),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_reply_arrives_whole_however_it_travels(
    text, reasoning, arguments, spellings, shapes, piece, split
):
    wanted = [(f"tool_{position}", arguments) for position, arguments in enumerate(arguments)]
    reply = calls(*wanted, text=text, reasoning=reasoning, piece=piece, split=split)
    for name in (*spellings, *shapes):
        reply = FAULTS[name](reply)

    async def scenario() -> Seen:
        async with talking([reply]) as (_, client):
            return await read(client)

    seen = asyncio.run(scenario())
    assert (seen.text, seen.reasoning) == (text, reasoning)
    assert [(name, json.loads(given)) for _, name, given in seen.calls] == wanted


async def test_usage_with_all_its_parts_is_read():
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    async with talking([say("hi", usage=usage), say("hi", usage=usage, stream=False)]) as (_, client):
        assert (await read(client)).usage == Usage(100, 20, 80, 5)
        assert (await read(client)).usage == Usage(100, 20, 80, 5)


@pytest.mark.parametrize("fault", ["finish_length", "finish_max_tokens"])
async def test_a_reply_cut_by_the_output_limit_says_so(fault):
    async with talking([FAULTS[fault](RICH)]) as (_, client):
        assert (await read(client)).finish == "length"


async def test_the_wish_to_wait_comes_with_the_error():
    script = [FAULTS[name](RICH) for name in ("rate_limit_seconds", "rate_limit_ms", "rate_limit_nonsense")]
    async with talking([*script, FAULTS["rate_limit_date"](RICH)]) as (_, client):
        assert [(await failure(client)).retry_after for _ in range(3)] == [2, 0.015, None]
        asked = await failure(client)
    assert (asked.retry_after or 0) > 60 and re.search(r"try again in (1 h 0|60|5\d) min", str(asked))


async def test_a_server_that_says_nothing_after_the_finish_does_not_hold_up_the_reply(monkeypatch):
    monkeypatch.setattr(answer_module, "GRACE", 0.05)
    reply = replace(FAULTS["missing_usage"](say("hi")), stall_at=-3, stall=30)
    async with talking([reply]) as (_, client):
        assert (await read(client)).text == "hi"


async def test_an_error_whose_body_never_ends_is_known_by_its_status(monkeypatch):
    monkeypatch.setattr(chat_module, "ERROR_BODY_TIME", 0.05)
    async with talking([replace(refuse(503, "Overloaded"), stall_at=5, stall=30)]) as (_, client):
        assert (await failure(client)).kind == "overloaded"


async def test_a_huge_error_body_is_shortened():
    async with talking([refuse(400, "no " * 1_000_000)]) as (_, client):
        assert len(str(await failure(client))) < 600


async def test_a_large_single_event_is_read():
    text = "x" * 600_000
    async with talking([say(text, piece=len(text)), say(text, stream=False)]) as (_, client):
        assert (await read(client)).text == text
        assert (await read(client)).text == text


async def test_an_endless_answer_is_stopped(monkeypatch):
    monkeypatch.setattr(answer_module, "MAX_ANSWER", 10_000)
    async with talking([say("x" * 20_000)]) as (_, client):
        assert (await failure(client)).kind == "bad_reply"


# The request


async def test_frozen_messages_and_tools_are_sent_byte_for_byte():
    messages = (
        '{"role": "system",  "content": "Sé brief"}'.encode(),
        b'{"content":"\\u00fc 1.0","role":"user"}',
    )
    tools = b'[{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}}}}]'
    request = ModelRequest(
        model="m",
        frames=tuple(map(Frame, messages)),
        tools=tools,
        max_output=7,
        temperature=0.0,
        extra={"seed": 3},
    )
    async with talking([say("hi")]) as (server, client):
        await read(client, request)
    raw = server.requests[0].raw
    assert b'"messages":[' + messages[0] + b"," + messages[1] + b"]" in raw
    assert b'"tools":' + tools in raw
    assert server.requests[0].body | {"messages": 0, "tools": 0} == {
        "model": "m",
        "messages": 0,
        "tools": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
        "temperature": 0.0,
        "seed": 3,
    }


def test_further_fields_cannot_replace_the_conversation():
    request = replace(ASK, extra={"messages": [], "model": "x", "seed": 1})
    body = json.loads(CHAT.body(request))
    assert (body["model"], len(body["messages"]), body["seed"]) == ("m", 1, 1)


async def test_fields_a_server_does_not_know_are_left_out_and_remembered():
    refused = frozenset({"stream_options", "max_tokens", "temperature"})
    request = replace(ASK, max_output=5, temperature=0.2)
    async with talking(lambda _: say("hi"), rules=Rules(refused_fields=refused)) as (server, client):
        await read(client, request)
        assert len(server.requests) == 4
        await read(client, request)
        assert len(server.requests) == 5
        assert server.requests[-1].body.keys() == {"model", "messages", "stream", "max_completion_tokens"}
        await read(client, replace(request, model="other"))
        assert "stream_options" in server.requests[5].body


async def test_a_limit_that_no_field_can_carry_is_left_out():
    rules = Rules(refused_fields=frozenset({"max_tokens", "max_completion_tokens"}))
    async with talking(lambda _: say("hi"), rules=rules) as (server, client):
        assert (await read(client, replace(ASK, max_output=5))).text == "hi"
    assert server.requests[-1].body.keys() == {"model", "messages", "stream", "stream_options"}


async def test_a_limit_that_is_too_large_becomes_the_largest_that_is_taken():
    message = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."
    async with talking([refuse(400, message), say("hi"), say("hi")]) as (server, client):
        for _ in range(2):
            assert (await read(client, replace(ASK, max_output=100_000))).text == "hi"
        assert [request.body["max_tokens"] for request in server.requests] == [100_000, 16_384, 16_384]


async def test_a_refusal_for_another_reason_is_not_tried_in_another_way():
    async with talking([refuse(400, "messages: unknown role")]) as (server, client):
        assert (await failure(client)).kind == "bad_request"
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
        ('[{"loc":["body","max_tokens"],"msg":"Extra inputs are not permitted"}]', "max_tokens"),
        ("Invalid stream_options", "stream_options"),
        ("property 'stream_options' is unsupported", "stream_options"),
        (
            "'temperature' does not support 0.2 with this model. Only the default (1) is supported.",
            "temperature",
        ),
    ],
)
async def test_a_field_is_known_by_the_words_of_every_server(message, field):
    request = replace(ASK, max_output=5, temperature=0.2)
    async with talking([refuse(422, message), say("hi")]) as (server, client):
        assert (await read(client, request)).text == "hi"
    assert field in server.requests[0].body
    assert field not in server.requests[1].body
