"""What providers of chat completions sign goes back to the model that wrote it, and to no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.event_data import Usage
from agent.core.messages import Message, Sealed, SealedPart, ToolCall
from agent.model.catalog import ModelInfo
from agent.model.formats.chat import FORMAT
from agent.model.protocol import ReasoningDelta, SealedDelta, UsageDelta
from agent.model.transport.chunks import ChunkReader
from agent.model.usage import request_cost
from tests.support.engines import bench
from tests.support.model_server import Rules, calls, say

SIGNED = {"google": {"thought_signature": "s+/="}}
PIECES: list[dict[str, Any]] = [
    {"type": "reasoning.text", "index": 0, "text": "Let me ", "format": "anthropic-claude-v1"},
    {"type": "reasoning.text", "index": 0, "text": "see.", "signature": None},
    {"type": "reasoning.text", "index": 0, "signature": "abc="},
    {"type": "reasoning.encrypted", "index": 1, "data": "x+/="},
]
WHOLE = [PIECES[0] | {"text": "Let me see.", "signature": "abc="}, PIECES[3]]


def signing(events: list[Any]) -> list[Any]:
    """The stream of a provider that signs: details before the calls, a mark on the second one."""
    details = [{"choices": [{"index": 0, "delta": {"reasoning_details": [piece]}}]} for piece in PIECES]
    for event in events:
        for choice in event.get("choices", ()) if isinstance(event, dict) else ():
            for call in choice["delta"].get("tool_calls", ()):
                if call["index"] == 1 and "id" in call:
                    call["extra_content"] = SIGNED
    return [events[0], *details, *events[1:]]


@pytest.mark.thorough
async def test_signed_details_and_marks_on_calls_go_back_as_they_came(tmp_path: Path) -> None:
    both = (("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    script = [calls(*both, edits=(signing,)), say("Read."), say("Again."), say("Other.")]
    rules = Rules(message_fields=frozenset({"reasoning_details"}), call_fields=frozenset({"extra_content"}))
    async with bench(tmp_path, script, rules=rules) as b:
        ended = await b.turn("Read")
        await b.turn("Again", resume=ended.session)
        await b.turn("Another", resume=ended.session, model="other")
        assert b.server.refusals == []
        own, again, other = [request.messages[2] for request in b.server.requests[1:4]]
        assert own == again
        assert own["reasoning_details"] == WHOLE
        assert [call.get("extra_content") for call in own["tool_calls"]] == [None, SIGNED]
        assert "reasoning_details" not in other and "extra_content" not in str(other)


def test_plain_details_are_not_wanted_back() -> None:
    reader = ChunkReader()
    reader.read({"choices": [{"delta": {"reasoning_details": PIECES[:2]}}]})
    assert reader.flush() == []


def test_odd_details_trip_nothing() -> None:
    reader = ChunkReader()
    for odd in (5, [5], [{"index": [], "type": {}}], [{"data": 5}], {"a": 1}):
        reader.read({"choices": [{"delta": {"reasoning_details": odd}}]})
        reader.read({"choices": [{"delta": {"tool_calls": [{"extra_content": odd}]}}]})
    assert all(isinstance(delta, SealedDelta) for delta in reader.flush())


def test_a_mark_on_a_call_that_is_not_there_is_left_out() -> None:
    mark = json.dumps({"type": "extra_content", "call": 1, "extra_content": SIGNED})
    kept = Sealed("chat", "", (SealedPart(mark),))
    message = Message("assistant", "", (ToolCall("c", "a", "{}"),), model="me", sealed=kept)
    (frame,) = FORMAT.framer("me", b"").frames(message)
    assert b"extra_content" not in frame.data


def test_what_a_gateway_wrote_to_the_cache_is_counted() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cache_write_tokens": 7}}
    assert ChunkReader().read({"choices": [], "usage": usage}) == [UsageDelta(Usage(9, 1, written=7))]


BLOCK_PIECES: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "I have "},
    {"type": "thinking", "thinking": "to look."},
    {"type": "thinking", "thinking": "", "signature": "EqoB+/="},
    {"type": "redacted_thinking", "data": "xyz=="},
    {"type": "thinking", "thinking": "And then?"},
    {"type": "thinking", "thinking": "", "signature": "second"},
]
BLOCKS = [
    {"type": "thinking", "thinking": "I have to look.", "signature": "EqoB+/="},
    {"type": "redacted_thinking", "data": "xyz=="},
    {"type": "thinking", "thinking": "And then?", "signature": "second"},
]


def blocks(event: dict[str, Any]) -> dict[str, Any]:
    """A piece as LiteLLM sends it: the text beside the block, and everything once more below."""
    delta = {"reasoning_content": event.get("thinking", ""), "thinking_blocks": [event]}
    more = {"provider_specific_fields": {"thinking_blocks": [event]}}
    return {"choices": [{"index": 0, "delta": {**delta, **more}}]}


def thinking_in_blocks(events: list[Any]) -> list[Any]:
    return [events[0], *map(blocks, BLOCK_PIECES), *events[1:]]


@pytest.mark.thorough
async def test_thinking_blocks_of_a_gateway_go_back_whole_and_to_their_model_only(tmp_path: Path) -> None:
    look = calls(("read_file", {"path": "a.txt"}), text="Look.", edits=(thinking_in_blocks,))
    rules = Rules(message_fields=frozenset({"thinking_blocks"}))
    async with bench(tmp_path, [look, say("Read."), say("Other.")], rules=rules) as b:
        ended = await b.turn("Read")
        await b.turn("Another", resume=ended.session, model="other")
        assert b.server.refusals == []
        own, other = [request.messages[2] for request in b.server.requests[1:3]]
        assert own["thinking_blocks"] == BLOCKS
        assert "thinking_blocks" not in other


def test_blocks_of_a_whole_message_and_below_another_field_are_read_alike() -> None:
    for delta in ({"thinking_blocks": BLOCKS}, {"provider_specific_fields": {"thinking_blocks": BLOCKS}}):
        reader = ChunkReader()
        reader.read({"choices": [{"message": {"content": "x", **delta}, "finish_reason": "stop"}]})
        (sealed,) = reader.flush()
        assert isinstance(sealed, SealedDelta)
        assert json.loads(sealed.data) == {"type": "thinking_blocks", "thinking_blocks": BLOCKS}


def test_blocks_without_a_signature_are_shown_and_not_sent_back() -> None:
    reader = ChunkReader()
    shown = reader.read({"choices": [{"delta": {"thinking_blocks": BLOCK_PIECES[:2]}}]})
    assert shown == [ReasoningDelta("I have "), ReasoningDelta("to look.")]
    assert reader.flush() == []


@pytest.mark.parametrize(
    ("cost", "read"),
    [(0.0125, 0.0125), (0, 0.0), ({"total_cost": 0.5}, 0.5), ("0.1", None), (-1, None), (True, None)],
)
def test_what_a_gateway_says_a_request_cost_is_its_cost(cost: Any, read: float | None) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "cost": cost}
    (delta,) = ChunkReader().read({"choices": [], "usage": usage})
    assert isinstance(delta, UsageDelta)
    assert delta.usage.cost == read
    known = ModelInfo(input_price=1_000_000.0, output_price=0.0)
    assert request_cost(delta.usage, known) == (9.0 if read is None else read)
