"""Task lists of agents below the tasks for which they were sent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.widgets.panes.host import Host, lines
from tools.context import Todo
from widgets.panes.todo import TasksBelow, count_done, rows_of

OWN = (Todo("1", "first", "completed"), Todo("2", "second", "in_progress"), Todo("3", "third", "pending"))
THEIRS = (Todo("1", "look", "completed"), Todo("2", "read", "in_progress"), Todo("3", "drop", "cancelled"))


def told(*opened: str, below: tuple[TasksBelow, ...], own: tuple[Todo, ...] = OWN) -> list[tuple[int, str]]:
    return [
        (row.depth, row.todo.content if row.todo else f"[{row.below.name}]" if row.below else "")
        for row in rows_of(own, below, opened)
    ]


CALLERS = TasksBelow("a", "callers", "main", "2", THEIRS)


def test_a_list_is_folded_below_the_task_for_which_its_agent_was_sent() -> None:
    assert told(below=(CALLERS,)) == [(0, "first"), (0, "second"), (1, "[callers]"), (0, "third")]


def test_opened_it_shows_its_tasks_and_the_lists_below_those() -> None:
    views = TasksBelow("b", "views", "a", "2", THEIRS[:1])
    assert told("a", below=(CALLERS, views)) == [
        (0, "first"), (0, "second"), (1, "[callers]"),
        (2, "look"), (2, "read"), (3, "[views]"), (2, "drop"), (0, "third"),
    ]  # fmt: skip
    assert (4, "look") in told("a", "b", below=(CALLERS, views))


def test_a_list_whose_task_is_gone_stands_at_the_end() -> None:
    lost = (TasksBelow("a", "lost", "main", "9", THEIRS), TasksBelow("b", "none", "main", "", THEIRS))
    assert told(below=lost)[-2:] == [(0, "[lost]"), (0, "[none]")]
    assert told(below=lost, own=()) == [(0, "[lost]"), (0, "[none]")]


def test_tasks_with_the_same_id_show_a_list_once() -> None:
    twice = (Todo("2", "x", "pending"), Todo("2", "y", "pending"), Todo("", "z", "pending"))
    assert [text for _, text in told(below=(CALLERS,), own=twice)] == ["x", "[callers]", "y", "z"]


def test_agents_that_are_below_each_other_do_not_go_round_for_ever() -> None:
    circle = (
        TasksBelow("a", "a", "b", "", THEIRS),
        TasksBelow("b", "b", "a", "", THEIRS),
        TasksBelow("m", "m", "m", "1", OWN),
    )
    assert told("a", "b", "m", below=circle) == [(0, "first"), (0, "second"), (0, "third")]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.sampled_from(["main", "a", "b", "c"]), st.sampled_from(["", "1", "2"])
        ),
        max_size=6,
        unique_by=lambda each: each[0],
    ),
    st.sets(st.sampled_from("abcd")),
)
def test_no_list_is_shown_twice(places: list[tuple[str, str, str]], opened: set[str]) -> None:
    below = tuple(TasksBelow(agent, agent, sender, task, OWN) for agent, sender, task in places)
    heads = [row.below.agent for row in rows_of(OWN, below, opened) if row.below]
    assert len(heads) == len(set(heads))
    assert {each.agent for each in below if each.sender == "main"} <= set(heads)


def test_cancelled_tasks_do_not_count() -> None:
    assert count_done(THEIRS) == (1, 2) and count_done(()) == (0, 0)


@pytest.mark.thorough
async def test_enter_unfolds_a_list_on_its_head_or_on_the_task_above_it() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.todo.show(OWN, (CALLERS,))
        await pilot.pause()
        assert lines(app.todo)[3].startswith("   ▸ callers  read") and lines(app.todo)[3].endswith("1/2")
        assert app.todo.figure() == "1/3"
        app.todo.focus()
        app.todo.move_to(1)
        await pilot.press("enter")
        await pilot.pause(0.1)
        opened = [text.strip() for text in lines(app.todo)[3:7]]
        assert opened[0].startswith("▾ callers") and opened[1:] == ["✓ look", "▶ read", "· drop"]
        await pilot.press("j", "enter")
        await pilot.pause(0.1)
        assert "▸ callers  read" in lines(app.todo)[3]
        await pilot.press("g", "enter")
        await pilot.pause()
        assert app.todo.count == 4
