"""Calls in the channels of Harmony, and calls that stand at the end of reasoning."""

from __future__ import annotations

import json

import pytest

from agent.model.calls.call_text import find_in_thought
from agent.model.codecs.codec import DecodedReply
from agent.model.codecs.native import NativeDecoder
from agent.model.protocol import ReasoningDelta, TextDelta
from tests.agent.model.offer import TOOLS

CALL = '<|channel|>commentary to=functions.terminal <|constrain|>json<|message|>{"command": "ls"}<|call|>'
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
TAGGED = '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>'


def decoded(text: str, size: int) -> tuple[str, DecodedReply]:
    """What is shown, and the reply, of a text that comes in pieces of `size` characters."""
    decoder = NativeDecoder(TOOLS)
    shown = [
        delta for at in range(0, len(text), size) for delta in decoder.feed(TextDelta(text[at : at + size]))
    ]
    more, reply = decoder.finish()
    return "".join(delta.text for delta in [*shown, *more] if isinstance(delta, TextDelta)), reply


def calls_of(reply: DecodedReply) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.calls]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "said", "thought", "calls"),
    [
        (CALL, "", "", 1),
        (THOUGHT + CALL, "", "Hm.", 1),
        (THOUGHT + CALL + "<|start|>assistant" + CALL, "", "Hm.", 2),
        (THOUGHT + "<|channel|>final<|message|>Hello.<|return|>", "Hello.", "Hm.", 0),
        (THOUGHT + "<|channel|>final<|message|>Hello", "Hello", "Hm.", 0),
        ("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + CALL, "I look.", "", 1),
        (
            '<|start|>assistant to=functions.terminal<|channel|>commentary json<|message|>{"command": "ls"}',
            "", "", 1,
        ),
    ],
)  # fmt: skip
def test_the_channels_of_harmony_are_told_apart(
    text: str, said: str, thought: str, calls: int, size: int
) -> None:
    shown, reply = decoded(text, size)
    assert calls_of(reply) == [("terminal", {"command": "ls"})] * calls
    assert (reply.text, reply.reasoning, shown) == (said, thought, said)


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>",
        "<|channel|>commentary to=functions.nothing<|message|>{}<|call|>",
        '<|channel|>commentary to=functions.terminal<|message|>{"comm',
        "<|start|>assistant and so on",
        THOUGHT + "no message",
    ],
)
def test_what_is_no_call_in_a_channel_stays_text(text: str) -> None:
    for size in (1, 1000):
        shown, reply = decoded(text, size)
        assert not reply.calls
        assert reply.text == shown == text


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("calls", [1, 2])
def test_calls_within_reasoning_that_was_never_closed_are_read(calls: int, size: int) -> None:
    _, reply = decoded("<think>I have to look.\n" + "\n".join([TAGGED] * calls), size)
    assert calls_of(reply) == [("terminal", {"command": "ls"})] * calls
    assert (reply.text, reply.reasoning) == ("", "I have to look.")


def test_calls_that_a_provider_took_for_reasoning_are_read() -> None:
    decoder = NativeDecoder(TOOLS)
    decoder.feed(ReasoningDelta(f"I have to look.\n\n{TAGGED}"))
    _, reply = decoder.finish()
    assert calls_of(reply) == [("terminal", {"command": "ls"})]


def test_reasoning_about_calls_beside_an_answer_stays_reasoning() -> None:
    decoder = NativeDecoder(TOOLS)
    decoder.feed(ReasoningDelta(f"I could look.\n{TAGGED}"))
    decoder.feed(TextDelta("No need to look."))
    _, reply = decoder.finish()
    assert (reply.text, reply.calls) == ("No need to look.", ())


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "thought",
    ["", "Hm.", f"The form is {TAGGED}", f"{TAGGED}\nBut no.", "<tool_call>\n" * 2000, "[" * 50_000],
)
def test_reasoning_that_does_not_end_in_calls_holds_none(thought: str) -> None:
    assert find_in_thought(thought, TOOLS) is None
