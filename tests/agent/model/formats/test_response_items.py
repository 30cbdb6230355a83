"""Items of a Responses stream, told apart as servers that are not OpenAI's name them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.model.codecs import codec_for
from agent.model.protocol import CallFragment, ReasoningDelta, SealedDelta, TextDelta, ToolSpec, UsageDelta
from agent.model.transport.item_events import ItemReader
from tests.support.engines import bench
from tests.support.model_server import calls, say
from tests.support.responses_form import ResponsesForm

Events = list[Any]

CONFIG = """
model: {{name: work/tiny, max_output: {limit}, retries: 1}}
providers: {{work: {{base_url: '{url}', format: {format}, tool_mode: native, api_key_env: WORK_KEY}}}}
"""


def opened(number: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": number, "item": item}


def closed(number: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": number, "item": item}


def piece(number: int, kind: str, name: str, text: str) -> dict[str, Any]:
    return {
        "type": f"response.{kind}.delta",
        "output_index": number,
        "item_id": name,
        "content_index": 0,
        "delta": text,
    }


def call_item(name: str, arguments: str = "") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": f"call_{name}",
        "name": f"look_{name}",
        "arguments": arguments,
    }


def message_item(text: str = "") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def stream() -> Events:
    """A thought, a text and two calls, all opened before the first is done."""
    ends = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"text": "Hm."}]},
        message_item("Both."),
        call_item("a", '{"path": "a.txt"}'),
        call_item("b", '{"path": "b.txt"}'),
    ]
    return [
        opened(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
        piece(0, "reasoning_text", "rs_1", "Hm."),
        opened(1, message_item()),
        piece(1, "output_text", "msg_1", "Bo"),
        piece(1, "output_text", "msg_1", "th."),
        opened(2, call_item("a")),
        piece(2, "function_call_arguments", "fc_a", '{"path": '),
        piece(2, "function_call_arguments", "fc_a", '"a.txt"}'),
        opened(3, call_item("b")),
        piece(3, "function_call_arguments", "fc_b", '{"path": "b.txt"}'),
        *(closed(number, item) for number, item in enumerate(ends)),
        {
            "type": "response.completed",
            "response": {
                "object": "response",
                "status": "completed",
                "output": ends,
                "usage": {"input_tokens": 50, "output_tokens": 20},
            },
        },
    ]


def without(*names: str) -> Callable[[Events], Events]:
    def strip(events: Events) -> Events:
        for event in events:
            for name in names:
                event.pop(name, None)
        return events

    return strip


def all_numbered(number: int) -> Callable[[Events], Events]:
    return lambda events: [{**event, "output_index": number} for event in events]


def ids_change(events: Events) -> Events:
    """As a proxy does that encrypts ids: another one in each event."""
    fresh = itertools.count()
    for event in events:
        if "item_id" in event:
            event["item_id"] = f"x{next(fresh)}"
        if "id" in event.get("item", ()):
            event["item"]["id"] = f"x{next(fresh)}"
    return events


def nameless(events: Events) -> Events:
    """No number, and no id but that of the call."""
    for event in without("output_index", "item_id")(events):
        event.get("item", {}).pop("id", None)
    return events


def ids_of_calls(events: Events) -> Events:
    """Pieces that name the call rather than its item."""
    for event in without("output_index")(events):
        if event.get("item_id", "").startswith("fc_"):
            event["item_id"] = event["item_id"].replace("fc_", "call_")
    return events


def only(*kinds: str) -> Callable[[Events], Events]:
    wanted = tuple(f"response.{kind}" for kind in (*kinds, "completed"))
    return lambda events: [event for event in events if event["type"].startswith(wanted)]


def never_opened(events: Events) -> Events:
    """Pieces and ends, named by ids alone."""
    return without("output_index")([each for each in events if not each["type"].endswith("added")])


def mixed_up(events: Events) -> Events:
    """Pieces of the calls take turns, and the calls end in the other order."""
    events = without("output_index")(events)
    events[6:10] = [events[each] for each in (8, 6, 9, 7)]
    events[10:14] = reversed(events[10:14])
    events[6], events[7] = opened(0, call_item("a")), events[6]
    return without("output_index")(
        [
            *events[:5],
            opened(0, call_item("a")),
            opened(0, call_item("b")),
            piece(0, "function_call_arguments", "fc_a", '{"path": '),
            piece(0, "function_call_arguments", "fc_b", '{"path": "b'),
            piece(0, "function_call_arguments", "fc_a", '"a.txt"}'),
            piece(0, "function_call_arguments", "fc_b", '.txt"}'),
            *events[10:],
        ]
    )


def whole_pieces(events: Events) -> Events:
    """Each part in one piece that calls itself done, and no ends of items."""
    found = [each for each in events if each["type"].endswith("added")]
    number = {"msg_1": ("output_text", "text", "Both."), "rs_1": ("", "", "")}
    made: Events = []
    for event in found:
        made.append(event)
        item = event["item"]
        if item["type"] == "function_call":
            given = json.dumps({"path": f"{item['id'][-1]}.txt"})
            kind, field, text = "function_call_arguments", "arguments", given
        else:
            kind, field, text = number[item["id"]]
        if kind:
            made.append({"type": f"response.{kind}.done", "item_id": item["id"], field: text})
        else:
            made.append({"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."})
    return without("output_index")([*made, events[-1]])


VARIANTS: dict[str, Callable[[Events], Events]] = {
    "as published": lambda events: events,
    "no numbers": without("output_index"),
    "one number for all": all_numbered(0),
    "one number for all, and ids of pieces alone": lambda events: all_numbered(0)(nameless_ends(events)),
    "other ids in every event": ids_change,
    "neither numbers nor ids": nameless,
    "pieces name the call": ids_of_calls,
    "only ends": only("output_item.done"),
    "ends without numbers": lambda events: without("output_index")(only("output_item.done")(events)),
    "never opened": never_opened,
    "pieces take turns": mixed_up,
    "whole pieces": whole_pieces,
    "only the whole response": only(),
    "calls only in the whole response": lambda events: [*events[:5], events[-1]],
}


def nameless_ends(events: Events) -> Events:
    for event in events:
        if event["type"].endswith("item.done"):
            event["item"].pop("id", None)
    return events


def read(events: Events) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Text, reasoning and calls as the native mode understands them."""
    reader = ItemReader()
    tools = tuple(ToolSpec(f"look_{name}", "", {}) for name in "ab")
    decoder = codec_for("native").decoder(tools)
    for event in events:
        for delta in reader.read(event):
            if not isinstance(delta, UsageDelta | SealedDelta):
                assert isinstance(delta, TextDelta | ReasoningDelta | CallFragment)
                decoder.feed(delta)
    assert reader.over
    assert reader.finish == "tool_calls"
    reply = decoder.finish()[1]
    assert not reply.broken
    return reply.text, reply.reasoning, [(each.id, each.name, each.arguments) for each in reply.calls]


@pytest.mark.parametrize("variant", VARIANTS)
def test_items_are_told_apart_however_a_server_names_them(variant: str) -> None:
    events = VARIANTS[variant](json.loads(json.dumps(stream())))
    assert read(events) == (
        "Both.",
        "Hm.",
        [
            ("call_a", "look_a", '{"path": "a.txt"}'),
            ("call_b", "look_b", '{"path": "b.txt"}'),
        ],
    )


def test_two_texts_without_numbers_stay_two_in_their_order() -> None:
    first, second = ({**message_item(), "id": name} for name in ("m1", "m2"))
    events = [opened(0, first), opened(1, second)]
    events += [piece(1, "output_text", "m2", "two"), closed(0, {**message_item("one"), "id": "m1"})]
    reader = ItemReader()
    deltas = [delta for event in without("output_index")(events) for delta in reader.read(event)]
    assert deltas == [TextDelta("two"), TextDelta("one")]


@pytest.mark.parametrize("reason", [None, {}, {"reason": "max_tokens"}, {"reason": "length"}])
def test_an_incomplete_response_was_cut_whatever_reason_it_gives(reason: Any) -> None:
    reader = ItemReader()
    response = {"status": "incomplete", "incomplete_details": reason, "output": []}
    reader.read({"type": "response.incomplete", "response": response})
    assert reader.finish == "length"


async def test_two_calls_of_a_server_that_numbers_nothing_are_both_carried_out(tmp_path: Path) -> None:
    both = calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    script = [say("", edits=()), say("Two files.")]
    script[0] = type(both)(calls=both.calls, edits=(without("output_index", "sequence_number"),))
    async with bench(tmp_path, script, forms={"/v1/responses": ResponsesForm()}) as b:
        b.config(CONFIG.format(limit="null", url=b.server.base_url, format="responses"))
        b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "WORK_KEY": "k"}
        for name in "ab":
            (b.workspace / f"{name}.txt").write_text(f"This is {name}.")
        ended = await b.turn("Read both")
        assert (ended.outcome, ended.text, b.server.refusals) == ("done", "Two files.", [])
        results = [item["output"] for item in b.server.requests[1].body["input"] if "output" in item]
        assert ["This is a." in results[0], "This is b." in results[1]] == [True, True]
