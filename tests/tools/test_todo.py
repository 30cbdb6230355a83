from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tool_context import FakeContext
from tools.context import Todo
from tools.registry import call_tool, registry
from tools.results import TextDetail, ToolError
from tools.todo_tool import (
    AFTER_ERROR,
    CHECKPOINT,
    MAX_CONTENT,
    MAX_ITEMS,
    STATUSES,
    reminder,
    render,
    summary,
    updated,
)

PLAN = (Todo("1", "Read", "completed"), Todo("2", "Write", "in_progress"), Todo("3", "Ship", "pending"))


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path)


async def write(context: FakeContext, todos: Any, **arguments: Any) -> dict[str, Any]:
    return json.loads(await call_tool("todo_write", {"todos": todos, **arguments}, context))


async def test_a_write_returns_the_whole_list_with_counts(context: FakeContext) -> None:
    answer = await write(
        context,
        [
            {"id": "1", "content": "Read", "status": "completed"},
            {"id": "2", "content": "Write", "status": "in_progress"},
            {"id": "3", "content": "Ship", "status": "pending"},
            {"id": "4", "content": "Sing", "status": "cancelled"},
        ],
    )
    assert [item["id"] for item in answer["todos"]] == ["1", "2", "3", "4"]
    assert answer["summary"] == {
        "total": 4,
        "pending": 1,
        "in_progress": 1,
        "completed": 1,
        "cancelled": 1,
    }
    assert answer["metadata"] == {"items_completed": 1, "items_remaining": 2, "tool_calls_since_update": 0}
    assert context.todos.items()[1] == Todo("2", "Write", "in_progress")


async def test_a_write_without_merge_replaces_the_list(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    answer = await write(context, [{"id": "9", "content": "New", "status": "pending"}])
    assert [item["id"] for item in answer["todos"]] == ["9"]


async def test_a_merge_updates_in_place_and_appends(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    await write(context, [{"id": 2, "status": "completed"}, {"id": "4", "content": "Rest"}], merge="true")
    assert context.todos.items() == (
        PLAN[0],
        Todo("2", "Write", "completed"),
        PLAN[2],
        Todo("4", "Rest", "pending"),
    )


async def test_a_merge_that_gives_content_only_keeps_the_status(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    await write(context, [{"id": "2", "content": "Write well"}], merge=True)
    assert context.todos.items()[1] == Todo("2", "Write well", "in_progress")


async def test_a_merge_of_an_unknown_item_without_content_changes_nothing(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    writes = context.todos.writes
    answer = await write(
        context, [{"id": "1", "status": "pending"}, {"id": "7", "status": "completed"}], merge=True
    )
    assert "no item 7" in answer["error"]
    assert context.todos.items() == PLAN
    assert context.todos.writes == writes


async def test_an_empty_write_empties_the_list(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    answer = await write(context, [])
    assert answer["todos"] == [] and context.todos.items() == ()


async def test_of_two_items_with_one_id_the_last_counts(context: FakeContext) -> None:
    answer = await write(
        context,
        [
            {"id": "1", "content": "old", "status": "pending"},
            {"id": "2", "content": "other", "status": "pending"},
            {"id": "1", "content": "new", "status": "completed"},
        ],
    )
    assert [(item["id"], item["content"]) for item in answer["todos"]] == [("2", "other"), ("1", "new")]
    assert "more than once" in answer["notes"][0]


async def test_an_unknown_status_is_read_as_pending_and_said(context: FakeContext) -> None:
    answer = await write(context, [{"id": "1", "content": "x", "status": "blocked"}])
    assert answer["todos"][0]["status"] == "pending"
    assert "'blocked'" in answer["notes"][0]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("done", "completed"),
        ("In Progress", "in_progress"),
        ("in-progress", "in_progress"),
        ("canceled", "cancelled"),
        ("TODO", "pending"),
        (None, "pending"),
    ],
)
async def test_a_status_in_other_words_is_understood_without_a_note(
    context: FakeContext, written: str | None, meant: str
) -> None:
    answer = await write(context, [{"id": "1", "content": "x", "status": written}])
    assert answer["todos"][0]["status"] == meant
    assert "notes" not in answer


async def test_plain_texts_become_items_with_ids_of_their_own(context: FakeContext) -> None:
    answer = await write(context, ["first", {"content": "second"}, "third"])
    assert [(item["id"], item["content"]) for item in answer["todos"]] == [
        ("1", "first"),
        ("2", "second"),
        ("3", "third"),
    ]


async def test_an_id_made_up_in_a_merge_is_free(context: FakeContext) -> None:
    context.todos.replace((Todo("2", "a", "pending"),))
    await write(context, ["b"], merge=True)
    assert [item.content for item in context.todos.items()] == ["a", "b"]


async def test_a_list_given_as_json_text_is_read(context: FakeContext) -> None:
    answer = await write(context, '[{"id": "1", "content": "x", "status": "pending"}]')
    assert answer["todos"][0]["content"] == "x"


async def test_too_many_items_are_refused_and_the_list_stays(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    answer = await write(context, [{"id": str(n), "content": "x"} for n in range(MAX_ITEMS + 1)])
    assert str(MAX_ITEMS) in answer["error"]
    assert context.todos.items() == PLAN
    full = await write(context, [{"id": str(n), "content": "x"} for n in range(MAX_ITEMS)])
    assert full["summary"]["total"] == MAX_ITEMS
    grown = await write(context, [{"id": "more", "content": "x"}], merge=True)
    assert "error" in grown and len(context.todos.items()) == MAX_ITEMS


async def test_content_that_is_too_long_is_cut_and_said(context: FakeContext) -> None:
    answer = await write(context, [{"id": "1", "content": "x" * (MAX_CONTENT + 1)}])
    assert len(answer["todos"][0]["content"]) == MAX_CONTENT
    assert "cut" in answer["notes"][0]


async def test_terminal_control_does_not_get_into_the_list(context: FakeContext) -> None:
    await write(context, [{"id": "1\x1b[2J", "content": "a\x1b]52;c;eA==\x07b\u202e"}])
    assert context.todos.items() == (Todo("1", "ab", "pending"),)


async def test_a_read_tells_how_long_ago_the_list_was_seen_and_starts_anew(context: FakeContext) -> None:
    context.todos.replace(PLAN)
    context.todos.calls = 12
    answer = json.loads(await call_tool("todo_read", {}, context))
    assert answer["metadata"] == {"items_completed": 1, "items_remaining": 2, "tool_calls_since_update": 12}
    assert len(answer["todos"]) == 3
    assert context.todos.calls_since_update() == 0


def test_the_list_as_text_shows_the_four_states() -> None:
    items = (*PLAN, Todo("4", "Sing\nloud", "cancelled"))
    assert render(items) == (
        "- [x] 1. Read (completed)\n"
        "- [>] 2. Write (in_progress)\n"
        "- [ ] 3. Ship (pending)\n"
        "- [~] 4. Sing loud (cancelled)"
    )
    assert render(()) == ""


def test_the_reminder_comes_once_at_the_threshold() -> None:
    lines = [reminder(calls, False, PLAN) for calls in range(1, 40)]
    assert [line for line in lines if line] == [CHECKPOINT]
    assert lines[9] == CHECKPOINT


def test_an_error_asks_for_a_look_at_the_plan() -> None:
    assert reminder(1, True, PLAN) == AFTER_ERROR
    both = reminder(10, True, PLAN)
    assert both is not None and CHECKPOINT in both and AFTER_ERROR in both


def test_without_a_list_nobody_is_reminded() -> None:
    assert reminder(10, True, ()) is None


def test_the_display_shows_the_current_item_and_progress() -> None:
    entry = registry.get("todo_write")
    assert entry is not None and entry.describe is not None
    todos = [{"id": item.id, "content": item.content, "status": item.status} for item in PLAN]
    shown = entry.describe({"todos": todos}, {"todos": todos})
    assert (shown.verb, shown.subject, shown.summary) == ("plan", "Write", "1 of 3 done")
    left = [*todos, {"id": "9", "content": "Drop", "status": "cancelled"}]
    assert entry.describe({"todos": left}, {"todos": left}).summary == "1 of 3 done"
    assert isinstance(shown.detail, TextDetail)
    assert entry.describe({"todos": 5}, None).subject == ""
    assert entry.describe({}, {"error": "no\x1b[m"}).summary == "no"


changes = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["1", "2", "3", "", "x"]),
            "content": st.text(max_size=6),
            "status": st.sampled_from([*STATUSES, "done", "odd", None]),
        },
    ),
    max_size=6,
)


@pytest.mark.thorough
@given(changes, changes, st.booleans())
def test_every_write_keeps_ids_unique_and_content_present(
    first: list[dict[str, Any]], second: list[dict[str, Any]], merge: bool
) -> None:
    try:
        items, _ = updated((), first, False)
        items, _ = updated(items, second, merge)
    except ToolError:
        return
    assert len({item.id for item in items}) == len(items)
    assert all(item.content and item.id and item.status in STATUSES for item in items)
    assert summary(items)["total"] == sum(summary(items)[status] for status in STATUSES)
    assert updated(items, [], True) == (items, [])
