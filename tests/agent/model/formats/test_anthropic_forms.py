"""Single pieces of the Messages API: what is framed, what is asked of which model, what is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import Usage
from agent.core.messages import Attachment, Image, Message, Sealed, SealedPart, ToolCall
from agent.model.calls.call_assembly import CallAssembler
from agent.model.dialect import DEFAULT, load
from agent.model.formats.anthropic import FORMAT, AnthropicFramer
from agent.model.protocol import CallFragment, Frame, ModelRequest, Thinking, UsageDelta
from agent.model.repairs import Refusal, repairs_for
from agent.model.transport.block_events import BlockReader
from tests.support.images import png

ME = "work/claude-sonnet-4-5"
ASKED = Message("user", "hi")
THOUGHT = json.dumps({"type": "thinking", "thinking": "hm", "signature": "s=="})
REDACTED = json.dumps({"type": "redacted_thinking", "data": "x=="})
SERVER_TOOL = json.dumps({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
LS = ToolCall("c1", "terminal", '{"command": "ls"}')
CAT = ToolCall("c2", "terminal", '{"command": "cat"}')


def framed(messages: Sequence[Message], owner: str = ME) -> tuple[list[dict[str, Any]], AnthropicFramer]:
    framer = FORMAT.framer(owner, b"head", load(DEFAULT))
    frames = [frame for message in messages for frame in framer.frames(message)]
    return [json.loads(frame.data) for frame in frames], framer


def sealed(*parts: SealedPart | str, behind: Sequence[Message] = (ASKED,), owner: str = ME) -> Sealed:
    """Parts as the model sealed them behind these messages."""
    made = tuple(SealedPart(part) if isinstance(part, str) else part for part in parts)
    return Sealed("anthropic", framed(behind, owner)[1].digest, made)


def answer(text: str = "", *calls: ToolCall, kept: Sealed | None = None, model: str = ME) -> Message:
    return Message("assistant", text, calls, model=model, sealed=kept)


def kinds(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["type"] for block in blocks]


def body(messages: Sequence[Message], model: str = "claude-sonnet-4-5", **fields: Any) -> dict[str, Any]:
    framer = FORMAT.framer(f"work/{model}", b"", load(DEFAULT))
    frames = tuple(frame for message in messages for frame in framer.frames(message))
    request = ModelRequest(model=model, frames=frames, **fields)
    return json.loads(FORMAT.body(request, load(DEFAULT)))


def test_parts_stand_where_the_model_wrote_them() -> None:
    kept = sealed(THOUGHT, SealedPart(REDACTED, 5, 0), SealedPart(SERVER_TOOL, 8, 1))
    blocks, _ = framed([ASKED, answer("First then more", LS, CAT, kept=kept)])
    assert kinds(blocks)[1:] == [
        *("thinking", "text", "redacted_thinking", "text", "tool_use", "server_tool_use", "text", "tool_use")
    ]
    assert [block["text"] for block in blocks if block["type"] == "text"] == ["hi", "First", " th", "en more"]
    assert blocks[1] == json.loads(THOUGHT)


@pytest.mark.parametrize(("model", "left"), [("x/claude-opus-5-5", []), ("x/claude-opus-4-8", ["thinking"])])
def test_some_models_want_a_thought_back_only_behind_what_they_had_read(model: str, left: list[str]) -> None:
    kept = sealed(THOUGHT, behind=(Message("user", "ho"),), owner=model)
    blocks, _ = framed([ASKED, answer("Hi", kept=kept, model=model)], model)
    assert kinds(blocks)[1:] == [*left, "text"]
    kept = sealed(THOUGHT, owner=model)
    blocks, _ = framed([ASKED, answer("Hi", kept=kept, model=model)], model)
    assert kinds(blocks)[1:] == ["thinking", "text"]


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (answer("Hi", kept=sealed(THOUGHT), model="other/gpt-5"), ["text"]),
        (answer("Hi", kept=sealed(THOUGHT, SERVER_TOOL)), ["thinking", "server_tool_use", "text"]),
        (answer("Hi", kept=sealed(SealedPart(THOUGHT, 2))), ["text"]),
        (answer("", kept=sealed(THOUGHT)), ["text"]),
        (answer("Hi", kept=Sealed("responses", "", (SealedPart('{"type":"reasoning"}'),))), ["text"]),
        (answer("Hi", kept=sealed(THOUGHT)), ["thinking", "text"]),
    ],
)
def test_a_thought_goes_back_only_where_it_is_valid(message: Message, left: list[str]) -> None:
    blocks, _ = framed([ASKED, message])
    assert kinds(blocks)[1:] == left


RESULT = Message("tool", "a.txt", call_id="c1")
OWN = answer("", LS, kept=sealed(THOUGHT))


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ([ASKED], True),
        ([ASKED, OWN, RESULT], True),
        ([ASKED, answer("", LS), RESULT], False),
        ([ASKED, answer("", LS, model="chat/x"), RESULT], False),
        ([ASKED, OWN, RESULT, answer("", CAT, model="chat/x"), Message("tool", "b", call_id="c2")], False),
        ([ASKED, OWN, RESULT, answer("", CAT), Message("tool", "b", call_id="c2")], True),
        ([ASKED, answer("", LS), RESULT, Message("user", "And?")], False),
        ([ASKED, answer("", LS), RESULT, answer("Done."), Message("user", "And?")], True),
    ],
)
def test_a_turn_that_began_without_thoughts_goes_on_without(messages: list[Message], thinks: bool) -> None:
    _, framer = framed(messages)
    assert framer.may_think("high") is thinks
    assert framer.may_think("off") is framer.may_think(None) is False


def test_roles_alternate_and_begin_and_end_with_the_person() -> None:
    later = [
        answer("I was"),
        Message("user", "a"),
        Message("user", "b"),
        OWN,
        RESULT,
        Message("user", "c"),
        answer("x"),
    ]
    made = body(later, max_output=100)
    assert [message["role"] for message in made["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert kinds(made["messages"][4]["content"]) == ["tool_result", "text"]


def test_marks_are_put_on_blocks_and_on_what_comes_first() -> None:
    made = body([ASKED, OWN, RESULT], system=FORMAT.system("Be kind."), marks=(0, 1, 2), max_output=9)
    marked = [
        block for message in made["messages"] for block in message["content"] if "cache_control" in block
    ]
    assert kinds(marked) == ["text", "tool_use"] and "cache_control" in made["system"][0]
    bare = body([ASKED], tools=b'[{"name":"a","input_schema":{"type":"object"}}]', marks=(), max_output=9)
    assert bare["tools"][-1]["cache_control"] == {"type": "ephemeral"} and "system" not in bare


def test_an_image_is_a_block_and_a_lost_one_a_sentence() -> None:
    picture = Attachment("a.png", "image/png", 9, "0" * 64)
    blocks, _ = framed([Message("user", "", images=(Image(picture, png()), Image(picture)))])
    assert kinds(blocks) == ["text", "image"] and "its file is gone" in blocks[0]["text"]


ADAPTIVE = {"thinking": {"type": "adaptive"}}


@pytest.mark.parametrize(
    ("model", "thinking", "limit", "asked"),
    [
        ("claude-sonnet-4-5", "high", 50_000, {"thinking": {"type": "enabled", "budget_tokens": 24_576}}),
        ("claude-sonnet-4-5", 5_000, 50_000, {"thinking": {"type": "enabled", "budget_tokens": 5_000}}),
        ("claude-sonnet-4-5", 100, 50_000, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        ("claude-sonnet-4-5", "high", 16_384, {"thinking": {"type": "enabled", "budget_tokens": 8_192}}),
        ("claude-sonnet-4-5", "high", 1_500, {}),
        ("claude-sonnet-4-5", "off", 9_000, {}),
        ("claude-sonnet-4-5", None, 9_000, {}),
        ("glm-5", "low", 9_000, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        (
            "claude-opus-4-6",
            13_000,
            9_000,
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        ("claude-opus-5", "off", 9_000, {"thinking": {"type": "disabled"}}),
        ("claude-opus-5", None, 9_000, {"thinking": {"type": "adaptive", "display": "summarized"}}),
        ("claude-fable-5", "off", 9_000, {}),
        ("claude-opus-4-20250514", "low", 9_000, {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
    ],
)
def test_each_model_is_asked_to_think_in_its_own_way(
    model: str, thinking: Thinking | None, limit: int, asked: dict[str, Any]
) -> None:
    made = body([ASKED], model, thinking=thinking, max_output=limit, temperature=0.3)
    assert {name: made[name] for name in ("thinking", "output_config") if name in made} == asked
    assert ("temperature" in made) is ("thinking" not in asked)


@pytest.mark.parametrize(
    ("model", "complaint", "change"),
    [
        ("claude-next", "thinking.type: `enabled` is not supported", {"limits": {"without": ["enabled"]}}),
        (
            "claude-opus-4-6",
            "adaptive thinking is not supported on this model",
            {"limits": {"without": ["adaptive"]}},
        ),
        (
            "claude-opus-4-7",
            "thinking.adaptive.display: Extra inputs are not permitted",
            {"limits": {"without": ["display"]}},
        ),
        (
            "claude-opus-4-7",
            "output_config: Extra inputs are not permitted",
            {"limits": {"without": ["effort"]}},
        ),
        (
            "x",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            {"thinking": {"key": "", "return": "never", "foreign": "drop"}},
        ),
        (
            "x",
            "max_tokens: 32000 > 8192, which is the maximum allowed",
            {"limits": {"output_max": 8_192}},
        ),
        (
            "x",
            "system.0.cache_control: Extra inputs are not permitted",
            {"limits": {"without": ["cache_control"]}},
        ),
        ("x", "`temperature` is deprecated for this model", {"limits": {"without": ["temperature"]}}),
    ],
)
def test_what_a_model_refuses_is_not_asked_again(model: str, complaint: str, change: Any) -> None:
    sent = json.dumps({"max_tokens": 32_000}).encode()
    refusal = Refusal(400, complaint, model=model, format="anthropic", body=sent)
    assert change in [dict(repair.change) for repair in repairs_for(load(DEFAULT), refusal)]


def test_counts_of_the_cache_are_part_of_the_input() -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 70,
        "cache_creation_input_tokens": 25,
        "output_tokens": 1,
    }
    reader = BlockReader()
    assert reader.read({"type": "message_start", "message": {"usage": usage}}) == [
        UsageDelta(Usage(input=100, output=1, cached=70, written=25))
    ]
    assert reader.read({"type": "message_delta", "usage": {"output_tokens": 9}}) == [
        UsageDelta(Usage(input=100, output=9, cached=70, written=25))
    ]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 5, "output_tokens": 9}),
        ({"input_tokens": 5, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 9}),
    ],
)
def test_a_zero_takes_no_count_back(first: dict[str, int], last: dict[str, int]) -> None:
    reader = BlockReader()
    counted = reader.read({"type": "message_start", "message": {"usage": first}})
    counted += reader.read({"type": "message_delta", "usage": last})
    assert counted[-1] == UsageDelta(Usage(input=5, output=9))
    usage = Usage(first["input_tokens"], first["output_tokens"], cached=0)
    assert usage.merge(Usage(last["input_tokens"], last["output_tokens"])) == Usage(5, 9, 0)


@pytest.mark.parametrize("pieces", [(), ('{"a":', "1}")])
def test_arguments_behind_the_end_of_their_call_still_belong_to_it(pieces: tuple[str, ...]) -> None:
    call = {"type": "tool_use", "id": "x", "name": "look", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_stop", "index": 1},
    ]
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        events.append({"type": "content_block_delta", "index": 1, "delta": delta})
    assembler = CallAssembler((), iter(()).__next__)
    reader = BlockReader()
    for delta in (delta for event in (*events, {"type": "message_stop"}) for delta in reader.read(event)):
        assert isinstance(delta, CallFragment)
        assembler.add(delta)
    done = assembler.finish()
    assert (done.broken, [call.arguments for call in done.calls]) == ({}, ["".join(pieces) or "{}"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(
    [
        *(
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
        ),
        *("message_stop", "message", "ping", "error"),
    ]
)
EVENT = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "index": st.integers(0, 2) | JSON,
        "content_block": JSON
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking", "odd"])},
            optional={"input": JSON, "id": JSON, "name": JSON, "text": JSON, "thinking": JSON},
        ),
        "delta": JSON
        | st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ["text_delta", "thinking_delta", "signature_delta", "input_json_delta"]
                )
            },
            optional={"text": JSON, "thinking": JSON, "signature": JSON, "partial_json": JSON},
        ),
        "usage": JSON,
        "message": JSON,
        "content": JSON,
        "stop_reason": JSON,
    },
)


@pytest.mark.thorough
@given(st.lists(EVENT, max_size=12))
def test_no_event_of_any_shape_raises(events: list[dict[str, Any]]) -> None:
    reader = BlockReader()
    for event in events:
        reader.complaint(event)
        reader.is_reply(event)
        for delta in reader.read(event):
            repr(delta).encode("utf-8", "surrogatepass")
    reader.flush()


def test_frames_say_whose_they_are() -> None:
    framer = FORMAT.framer(ME, b"")
    assert framer.frames(answer("Hi")) == [Frame(b'{"type":"text","text":"Hi"}', "assistant", own=True)]
    assert not framer.frames(answer("Hi", model="other/x"))[0].own
