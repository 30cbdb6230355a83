"""Events as updates of an editor: whatever happens, each update holds against the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acp import schema
from hypothesis import given
from hypothesis import strategies as some

from agent.events import (
    Event,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
)
from app.editor.event_updates import EventUpdates, text
from tools.context import Todo
from tools.results import DiffDetail, Display, TextDetail

TEXT = some.text(some.characters(codec=None), max_size=40)
ARGUMENTS = some.dictionaries(
    some.sampled_from(["path", "command", "x"]) | TEXT,
    some.recursive(
        TEXT | some.integers() | some.floats() | some.booleans() | some.none(),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)
DETAIL = some.none() | some.builds(TextDetail, TEXT) | some.builds(DiffDetail, TEXT)
DISPLAY = some.builds(Display, TEXT, TEXT, TEXT, DETAIL)
CALL = some.sampled_from(["a", "b"])
TOOL = some.sampled_from(["terminal", "patch", "web_get", "other"])
EVENTS: some.SearchStrategy[Event] = some.one_of(
    some.builds(TextAdded, text=TEXT),
    some.builds(ToolStarted, call=CALL, tool=TOOL, arguments=ARGUMENTS, display=DISPLAY),
    some.builds(ToolProgressed, call=CALL, text=TEXT),
    some.builds(
        ToolFinished,
        node=some.just(1),
        call=CALL,
        tool=TOOL,
        outcome=some.sampled_from(["done", "failed", "denied", "interrupted"]),
        seconds=some.just(0.1),
        result=TEXT | ARGUMENTS.map(json.dumps),
        display=DISPLAY,
    ),
    some.builds(
        TodosChanged,
        items=some.lists(
            some.builds(
                Todo, TEXT, TEXT, some.sampled_from(["pending", "in_progress", "completed", "cancelled"])
            ),
            max_size=3,
        ).map(tuple),
    ),
)


@given(some.lists(EVENTS, max_size=8))
def test_every_update_is_what_the_schema_reads(events: list[Event]) -> None:
    updates = EventUpdates(Path("/srv"))
    for event in events:
        for update in updates.of(event):
            sent: Any = schema.SessionNotification(session_id="s", update=update).model_dump(
                mode="json", by_alias=True, exclude_none=True, exclude_unset=True
            )
            line = json.dumps(sent, allow_nan=False)
            read = schema.SessionNotification.model_validate_json(line)
            again = read.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
            assert json.loads(line) == again


def test_a_call_id_is_unique_though_the_server_of_the_model_counts_anew() -> None:
    updates = EventUpdates(Path("/srv"))
    sent: list[Any] = []
    for number, tool in enumerate(("terminal", "write_file", "todo")):
        show = Display("call", tool)
        if tool != "todo":  # a call with faulty arguments ends without a beginning
            sent += updates.of(ToolStarted(call="call_0", tool=tool, arguments={}, display=show))
        fields: dict[str, Any] = {"seconds": 0.0, "result": "{}", "display": show, "outcome": "done"}
        sent += updates.of(ToolFinished(node=number, call="call_0", tool=tool, **fields))
        sent += updates.show_changes(updates.ids.of("call_0"), [text(tool)])
        sent += updates.of(TurnEnded(outcome="done", text="", session="s", usage={}, error=""))
    cards: dict[str, list[Any]] = {}
    for each in sent:
        cards.setdefault(each.tool_call_id, []).append(each)
    assert len(cards) == 3
    for tool, card in zip(("terminal", "write_file", "todo"), cards.values(), strict=True):
        assert [each.session_update for each in card] == ["tool_call", *["tool_call_update"] * 2]
        assert card[0].title.endswith(tool) and card[-1].content[0].content.text == tool
