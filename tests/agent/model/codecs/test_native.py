"""Conversation and calls in chat-completions form."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import Usage
from agent.core.messages import Message, ToolCall
from agent.model.codecs import codec_for
from agent.model.codecs.codec import DecodedReply
from agent.model.codecs.native import NativeCodec, NativeDecoder
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import (
    CallFragment,
    Delta,
    ReasoningDelta,
    ReplyEnd,
    TextDelta,
    ToolSpec,
    UsageDelta,
)
from agent.model.wire_format import Wire
from tests.agent.model.calls.test_rescue import ANSWERS, WRITTEN_CALLS
from tests.agent.model.offer import TOOLS, chat_form
from tests.support.wire_rules import Rules, check_request, parse_body

CODEC = NativeCodec()
WIRE = Wire(CHAT, CODEC)
LS = '{"name": "terminal", "arguments": {"command": "ls"}}'


def decoded(
    deltas: Iterable[Delta], tools: Sequence[ToolSpec] = TOOLS
) -> tuple[list[Delta], list[Delta], DecodedReply]:
    """What was shown while the reply came in, what at its end, and the reply."""
    numbers = itertools.count(1)
    decoder = NativeDecoder(tools, new_id=lambda: f"new_{next(numbers)}")
    shown = [delta for piece in deltas for delta in decoder.feed(piece)]
    return shown, *decoder.finish()


def reply_to(*deltas: Delta, tools: Sequence[ToolSpec] = TOOLS) -> DecodedReply:
    return decoded(deltas, tools)[2]


def pieces(text: str, size: int = 1) -> list[Delta]:
    return [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]


def joined(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def wire(message: Message) -> dict[str, Any]:
    return json.loads(chat_form(CODEC, message))


# Messages


def test_the_codec_of_native_mode_is_this_one() -> None:
    assert codec_for("native").mode == "native"


def test_messages_have_the_form_of_chat_completions() -> None:
    call = ToolCall("c1", "terminal", '{"command": "ls"}')
    assert wire(Message("system", "Be kind.")) == {"role": "system", "content": "Be kind."}
    assert wire(Message("user", "Grüße\n")) == {"role": "user", "content": "Grüße\n"}
    assert wire(Message("assistant", "Hi", reasoning="hidden")) == {"role": "assistant", "content": "Hi"}
    assert wire(Message("tool", "{}", call_id="c1")) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "{}",
    }
    assert wire(Message("assistant", "", (call,))) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "terminal", "arguments": '{"command": "ls"}'},
            }
        ],
    }


def test_bytes_are_compact_and_utf8() -> None:
    assert chat_form(CODEC, Message("user", "é")) == '{"role":"user","content":"é"}'.encode()


@pytest.mark.parametrize(
    "message",
    [
        Message("user", ""),
        Message("assistant", " \n"),
        Message("tool", "", call_id="c"),
        Message("system", ""),
    ],
)
def test_no_message_is_empty(message: Message) -> None:
    assert wire(message)["content"].strip()


@pytest.mark.parametrize("arguments", ["", "null", "[]", "not json", '{"a": 1', '"x"', "{'a': 1}"])
def test_arguments_in_the_history_are_objects(arguments: str) -> None:
    sent = wire(Message("assistant", "", (ToolCall("c", "terminal", arguments),)))
    assert isinstance(json.loads(sent["tool_calls"][0]["function"]["arguments"]), dict)


def test_made_up_names_and_ids_are_sent_in_a_form_providers_take() -> None:
    sent = wire(
        Message("assistant", "", (ToolCall("a b\n", "read file!é" + "x" * 99, "{}"), ToolCall("", "", "{}")))
    )
    first, second = sent["tool_calls"]
    assert first["id"] == wire(Message("tool", "x", call_id="a b\n"))["tool_call_id"] == "a_b_"
    assert first["function"]["name"].startswith("read_file__")
    assert len(first["function"]["name"]) == 64
    assert second["id"] == wire(Message("tool", "x"))["tool_call_id"]
    assert second["function"]["name"]


WILD = st.text(alphabet=st.characters(), max_size=20) | st.text(
    alphabet="\ud800\udc00a\x00\x1b\u2028", max_size=6
)


@pytest.mark.thorough
@given(WILD, WILD, st.lists(st.tuples(WILD, WILD, WILD), min_size=1, max_size=3))
def test_whatever_is_in_a_message_a_strict_provider_takes_it(
    text: str, result: str, calls: list[tuple[str, str, str]]
) -> None:
    made = tuple(
        ToolCall(f"{number}{call_id}", name, args) for number, (call_id, name, args) in enumerate(calls)
    )
    messages = [Message("system", text), Message("user", text), Message("assistant", text, made)]
    messages += [Message("tool", result, call_id=call.id) for call in made]
    messages += [Message("assistant", result), Message("user", result)]
    body = b'{"model":"m","messages":[' + b",".join(chat_form(CODEC, message) for message in messages) + b"]}"
    check_request(parse_body(body), Rules(text_required=True))
    assert [chat_form(CODEC, message) for message in messages] == [
        chat_form(CODEC, message) for message in messages
    ]


def test_tools_have_the_form_of_functions() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": json.loads(WIRE.tools(TOOLS)),
    }
    check_request(body)
    assert body["tools"][0]["function"]["name"] == "terminal"
    assert WIRE.tools(()) == b""
    assert json.loads(WIRE.tools((ToolSpec("a", "", {}),)))[0]["function"]["parameters"]["type"] == "object"
    assert CODEC.system("Prompt", TOOLS) == "Prompt"
    assert CODEC.reply_schema(TOOLS) is None


# Calls in their own field


def calls_of(*fragments: CallFragment) -> list[tuple[str, str, dict[str, Any]]]:
    reply = reply_to(*fragments)
    assert not reply.broken
    return [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls]


def test_interleaved_pieces_go_to_their_calls() -> None:
    assert calls_of(
        CallFragment(0, "a", "terminal", ""),
        CallFragment(1, "b", "read_file", '{"pa'),
        CallFragment(0, arguments='{"command":'),
        CallFragment(1, arguments='th": "x"}'),
        CallFragment(0, arguments=' "ls"}'),
    ) == [("a", "terminal", {"command": "ls"}), ("b", "read_file", {"path": "x"})]


def test_pieces_without_a_number_are_told_apart_by_id() -> None:
    assert calls_of(
        CallFragment(-1, "a", "terminal", '{"command": '),
        CallFragment(-1, "b", "read_file", '{"path": '),
        CallFragment(-1, "a", "", '"ls"}'),
        CallFragment(-1, "b", "", '"x"}'),
    ) == [("a", "terminal", {"command": "ls"}), ("b", "read_file", {"path": "x"})]


def test_pieces_without_number_and_id_are_told_apart_by_position() -> None:
    assert calls_of(
        CallFragment(-1, "", "terminal", '{"command": '),
        CallFragment(-1, "", "", '"ls"}'),
        CallFragment(-1, "", "terminal", '{"command": "pwd"}'),
        CallFragment(-1, "", "todo_read", ""),
        CallFragment(-1, "", "read_file", '{"path": "x"}'),
    ) == [
        ("new_1", "terminal", {"command": "ls"}),
        ("new_2", "terminal", {"command": "pwd"}),
        ("new_3", "todo_read", {}),
        ("new_4", "read_file", {"path": "x"}),
    ]


def test_calls_that_share_a_number_are_told_apart_by_id() -> None:
    assert calls_of(
        CallFragment(0, "a", "terminal", '{"command": "ls"}'),
        CallFragment(0, "b", "read_file", '{"path":'),
        CallFragment(0, "b", "", ' "x"}'),
        CallFragment(0, "c", "todo_read", ""),
    ) == [
        ("a", "terminal", {"command": "ls"}),
        ("b", "read_file", {"path": "x"}),
        ("c", "todo_read", {}),
    ]


def test_a_changing_id_within_a_call_does_not_split_it() -> None:
    assert calls_of(
        CallFragment(0, "a", "terminal", '{"command"'),
        CallFragment(0, "b", "", ': "l'),
        CallFragment(0, "c", "terminal", 's"}'),
    ) == [("a", "terminal", {"command": "ls"})]


@pytest.mark.parametrize(
    "names", [["read_file", "read_file", "read_file"], ["read", "_file", ""], ["re", "read_", "read_file"]]
)
def test_a_name_may_be_repeated_split_or_grown(names: list[str]) -> None:
    fragments = [
        CallFragment(0, "a", names[0]),
        CallFragment(0, "", names[1]),
        CallFragment(0, "", names[2], "{}"),
    ]
    assert [call.name for call in reply_to(*fragments).calls] == ["read_file"]


def test_a_name_repeated_with_each_piece_of_arguments_stays_one_call() -> None:
    fragments = [CallFragment(0, "a", "terminal", piece) for piece in ('{"comm', 'and": "{', '}"', "}", "")]
    assert calls_of(*fragments) == [("a", "terminal", {"command": "{}"})]


def test_ids_are_unique_and_never_empty() -> None:
    made = calls_of(
        CallFragment(0, "a", "todo_read"),
        CallFragment(1, "a", "todo_read"),
        CallFragment(2, " ", "todo_read"),
    )
    assert [call_id for call_id, _, _ in made] == ["a", "new_1", "new_2"]


def test_generated_ids_look_like_those_of_providers() -> None:
    decoder = CODEC.decoder(TOOLS)
    decoder.feed(CallFragment(0, "", "todo_read", ""))
    (call,) = decoder.finish()[1].calls
    assert call.id.startswith("call_")
    assert len(call.id) == 13
    int(call.id[5:], 16)


def test_arguments_may_come_as_an_object() -> None:
    fragment = CallFragment(0, "a", "terminal", {"command": "ls"})  # type: ignore[arg-type]
    assert calls_of(fragment) == [("a", "terminal", {"command": "ls"})]


def test_no_arguments_are_an_empty_object() -> None:
    assert calls_of(CallFragment(0, "a", "todo_read", "")) == [("a", "todo_read", {})]


def test_a_wrong_name_and_sloppy_arguments_are_mended_and_told() -> None:
    reply = reply_to(CallFragment(0, "a", "functions.Terminal", "{'command': 'ls',}"))
    assert reply.calls == (ToolCall("a", "terminal", '{"command":"ls"}'),)
    assert len(reply.repairs) == 2
    assert not reply.broken


def test_an_unknown_name_is_kept_for_the_answer_to_the_model() -> None:
    reply = reply_to(CallFragment(0, "a", "launch_rocket", "{}"))
    assert reply.calls == (ToolCall("a", "launch_rocket", "{}"),)


@pytest.mark.parametrize(
    "raw", ['{"path": "a.py", "content": "print(', '{"command": "rm -rf /tmp/x', '{"command": "ls"']
)
def test_a_truncated_call_must_not_run(raw: str) -> None:
    reply = reply_to(CallFragment(0, "a", "write_file", raw), ReplyEnd("length"))
    assert reply.calls == (ToolCall("a", "write_file", "{}"),)
    assert "cut off" in reply.broken["a"]


def test_a_call_beyond_repair_must_not_run_and_the_model_hears_why() -> None:
    reply = reply_to(
        CallFragment(0, "a", "terminal", '{"command": "echo "hi" there"}'),
        CallFragment(1, "b", "terminal", '{"command": "ls"}'),
    )
    assert [call.arguments for call in reply.calls] == ["{}", '{"command": "ls"}']
    assert set(reply.broken) == {"a"}
    assert reply.broken["a"].endswith("Nothing was run.")


def test_a_call_without_a_name_must_not_run() -> None:
    reply = reply_to(CallFragment(0, "a", "", '{"command": "ls"}'), CallFragment(1, "b", "", ""))
    assert [call.id for call in reply.calls] == ["a"]
    assert set(reply.broken) == {"a"}


FRAGMENTS = st.builds(
    CallFragment,
    st.integers(-2, 3),
    st.sampled_from(["", "a", "b", "\ud800"]),
    st.sampled_from(["", "terminal", "term", "inal", "read_file", "x y"]),
    st.sampled_from(["", "{", '{"command": "ls"}', "}", '"', "\\", "[", "\ud83d", "null"]),
)


@pytest.mark.thorough
@given(
    st.lists(
        FRAGMENTS | st.builds(TextDelta, st.sampled_from(["<think>", "</think>", "{", "a", LS])), max_size=12
    )
)
def test_whatever_comes_in_calls_are_well_formed(deltas: list[Delta]) -> None:
    reply = reply_to(*deltas)
    ids = [call.id for call in reply.calls]
    assert len(set(ids)) == len(ids)
    assert set(reply.broken) <= set(ids)
    for call in reply.calls:
        assert call.id
        assert call.name
        assert isinstance(json.loads(call.arguments), dict)
    for text in (reply.text, reply.reasoning, *ids):
        text.encode()


def test_fragments_are_shown_under_the_number_and_name_of_their_call() -> None:
    shown, _, _ = decoded([CallFragment(7, "a", "terminal", "{"), CallFragment(7, "", "", "}")])
    assert shown == [CallFragment(0, "a", "terminal", "{"), CallFragment(0, "a", "terminal", "}")]


def test_counts_and_ends_are_not_for_display() -> None:
    assert decoded([UsageDelta(Usage(1, 2)), ReplyEnd("stop")])[0] == []


# Reasoning in the text


@pytest.mark.sample(47)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>hm</think>Yes.", "hm", "Yes."),
        ("\n<think>\nhm\n</think>\n\nYes.", "\nhm\n", "Yes."),
        ("<think></think>\n\nYes.", "", "Yes."),
        ("<thinking>hm</thinking>Yes.", "hm", "Yes."),
        ("One <think>hm</think>two <think>m</think>three", "hmm", "One two three"),
        ("hm, so\n</think>\n\nYes.", "hm, so", "Yes."),
        ("<think>never ends", "never ends", ""),
        ("A <think> tag opens a thought.", "", "A <think> tag opens a thought."),
        ("a < b and <thin air> </thin", "", "a < b and <thin air> </thin"),
        ("Write `<think>` and `</think>`.", "", "Write `<think>` and `</think>`."),
        ("```\n<think>x</think>\n```\nso", "", "```\n<think>x</think>\n```\nso"),
        ("\n  indented", "", "\n  indented"),
        ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
        ("<seed:think>hm</seed:think>\nYes.", "hm", "Yes."),
        ("<|channel>thought\nhm<channel|>Yes.", "\nhm", "Yes."),
        ("<|channel>thought\n<channel|>Yes.<channel|>", "\n", "Yes."),
        ("<think></think>Yes.</think>", "", "Yes."),
        ("<|START_THINKING|>hm<|END_THINKING|>Yes.", "hm", "Yes."),
        ("<|open|>think<|sep|>hm<|close|>think<|sep|>Yes.", "hm", "Yes."),
        ("<think>a [/THINK] tag</think>Yes.", "a [/THINK] tag", "Yes."),
        ("a [THIN line] and <|chan", "", "a [THIN line] and <|chan"),
    ],
)
def test_thoughts_are_told_from_the_answer_wherever_they_are_cut(
    text: str, reasoning: str, answer: str, size: int
) -> None:
    shown, rest, reply = decoded(pieces(text, size))
    assert (reply.reasoning, reply.text) == (reasoning, answer)
    if "so\n</think>" not in text:
        assert joined([*shown, *rest]) == answer


def test_reasoning_of_the_provider_is_kept_apart() -> None:
    shown, _, reply = decoded([ReasoningDelta("hm"), TextDelta("</think>\n\nYes.")])
    assert (reply.reasoning, reply.text) == ("hm", "Yes.")
    assert shown[0] == ReasoningDelta("hm")


# Calls in the text


@pytest.mark.sample(36)
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_a_call_written_as_text_is_read_and_never_shown(text: str, size: int) -> None:
    shown, rest, reply = decoded(pieces(text, size))
    assert joined([*shown, *rest]).strip() == ""
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
        ("new_1", "terminal", {"command": "ls"})
    ]
    assert reply.text == ""
    assert reply.repairs


@pytest.mark.sample(41)
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("text", ANSWERS)
def test_text_that_is_no_call_is_shown_whole(text: str, size: int) -> None:
    shown, rest, reply = decoded(pieces(text, size))
    assert joined([*shown, *rest]) == reply.text == text
    assert reply.calls == ()


@pytest.mark.parametrize(
    "text", ["A plain answer.", '{"users": [1, 2, 3]}', "[1] A footnote", "```python\nx = 1\n```"]
)
def test_plain_text_is_shown_while_it_comes(text: str) -> None:
    shown, rest, _ = decoded(pieces(text))
    assert joined(shown) == text
    assert rest == []


@pytest.mark.sample(49)
@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_without_tools_everything_is_shown_while_it_comes(text: str) -> None:
    shown, rest, reply = decoded(pieces(text), ())
    assert joined([*shown, *rest]) == reply.text == text
    assert reply.calls == ()


def test_a_lead_in_is_shown_and_kept() -> None:
    shown, rest, reply = decoded(pieces(f"I look first.\n<tool_call>\n{LS}\n</tool_call>"))
    assert joined(shown) == "I look first.\n"
    assert rest == []
    assert reply.text == "I look first."
    assert len(reply.calls) == 1


def test_thoughts_before_a_written_call_are_no_part_of_it() -> None:
    reply = reply_to(*pieces(f"<think>I use {LS}</think>\n\n```json\n{LS}\n```"))
    assert len(reply.calls) == 1
    assert reply.reasoning == f"I use {LS}"


def test_tags_of_thought_inside_a_written_call_belong_to_it() -> None:
    content = "# Docs\n<think>a</think>\n"
    call = json.dumps({"name": "write_file", "arguments": {"path": "a", "content": content}})
    for text in (call, f"<tool_call>{call}</tool_call>"):
        (made,) = reply_to(*pieces(text, 3)).calls
        assert json.loads(made.arguments)["content"] == content


def test_thoughts_without_an_opening_tag_that_mention_a_call_are_still_thoughts() -> None:
    reply = reply_to(*pieces(f"<tool_call> {LS} would list.</think>Done.", 4))
    assert reply.calls == ()
    assert reply.text == "Done."
    assert "would list." in reply.reasoning


def test_text_that_repeats_the_real_call_is_dropped() -> None:
    fragment = CallFragment(0, "a", "terminal", '{"command": "ls"}')
    reply = reply_to(*pieces(f"<tool_call>{LS}</tool_call>"), fragment)
    assert [call.id for call in reply.calls] == ["a"]
    assert reply.text == ""


def test_text_beside_a_real_call_stays() -> None:
    fragment = CallFragment(0, "a", "terminal", '{"command": "ls"}')
    reply = reply_to(TextDelta("I look."), fragment)
    assert reply.text == "I look."
    assert len(reply.calls) == 1


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "`", "```", "\n", " ", "a", "<", "<tool_call>", LS, "{"])
    ),
    st.data(),
)
def test_the_way_a_text_is_cut_does_not_matter(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    cut = [TextDelta(text[a:b]) for a, b in itertools.pairwise([0, *cuts, len(text)])]
    one, other = decoded([TextDelta(text)])[2], decoded(cut)[2]
    assert (one.text, one.reasoning, one.calls) == (other.text, other.reasoning, other.calls)


@pytest.mark.thorough
def test_a_long_reply_in_tiny_pieces_comes_to_an_end() -> None:
    text = '{"name": "write_file", "arguments": {"path": "a", "content": "' + "<x> " * 20_000 + '"}}'
    assert len(reply_to(*pieces(text, 2)).calls) == 1
    assert reply_to(*pieces("word <b> `c` " * 5_000, 3)).calls == ()
