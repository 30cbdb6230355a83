"""Chunks in the shapes servers really send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.event_data import Usage
from agent.model.calls.call_assembly import CallAssembler
from agent.model.protocol import CallFragment, Delta, ReasoningDelta, SealedDelta, TextDelta, UsageDelta
from agent.model.transport.chunks import ChunkReader
from tests.agent.model.offer import TOOLS


def read(*deltas: dict[str, Any]) -> list[Delta]:
    reader = ChunkReader()
    read = [out for delta in deltas for out in reader.read({"choices": [{"delta": delta}]})]
    return read + reader.flush()


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def calls_of(deltas: list[Delta]) -> list[tuple[str, str, str]]:
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        if isinstance(delta, CallFragment):
            call = calls.setdefault(delta.index, ["", "", ""])
            call[0] += delta.id
            call[1] += delta.name
            call[2] += delta.arguments
    assert list(calls) == list(range(len(calls)))
    return [(call[0], call[1], call[2]) for call in calls.values()]


def fragment(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [fields]}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_under_both_names(name):
    assert read({name: "hm"}) == [ReasoningDelta("hm")]


def test_reasoning_given_twice_is_read_once():
    details = [{"type": "reasoning.text", "text": "hm"}]
    assert read({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": details}) == [
        ReasoningDelta("hm")
    ]


def test_reasoning_details_are_read_when_there_is_nothing_else():
    details = [{"type": "reasoning.summary", "summary": "so"}, {"type": "reasoning.encrypted", "data": "xx"}]
    shown, sealed = read({"reasoning_details": details})
    assert shown == ReasoningDelta("so")
    assert isinstance(sealed, SealedDelta) and json.loads(sealed.data)["reasoning_details"] == details


def test_content_parts_are_text_or_reasoning():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "hello"},
        {"type": "image_url", "image_url": {}},
    ]
    assert read({"content": parts}) == [ReasoningDelta("hm"), TextDelta("hello")]


def test_a_refusal_is_text():
    assert read({"content": None, "refusal": "I will not."}) == [TextDelta("I will not.")]


def test_calls_without_ids_and_indexes_are_told_apart_by_their_names():
    deltas = read(
        fragment(function={"name": "a", "arguments": None}),
        fragment(function={"name": "b", "arguments": '{"x":'}),
        fragment(function={"arguments": "1}"}),
        fragment(function={"name": "b", "arguments": '{"x":2}'}),
    )
    assert calls_of(deltas) == [("", "a", ""), ("", "b", '{"x":1}'), ("", "b", '{"x":2}')]


def test_a_name_repeated_in_every_piece_is_one_name():
    piece = {"name": "a", "arguments": "{"}
    deltas = read(
        fragment(index=0, function=piece), fragment(index=0, function={"name": "a", "arguments": "}"})
    )
    assert calls_of(deltas) == [("", "a", "{}")]


@pytest.mark.parametrize("names", [("termi", "nal"), ("termi", "terminal"), ("terminal", "terminal", "")])
def test_a_name_in_pieces_or_grown_or_repeated_arrives_whole(names):
    assembler = CallAssembler(TOOLS, lambda: "new")
    pieces = [fragment(index=0, id="a", function={"name": name, "arguments": ""}) for name in names]
    for delta in read(*pieces, fragment(index=0, function={"arguments": '{"command": "ls"}'})):
        assert isinstance(delta, CallFragment)
        assembler.add(delta)
    (call,) = assembler.finish().calls
    assert (call.name, call.arguments) == ("terminal", '{"command": "ls"}')


def test_interleaved_calls_stay_apart():
    deltas = read(
        fragment(index=0, id="c0", function={"name": "a", "arguments": "{"}),
        fragment(index=1, id="c1", function={"name": "b", "arguments": "["}),
        fragment(index=0, function={"arguments": "}"}),
        fragment(index=1, function={"arguments": "]"}),
    )
    assert calls_of(deltas) == [("c0", "a", "{}"), ("c1", "b", "[]")]


def assembled(*deltas: dict[str, Any]) -> list[tuple[str, str, str]]:
    assembler = CallAssembler(TOOLS, iter(("new", "newer")).__next__)
    for delta in read(*deltas):
        assert isinstance(delta, CallFragment)
        assembler.add(delta)
    done = assembler.finish()
    assert not done.broken
    return [(call.id, call.name, call.arguments) for call in done.calls]


def head(index: int | None, call_id: str, arguments: str = "") -> dict[str, Any]:
    return fragment(index=index, id=call_id, function={"name": "terminal", "arguments": arguments})


def tail(index: int | None, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    return fragment(index=index, id=call_id, function={"arguments": arguments})


A, B = '{"command":"a"}', '{"command":"b"}'


@pytest.mark.parametrize(
    ("deltas", "arguments"),
    [
        ((head(0, "x"), tail(0, A), head(0, "y"), tail(1, B[:9]), tail(1, B[9:])), (A, B)),
        ((head(0, "x"), tail(1, A[:4]), tail(2, A[4:])), (A,)),
        ((head(0, "x", A[:4]), tail(1, A[4:], "x")), (A,)),
        (
            (
                head(0, "x", A[:4]),
                fragment(index=1, id="x", function={"name": "terminal", "arguments": A[4:]}),
            ),
            (A,),
        ),
        ((head(0, "x", A[:4]), tail(None, A[4:], "x")), (A,)),
    ],
)
def test_a_piece_under_a_strange_number_goes_to_the_call_that_it_continues(deltas, arguments):
    assert [call[2] for call in assembled(*deltas)] == list(arguments)


def test_an_id_that_a_gateway_gives_to_two_calls_does_not_join_them():
    assert assembled(head(0, "x", A), head(1, "x", B)) == [("x", "terminal", A), ("new", "terminal", B)]


def test_pieces_without_numbers_in_one_chunk_belong_to_the_calls_in_their_order():
    heads = {"tool_calls": [head(None, each)["tool_calls"][0] for each in "xy"]}
    tails = {"tool_calls": [tail(None, each)["tool_calls"][0] for each in (A, B)]}
    assert assembled(heads, tails) == [("x", "terminal", A), ("y", "terminal", B)]


@pytest.mark.parametrize("pieces", [(A[:9], A[:13], A), (A[:9], A, A), (A, "{}"), ("{}", A)])
def test_arguments_that_are_sent_so_far_in_each_piece_or_with_an_empty_object_are_read_once(pieces):
    assert assembled(head(0, "x"), *(tail(0, piece) for piece in pieces)) == [("x", "terminal", A)]


def test_a_piece_that_repeats_the_beginning_is_not_taken_for_all_arguments_so_far():
    whole = '{"command":"{\\"command"}'
    pieces = ("{", '"command":"', "{", '\\"command"}')
    assert assembled(head(0, "x"), *(tail(0, piece) for piece in pieces)) == [("x", "terminal", whole)]


@pytest.mark.parametrize("number", [{}, {"index": 0}])
@pytest.mark.parametrize("key", ["delta", "message"])
def test_calls_in_a_second_part_of_the_same_choice_are_read(key, number):
    parts = [({"content": "I look."}, "stop"), (head(0, "x", A), "tool_calls")]
    reader = ChunkReader()
    deltas = reader.read({"choices": [{key: part, "finish_reason": why, **number} for part, why in parts]})
    assert (text_of(deltas), calls_of(deltas)) == ("I look.", [("x", "terminal", A)])
    assert reader.finish == "tool_calls"


def test_indexes_that_do_not_begin_at_zero_are_numbered_anew():
    deltas = read(
        fragment(index=3, id="c0", function={"name": "a", "arguments": "{}"}),
        fragment(index=7, id="c1", function={"name": "b", "arguments": "{}"}),
    )
    assert calls_of(deltas) == [("c0", "a", "{}"), ("c1", "b", "{}")]


def test_an_id_that_is_a_number_becomes_text():
    assert calls_of(read(fragment(index=0, id=7, function={"name": "a", "arguments": {}}))) == [
        ("7", "a", "{}")
    ]


def test_a_single_call_outside_a_list_is_read():
    assert calls_of(read({"tool_calls": {"id": "c", "function": {"name": "a", "arguments": "{}"}}})) == [
        ("c", "a", "{}")
    ]


def test_a_whole_message_is_read_like_a_delta():
    reader = ChunkReader()
    message = {"content": "hi", "reasoning": "hm", "tool_calls": [{"id": "c", "function": {"name": "a"}}]}
    deltas = reader.read({"choices": [{"message": message, "finish_reason": "tool_use"}]})
    assert deltas == [ReasoningDelta("hm"), TextDelta("hi"), CallFragment(0, "c", "a", "")]
    assert reader.finish == "tool_calls"


def test_a_whole_message_after_the_stream_is_not_read_again():
    reader = ChunkReader()
    reader.read({"choices": [{"delta": {"content": "hi"}}]})
    assert reader.read({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}) == []
    assert reader.finish == "stop"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
            Usage(9, 4, 5, None),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(9, 4, None, 3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 2}, Usage(9, 4, 2, None)),
        ({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 2}, Usage(9, 4, 2, None)),
        ({"prompt_tokens": 9.0, "completion_tokens": 0}, Usage(9, 0, None, None)),
        ({"prompt_tokens": True, "completion_tokens": -3, "prompt_tokens_details": None}, None),
    ],
)
def test_usage_is_read_in_every_dialect_and_only_if_it_makes_sense(usage, expected):
    deltas = ChunkReader().read({"choices": [], "usage": usage})
    assert deltas == ([UsageDelta(expected)] if expected else [])


def test_usage_inside_a_choice_is_read():
    assert ChunkReader().read({"choices": [{"usage": {"prompt_tokens": 1}}]}) == [UsageDelta(Usage(input=1))]


def test_usage_beside_the_choices_under_the_name_of_groq_is_read():
    chunk = {"choices": [], "x_groq": {"usage": {"prompt_tokens": 1}}}
    assert ChunkReader().read(chunk) == [UsageDelta(Usage(input=1))]


def test_a_character_in_two_halves_is_put_together():
    assert text_of(read({"content": "a\ud83c"}, {"content": "\udf89b"})) == "a🎉b"


def test_halves_without_a_partner_are_replaced():
    assert text_of(read({"content": "a\ud83c"}, {"content": "b\udf89"})) == "a\ufffdb\ufffd"
    assert text_of(read({"content": "a\ud83c"})) == "a\ufffd"


@given(st.text(st.characters(exclude_categories=()), max_size=30), st.integers(1, 5))
def test_text_never_holds_what_cannot_be_encoded(text, size):
    units = text.encode("utf-16-le", "surrogatepass")
    pieces = [
        units[start : start + 2 * size].decode("utf-16-le", "surrogatepass")
        for start in range(0, len(units), 2 * size)
    ]
    result = text_of(read(*({"content": piece} for piece in pieces)))
    assert result == units.decode("utf-16-le", "replace")
    result.encode("utf-8")


NAMES = (
    "choices",
    "delta",
    "message",
    "content",
    "reasoning_content",
    "reasoning_details",
    "tool_calls",
    "function_call",
    "function",
    "name",
    "arguments",
    "id",
    "index",
    "usage",
    "prompt_tokens",
    "prompt_tokens_details",
    "finish_reason",
    "text",
    "type",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.thorough
@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage"]), JSON, max_size=2), max_size=4))
def test_no_chunk_of_any_shape_raises(chunks):
    reader = ChunkReader()
    for chunk in chunks:
        for delta in reader.read(chunk):
            if isinstance(delta, CallFragment):
                assert (type(delta.index), type(delta.id), type(delta.name)) == (int, str, str)
                assert isinstance(delta.arguments, str)
    reader.flush()


@given(st.recursive(st.just({"delta": {"content": "x"}}), lambda inner: st.lists(inner), max_leaves=5))
@settings(max_examples=50, deadline=None)
def test_choices_of_odd_shape_are_skipped(choices):
    ChunkReader().read({"choices": choices})


def test_arguments_given_as_an_object_stay_readable():
    deltas = read(fragment(index=0, id="c", function={"name": "a", "arguments": {"path": "ü"}}))
    assert json.loads(calls_of(deltas)[0][2]) == {"path": "ü"}
