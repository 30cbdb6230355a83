"""Schema mode: what goes out, and how replies are read while they come in."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import Message, ToolCall
from agent.model.codecs import codec_for
from agent.model.codecs.codec import DecodedReply
from agent.model.codecs.schema import (
    NEXT_STEP,
    JsonStringReader,
    SchemaCodec,
    flat_result,
    reply_schema,
    simple_schema,
)
from agent.model.protocol import CallFragment, Delta, ReasoningDelta, ReplyEnd, TextDelta, ToolSpec
from tests.agent.model.offer import chat_form

TERMINAL = ToolSpec(
    "terminal",
    "Run a command.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run."},
            "timeout": {"type": "integer", "minimum": 1, "maximum": 600, "default": 180},
        },
        "required": ["command"],
    },
)
TODO = ToolSpec(
    "todo_write",
    "Write the list.",
    {
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "maxItems": 5,
                "items": {
                    "type": "object",
                    "properties": {"status": {"type": "string", "enum": ["pending", "completed"]}},
                    "required": ["status"],
                },
            }
        },
        "required": ["todos"],
    },
)
TOOLS = (TERMINAL, TODO)
CODEC = SchemaCodec()


def read(*pieces: str, tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[list[Delta], DecodedReply]:
    decoder = CODEC.decoder(tools)
    shown = [delta for piece in pieces for delta in decoder.feed(TextDelta(piece))]
    rest, reply = decoder.finish()
    return shown + rest, reply


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def answer(text: str, **options: Any) -> str:
    return json.dumps({"name": "final_answer", "arguments": {"text": text}}, **options)


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


def wire(message: Message) -> dict[str, Any]:
    return json.loads(chat_form(CODEC, message))


# What goes out


def test_the_codec_is_found_by_its_mode() -> None:
    assert codec_for("schema").mode == "schema"


def test_no_tools_travel_in_the_tools_field() -> None:
    assert CODEC.native_tools(TOOLS) == ()


def test_the_system_prompt_names_every_tool_with_its_parameters() -> None:
    prompt = CODEC.system("Be kind.", TOOLS)
    assert prompt.startswith("Be kind.")
    assert "- terminal(command, timeout?): Run a command.\n    command: What to run." in prompt
    assert '{"name": "final_answer"' in prompt


def test_without_tools_only_the_answer_is_asked_for() -> None:
    prompt = CODEC.system("Be kind.", ())
    assert "tool" not in prompt
    assert reply_schema(())["properties"]["name"] == {"const": "final_answer"}


def test_the_schema_offers_one_alternative_per_tool_and_the_answer() -> None:
    schema = CODEC.reply_schema(TOOLS)
    assert schema is not None
    names = [choice["properties"]["name"]["const"] for choice in schema["anyOf"]]
    assert names == ["terminal", "todo_write", "final_answer"]
    assert all(choice["required"] == ["name", "arguments"] for choice in schema["anyOf"])


def test_the_name_is_written_before_the_arguments() -> None:
    for choice in reply_schema(TOOLS)["anyOf"]:
        assert list(choice["properties"]) == ["name", "arguments"]


def test_keywords_that_grammar_converters_dislike_are_left_out() -> None:
    assert simple_schema(TERMINAL.parameters) == {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
        "additionalProperties": False,
    }
    assert "maxItems" not in json.dumps(simple_schema(TODO.parameters))
    assert simple_schema(TODO.parameters)["properties"]["todos"]["items"]["properties"]["status"]["enum"]


def test_a_parameter_may_be_called_like_a_keyword() -> None:
    parameters = {
        "type": "object",
        "properties": {"default": {"type": "string"}, "format": {"type": "string"}},
    }
    assert set(simple_schema(parameters)["properties"]) == {"default", "format"}


def test_references_are_written_out_and_recursion_ends() -> None:
    parameters = {
        "type": "object",
        "properties": {"point": {"$ref": "#/$defs/point"}, "tree": {"$ref": "#/$defs/tree"}},
        "$defs": {
            "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
        },
    }
    simple = simple_schema(parameters)
    assert simple["properties"]["point"]["properties"] == {"x": {"type": "number"}}
    assert "$ref" not in json.dumps(simple)
    assert len(json.dumps(simple)) < 5_000


@pytest.mark.parametrize(
    "broken", [{}, {"properties": None}, {"properties": {"x": True}}, {"required": ["y"]}]
)
def test_odd_parameters_still_give_a_schema(broken: dict[str, Any]) -> None:
    assert simple_schema(broken)["type"] == "object"
    assert CODEC.system("", (ToolSpec("odd", "", broken),))


def test_alternatives_and_parts_are_kept() -> None:
    parameters = {
        "properties": {"value": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
        "allOf": [{"properties": {"more": {"type": "boolean"}}}],
    }
    simple = simple_schema(parameters)
    assert simple["properties"]["value"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert simple["properties"]["more"] == {"type": "boolean"}


def test_an_answer_goes_back_in_the_form_the_model_wrote_it() -> None:
    sent = wire(Message("assistant", 'Ärger "quoted"'))
    assert sent["role"] == "assistant"
    assert sent["content"] == '{"name": "final_answer", "arguments": {"text": "Ärger \\"quoted\\""}}'


def test_a_call_goes_back_byte_for_byte() -> None:
    written = '{"name": "terminal", "arguments": {"command":  "ls",\n"timeout": 5}}'
    _, reply = read(written)
    assert wire(Message("assistant", "", reply.calls))["content"] == written


def test_a_result_comes_as_a_user_message_that_asks_for_the_next_step() -> None:
    sent = wire(Message("tool", '{"output": "a\\nb\\n", "exit_code": 0}', call_id="c1"))
    assert sent == {
        "role": "user",
        "content": f"Tool result:\noutput:\na\nb\nexit_code: 0\n\n{NEXT_STEP}",
    }


@pytest.mark.parametrize("content", ["", "plain", "[1, 2]", '"text"', '{"open": ', "[" * 5_000])
def test_a_result_that_is_no_object_stays_as_it_is(content: str) -> None:
    assert flat_result(content) == content


def test_empty_output_is_said_to_be_empty() -> None:
    assert flat_result('{"output": "", "error": null}') == "output: (empty)\nerror: null"


@given(st.text(), st.sampled_from(["system", "user", "assistant", "tool"]))
def test_the_same_message_gives_the_same_bytes(text: str, role: Any) -> None:
    message = Message(role, text, call_id="c1" if role == "tool" else "")
    assert chat_form(CODEC, message) == chat_form(CODEC, message)
    assert b"\n" not in chat_form(CODEC, message)


def test_several_calls_of_another_model_are_all_told() -> None:
    calls = (ToolCall("a", "terminal", '{"command": "ls"}'), ToolCall("b", "todo_write", ""))
    content = wire(Message("assistant", "First.", calls))["content"]
    assert content.splitlines() == [
        "First.",
        '{"name": "terminal", "arguments": {"command": "ls"}}',
        '{"name": "todo_write", "arguments": {}}',
    ]


# What comes in


@pytest.mark.thorough
@given(
    st.text(max_size=60),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.lists(st.integers(0, 500), max_size=12),
)
def test_an_answer_streams_whole_however_it_is_cut(
    text: str, ascii_only: bool, indent: int | None, places: list[int]
) -> None:
    deltas, reply = read(*cut(answer(text, ensure_ascii=ascii_only, indent=indent), places))
    assert text_of(deltas) == text == reply.text
    assert reply.calls == ()
    assert reply.repairs == ()


@given(st.lists(st.integers(0xD000, 0xE0FF), max_size=8), st.lists(st.integers(0, 60), max_size=8))
def test_halves_of_surrogate_pairs_become_one_sign_each(codes: list[int], places: list[int]) -> None:
    escaped = "".join(f"\\u{code:04x}" for code in codes)
    expected = json.loads(f'"{escaped}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    reader = JsonStringReader()
    read_text = "".join(reader.feed(piece) for piece in cut(escaped + '"', places)) + reader.finish()
    assert read_text == expected
    assert reader.closed


def test_the_answer_shows_before_the_reply_is_complete() -> None:
    decoder = CODEC.decoder(TOOLS)
    assert decoder.feed(TextDelta('{"name": "final_answer", "arguments": {"text": "The sun')) == [
        TextDelta("The sun")
    ]
    assert decoder.feed(TextDelta(" is \\u26")) == [TextDelta(" is ")]
    assert decoder.feed(TextDelta("05")) == [TextDelta("\u2605")]


def test_an_answer_that_is_cut_off_keeps_what_there_is() -> None:
    deltas, reply = read('{"name": "final_answer", "arguments": {"text": "Half a sen\\u00')
    assert text_of(deltas) == reply.text == "Half a sen"
    assert reply.repairs


def test_an_unknown_escape_is_kept_as_written() -> None:
    _, reply = read('{"name": "final_answer", "arguments": {"text": "C:\\dir \\u12zz"}}')
    assert reply.text == "C:\\dir \\u12zz"


@given(
    st.dictionaries(st.text(max_size=8), st.text(max_size=20) | st.integers() | st.none(), max_size=4),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_a_call_is_read_whole_however_it_is_cut(arguments: dict[str, Any], places: list[int]) -> None:
    written = json.dumps({"name": "terminal", "arguments": arguments})
    deltas, reply = read(*cut(written, places))
    assert text_of(deltas) == reply.text == ""
    assert [call.name for call in reply.calls] == ["terminal"]
    assert json.loads(reply.calls[0].arguments) == arguments
    assert any(isinstance(delta, CallFragment) and delta.name == "terminal" for delta in deltas)


def test_calls_have_ids_of_their_own() -> None:
    ids = {read('{"name": "terminal", "arguments": {"command": "ls"}}')[1].calls[0].id for _ in range(50)}
    assert len(ids) == 50


def test_the_order_of_the_fields_does_not_matter() -> None:
    _, call = read('{"arguments": {"command": "ls"}, "name": "terminal"}')
    assert json.loads(call.calls[0].arguments) == {"command": "ls"}
    deltas, said = read('{"arguments": {"text": "Hi"}, "name": "final_answer"}')
    assert text_of(deltas) == said.text == "Hi"


@pytest.mark.parametrize(
    "reply",
    [
        '{"name": "final_answer", "arguments": "Hi"}',
        '{"name": "final_answer", "arguments": {"answer": "Hi"}}',
        "Hi",
        "\n  Hi",
    ],
)
def test_answers_in_other_notations_are_understood(reply: str) -> None:
    deltas, decoded = read(*reply)
    assert text_of(deltas).strip() == decoded.text.strip() == "Hi"
    assert decoded.calls == ()


def test_plain_text_streams_at_once() -> None:
    decoder = CODEC.decoder(TOOLS)
    assert decoder.feed(TextDelta("The answer")) == [TextDelta("The answer")]
    assert decoder.feed(TextDelta(' is {"x": 1}')) == [TextDelta(' is {"x": 1}')]


@pytest.mark.parametrize(
    "reply",
    [
        '```json\n{"name": "terminal", "arguments": {"command": "ls"}}\n```',
        '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>',
        '[{"name": "terminal", "arguments": {"command": "ls"}}]',
        '{"name": "terminal", "arguments": "{\\"command\\": \\"ls\\"}"}',
        '{"name": "terminal", "arguments": {"command": "ls"}',
        '{"name": "Terminal", "arguments": {"command": "ls",}}',
    ],
)
def test_calls_in_other_notations_are_rescued(reply: str) -> None:
    deltas, decoded = read(*reply)
    assert text_of(deltas) == ""
    assert [(call.name, json.loads(call.arguments)) for call in decoded.calls] == [
        ("terminal", {"command": "ls"})
    ]
    assert decoded.broken == {}


@pytest.mark.parametrize(
    "reply",
    [
        '{"name": "terminal", "arguments": {"command": "rm -r build',
        '{"name": "terminal", "arguments": {"command": "rm -r build"',
        '{"name": "terminal", "arguments": ',
        '{"name": "terminal", "arguments": {"command": "echo "a" > b"}}',
    ],
)
def test_a_call_that_is_cut_off_or_beyond_repair_never_runs(reply: str) -> None:
    _, decoded = read(*reply)
    (call,) = decoded.calls
    assert call.arguments == "{}"
    assert decoded.broken[call.id]


@pytest.mark.parametrize("reply", ["{", '{"na', '{"name": "termi', '{"name": "terminal", "argu', "{\n  "])
def test_a_reply_cut_off_before_its_name_is_empty(reply: str) -> None:
    deltas, decoded = read(reply)
    assert deltas == []
    assert decoded.text == ""
    assert decoded.repairs


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1}',
        "[1, 2, 3]",
        "```python\nprint(1)\n```",
        "<b>bold</b>",
        '{"name": "Ida", "age": 3}',
        "`a`",
        "",
    ],
)
def test_text_that_only_looks_like_a_call_is_shown_in_the_end(text: str) -> None:
    deltas, decoded = read(*text)
    assert text_of(deltas) == decoded.text == text


def test_an_unknown_tool_reaches_the_engine_under_its_name() -> None:
    _, decoded = read('{"name": "launch_rocket", "arguments": {}}')
    assert decoded.calls[0].name == "launch_rocket"


def test_a_lone_surrogate_in_arguments_is_made_harmless() -> None:
    _, decoded = read('{"name": "terminal", "arguments": {"command": "echo \\ud800"}}')
    decoded.calls[0].arguments.encode()
    json.loads(decoded.calls[0].arguments)["command"].encode()


def test_reasoning_and_other_deltas_pass_through() -> None:
    decoder = CODEC.decoder(TOOLS)
    assert decoder.feed(ReasoningDelta("Hm. ")) == [ReasoningDelta("Hm. ")]
    assert decoder.feed(ReplyEnd("stop")) == [ReplyEnd("stop")]
    assert decoder.feed(TextDelta("")) == []
    decoder.feed(TextDelta("Hi"))
    assert decoder.finish()[1].reasoning == "Hm. "


@given(st.text(alphabet='{}[]",:\\ nameargutsfil_0', max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_no_reply_breaks_the_reader_and_cuts_do_not_matter(reply: str, places: list[int]) -> None:
    deltas, whole = read(reply)
    pieces, parted = read(*cut(reply, places))
    assert text_of(deltas) == text_of(pieces)
    assert (whole.text, whole.repairs) == (parted.text, parted.repairs)
    assert [call.arguments for call in whole.calls] == [call.arguments for call in parted.calls]


@pytest.mark.thorough
def test_a_long_reply_takes_linear_time() -> None:
    """A quadratic reader would not end within the suite's time limit."""
    text = "a\\n" * 100_000
    decoder = CODEC.decoder(TOOLS)
    decoder.feed(TextDelta('{"name": "final_answer", "arguments": {"text": "'))
    for start in range(0, len(text), 3):
        decoder.feed(TextDelta(text[start : start + 3]))
    decoder.feed(TextDelta('"}}'))
    _, reply = decoder.finish()
    assert reply.text == "a\n" * 100_000
