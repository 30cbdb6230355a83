"""The Responses API, against a server that keeps nothing and refuses what the real one refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import Usage
from agent.core.messages import Attachment, Image, Message, Sealed, SealedPart, ToolCall
from agent.events import ReasoningAdded
from agent.model.dialect import DEFAULT, load
from agent.model.formats.responses import FORMAT
from agent.model.protocol import (
    CallFragment,
    Delta,
    ModelRequest,
    ReasoningDelta,
    SealedDelta,
    TextDelta,
    Thinking,
    UsageDelta,
)
from agent.model.repairs import Refusal, repairs_for
from agent.model.transport.item_events import ItemReader
from tests.support.engines import Bench, bench
from tests.support.images import png
from tests.support.model_server import Reply, call, calls, refuse, say
from tests.support.responses_form import ResponsesForm

CONFIG = """
model: {{name: work/{model}, thinking: {thinking}, retries: 1}}
providers: {{work: {{base_url: '{url}', format: responses, api_key_env: WORK_KEY}}}}
"""
ME = "work/gpt-5"


def prepared(b: Bench, model: str = "gpt-5", thinking: Any = "high") -> None:
    b.config(CONFIG.format(model=model, thinking=thinking, url=b.server.base_url))
    b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "WORK_KEY": "test-key"}


def kinds(body: dict[str, Any]) -> list[str]:
    return [item.get("role", item["type"]) for item in body["input"]]


LOOP = [
    calls(
        ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}), text="Both.", reasoning="Two ü🎉"
    ),
    call("read_file", path="a.txt"),
    say("Done."),
    say("Again."),
]


@pytest.mark.thorough
async def test_a_turn_with_encrypted_reasoning_and_calls_side_by_side(tmp_path: Path) -> None:
    forms = {"/v1/responses": ResponsesForm(phases=True)}
    async with bench(tmp_path, LOOP, forms=forms, api_key="test-key") as b:
        prepared(b)
        for name in "ab":
            (b.workspace / f"{name}.txt").write_text(f"file {name}\n")
        first = await b.turn("Read both")
        second = await b.turn("And again", resume=first.session)
        assert (first.text, second.text, b.server.refusals) == ("Done.", "Again.", [])
        bodies = [request.body for request in b.server.requests]
        once = ["user", "reasoning", "assistant", *["function_call"] * 2, *["function_call_output"] * 2]
        assert kinds(bodies[1]) == once
        assert kinds(bodies[3]) == [
            *(*once, "reasoning", "function_call", "function_call_output", "reasoning", "assistant", "user")
        ]
        assert bodies[3]["input"][: len(bodies[2]["input"])] == bodies[2]["input"]
        assert bodies[1]["input"][2]["phase"] == "commentary"
        assert bodies[0]["reasoning"] == {"effort": "high", "summary": "auto"}
        assert "".join(event.text for event in b.seen(ReasoningAdded)) == "Two ü🎉"
        assert (second.usage["cached"] or 0) > 0


def sealed_at_the_end(other_ids: bool, left_out: bool) -> Any:
    """Events of a gateway: reasoning is streamed readable, and signed in the whole response alone."""

    def edit(events: list[Any]) -> list[Any]:
        for event in events:
            item = event.get("item") or {}
            if item.get("type") == "reasoning":
                event["item"] = {name: value for name, value in item.items() if name != "encrypted_content"}
                event["item"] |= {"id": f"streamed_{event['type']}"} if other_ids else {}
        usage = events[-1]["response"]["usage"]
        usage |= {"cost": 0.25, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 7}}
        return [each for each in events if not left_out or "reasoning_summary" not in each["type"]]

    return (edit,)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("other_ids", "left_out"), [(False, False), (True, False), (False, True)])
async def test_reasoning_sealed_in_the_whole_response_alone_goes_back_where_it_stood(
    tmp_path: Path, other_ids: bool, left_out: bool
) -> None:
    loop = [replace(each, edits=sealed_at_the_end(other_ids, left_out)) for each in LOOP]
    async with bench(tmp_path, loop, forms={"/v1/responses": ResponsesForm()}, api_key="test-key") as b:
        prepared(b)
        ended = await b.turn("Read both")
        assert (ended.text, b.server.refusals) == ("Done.", [])
        assert kinds(b.server.requests[2].body) == [
            *("user", "reasoning", "assistant", *["function_call"] * 2, *["function_call_output"] * 2),
            *("reasoning", "function_call", "function_call_output"),
        ]
        assert ended.usage["cost"] == 0.75, "what a server says that a request cost counts"


async def test_a_model_whose_thoughts_were_not_kept_is_asked_for_none(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        if "reasoning" in request.body and any(item.get("call_id") for item in request.body["input"]):
            return refuse(400, "AnthropicException - Expected `thinking`, but found `tool_use`.")
        answered = any(item.get("call_id") for item in request.body["input"])
        return say("Done.") if answered else call("read_file", path="a.txt")

    async with bench(tmp_path, script, forms={"/v1/responses": ResponsesForm()}) as b:
        prepared(b)
        assert (await b.turn("Read a.txt")).outcome == "done"
        assert "reasoning" not in b.server.requests[-1].body


@pytest.mark.sample(1)
@pytest.mark.parametrize("thinking", ["off", "null", "low", 20_000])
@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.2", "gpt-4.1"])
async def test_every_model_takes_what_is_asked_of_it(tmp_path: Path, model: str, thinking: Any) -> None:
    form = ResponsesForm(plain=frozenset({"gpt-4.1"}))
    async with bench(tmp_path, [say("Hi.")], forms={"/v1/responses": form}) as b:
        prepared(b, model, thinking)
        assert ((await b.turn("Hi")).text, b.server.refusals) == ("Hi.", [])


async def test_a_plain_answer_without_a_stream_is_read(tmp_path: Path) -> None:
    first = calls(("read_file", {"path": "a.txt"}), reasoning="Hm.", stream=False)
    script = [first, say("Read.", stream=False)]
    async with bench(tmp_path, script, forms={"/v1/responses": ResponsesForm()}) as b:
        prepared(b)
        assert ((await b.turn("Read")).text, b.server.refusals) == ("Read.", [])


def failed(code: str) -> Any:
    error = {"code": code, "message": "Something went wrong."}
    event = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    return say("Half of", edits=(lambda events: [*events[:4], event],))


def erred(code: str) -> Any:
    event = {"type": "error", "code": code, "message": "Something went wrong.", "param": None}
    return say("Half of", edits=(lambda events: [*events[:4], event],))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "trouble",
    [
        *(failed("server_error"), failed("rate_limit_exceeded"), erred("server_error"), refuse(503, "Busy.")),
        say("Half of an answer", cut_at=-200),
    ],
)
async def test_what_may_pass_is_tried_again(tmp_path: Path, trouble: Any) -> None:
    async with bench(tmp_path, [trouble, say("Whole.")], forms={"/v1/responses": ResponsesForm()}) as b:
        prepared(b)
        assert ((await b.turn("Hi")).text, b.server.refusals) == ("Whole.", [])


async def test_an_answer_that_hits_the_limit_goes_on(tmp_path: Path) -> None:
    script = [say("One, ", finish="length"), say("two.")]
    async with bench(tmp_path, script, forms={"/v1/responses": ResponsesForm()}) as b:
        prepared(b)
        assert ((await b.turn("Count")).text, b.server.refusals) == ("One, two.", [])


def items(*messages: Message, owner: str = ME) -> list[dict[str, Any]]:
    framer = FORMAT.framer(owner, b"")
    return [json.loads(frame.data) for message in messages for frame in framer.frames(message)]


REASONED = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x=="})
LS = ToolCall("c 1", "terminal", '{"command": "ls"}')


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (Message("assistant", "Hi", model=ME), ["reasoning", "message"]),
        (Message("assistant", "", (LS,), model=ME), ["reasoning", "function_call"]),
        (Message("assistant", "", model=ME), ["message"]),
        (Message("assistant", "Hi", model="other/gpt-5"), ["message"]),
    ],
)
def test_reasoning_goes_back_only_to_its_model_and_before_what_followed(message: Message, left: Any) -> None:
    kept = Sealed("responses", "", (SealedPart(REASONED),))
    message = Message(message.role, message.content, message.tool_calls, model=message.model, sealed=kept)
    assert [item["type"] for item in items(message)] == left


def test_calls_results_and_images_have_the_form_of_items() -> None:
    picture = Attachment("a.png", "image/png", 9, "0" * 64)
    asked = Message("user", "Look", images=(Image(picture, png()),))
    made = items(asked, Message("assistant", "", (LS,)), Message("tool", "", call_id="c 1"))
    assert [part["type"] for part in made[0]["content"]] == ["input_text", "input_image"]
    assert made[1]["call_id"] == made[2]["call_id"] != "c 1"
    assert json.loads(made[1]["arguments"]) == {"command": "ls"} and made[2]["output"] == "(no output)"


@pytest.mark.parametrize(
    ("model", "complaint", "left_out"),
    [
        ("x", "Your organization must be verified to generate reasoning summaries.", "summary"),
        ("x", "Encrypted content is not supported with this model.", "encrypted_content"),
        ("x", "Unsupported parameter: 'temperature'", "temperature"),
        ("gpt-5.1", "Unsupported value: 'none' is not supported", "effort none"),
        ("x", "Unsupported value: 'low' is not supported", "effort low"),
        ("x", "Unknown parameter: 'prompt_cache_key'", "prompt_cache_key"),
        ("x", "Unsupported parameter: 'reasoning.effort'", "reasoning"),
        ("x", "No tool output found for function call c.", ""),
    ],
)
def test_what_a_model_refuses_is_not_asked_again(model: str, complaint: str, left_out: str) -> None:
    refusal = Refusal(400, complaint, model=model, format="responses")
    fields = [repair.change for repair in repairs_for(load(DEFAULT), refusal) if repair.rule == "drop_field"]
    assert fields[:1] == ([{"limits": {"without": [left_out]}}] if left_out else [])


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [(None, None), ("off", "minimal"), ("low", "low"), (9_000, "medium"), (90_000, "high")],
)
def test_levels_and_budgets_become_efforts(thinking: Thinking | None, effort: str | None) -> None:
    request = ModelRequest(model="gpt-5", frames=(), thinking=thinking)
    body = json.loads(FORMAT.body(request, load(DEFAULT)))
    assert body["reasoning"].get("effort") == effort
    assert (body["store"], body["input"]) == (False, [])


def test_a_whole_response_at_the_end_is_enough() -> None:
    part = {"type": "output_text", "text": "Hi"}
    output = [
        {
            "type": "reasoning",
            "id": "r",
            "summary": [{"text": "hm"}],
            "encrypted_content": "e",
            "status": None,
        },
        {"type": "message", "content": [part]},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
    ]
    usage = {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}}
    reader = ItemReader()
    response = {"status": "completed", "output": output, "usage": usage}
    expected: list[Delta] = [
        ReasoningDelta("hm"),
        SealedDelta(json.dumps({name: value for name, value in output[0].items() if value is not None})),
        TextDelta("Hi"),
        CallFragment(0, "c", "ls"),
        CallFragment(0, arguments="{}"),
        UsageDelta(Usage(input=5, output=3, reasoning=2)),
    ]
    assert reader.read({"type": "response.completed", "response": response}) == expected
    assert (reader.finish, reader.over) == ("tool_calls", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
ITEM = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "reasoning", "odd"])},
    optional={
        **dict.fromkeys(("call_id", "name", "arguments", "content", "summary", "phase"), JSON),
        "encrypted_content": JSON,
    },
)
EVENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                *("response.created", "response.output_item.added", "response.output_item.done", "error"),
                *("response.output_text.delta", "response.function_call_arguments.delta", "response.failed"),
                *("response.reasoning_summary_text.delta", "response.completed", "response.incomplete"),
            ]
        )
    },
    optional={
        "output_index": st.integers(0, 2) | st.none() | st.text(max_size=2),
        "item": ITEM,
        "delta": JSON,
        "response": JSON | st.fixed_dictionaries({"output": st.lists(ITEM, max_size=2), "usage": JSON}),
        "error": JSON,
    },
)


@pytest.mark.thorough
@given(st.lists(EVENT, max_size=12))
def test_no_event_of_any_shape_raises(events: list[dict[str, Any]]) -> None:
    reader = ItemReader()
    for event in events:
        reader.complaint(event)
        for delta in reader.read(event):
            repr(delta).encode("utf-8", "surrogatepass")
    reader.flush()
