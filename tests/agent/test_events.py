"""The contract of the event stream and its documentation."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

from agent import events
from agent.events import ApprovalAsked, Event, QuestionAsked, ToolFinished
from agent.integrations import server_events
from agent.knowledge.canvas import documents as canvas_events
from tools.results import DiffDetail, Display

DOC = Path(__file__).parents[2] / "docs" / "events.md"


def all_events() -> list[type[Event]]:
    values = [*vars(events).values(), *vars(server_events).values(), *vars(canvas_events).values()]
    found = [value for value in values if isinstance(value, type) and issubclass(value, Event)]
    return [event for event in dict.fromkeys(found) if event.type]


def test_every_event_type_and_field_is_documented() -> None:
    rows = {
        line.split("`")[1]: line
        for line in DOC.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    }
    assert set(rows) == {event.type for event in all_events()}
    for event in all_events():
        for field in dataclasses.fields(event):
            if field.name not in ("agent", "seq") and field.metadata.get("json", True):
                assert f"`{field.metadata.get('name', field.name)}`" in rows[event.type], (
                    event.type,
                    field.name,
                )


def test_event_types_are_unique() -> None:
    names = [event.type for event in all_events()]
    assert len(names) == len(set(names))


def test_an_event_becomes_one_json_object_with_its_type_first() -> None:
    shown = ToolFinished(
        node=3,
        call="c1",
        tool="patch",
        outcome="done",
        seconds=0.1,
        result="{}",
        display=Display("edit", "a.py", "+1 −0", DiffDetail("+x")),
    ).to_json()
    assert next(iter(shown)) == "type"
    assert json.loads(json.dumps(shown))["display"]["detail"] == {"diff": "+x"}


async def test_the_future_of_a_request_stays_out_of_its_json() -> None:
    loop = asyncio.get_running_loop()
    question = QuestionAsked(
        id="q", question="?", choices=("a",), allow_freetext=True, reply=loop.create_future()
    ).to_json()
    approval = ApprovalAsked(id="a", tool="t", headline="h", reasons=(), reply=loop.create_future()).to_json()
    assert "reply" not in question
    assert "reply" not in approval
    assert question["choices"] == ["a"]
