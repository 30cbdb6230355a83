"""What the tree offers to somebody who wanders in it: outlines, marks, branches, operations."""

from __future__ import annotations

import itertools

import pytest

from agent.core.store.nodes import NewNode, Session
from agent.core.store.operations import SessionPlace
from agent.core.store.store import Store
from agent.errors import StoreError


async def grown(store: Store, session: Session, *texts: str, head: str = "main") -> list[int]:
    nodes = await store.append_many(session.id, [NewNode("user", text) for text in texts], head=head)
    return [node.id for node in nodes]


async def test_an_outline_has_every_branch_in_the_order_it_was_written(
    store: Store, session: Session
) -> None:
    one, two = await grown(store, session, "one", "two")
    await store.fork(session.id, one, "other")
    (three,) = await grown(store, session, "three", head="other")
    rows = await store.outline(session.id)
    assert [(row.id, row.parent, row.text) for row in rows] == [
        (one, None, "one"),
        (two, one, "two"),
        (three, one, "three"),
    ]


async def test_a_row_tells_position_calls_outcome_and_tokens(store: Store, session: Session) -> None:
    calls = [{"id": "c", "name": "terminal", "arguments": "{}"}]
    await store.append(session.id, "user", "do", {"origin": "prompt", "step": 4})
    said = {"calls": calls, "state": "complete", "usage": {"output": 12}}
    node = await store.append(session.id, "assistant", "", said)
    await store.start_call(session.id, node.id, "c", "terminal")
    await store.finish_call(session.id, "c", '{"output": "x"}', {"outcome": "failed", "step": 5})
    await store.append(session.id, "inner", "{}", {"call": "d"})
    user, assistant, tool = await store.outline(session.id)
    assert (user.origin, user.step) == ("prompt", 4)
    assert (assistant.calls, assistant.tokens, assistant.outcome) == (1, 12, "")
    assert (tool.tool, tool.outcome, tool.step) == ("terminal", "failed", 5)


async def test_what_follows_a_call_of_a_script_hangs_below_what_came_before_it(
    store: Store, session: Session
) -> None:
    (user,) = await grown(store, session, "do")
    for call in ("a", "b"):
        await store.append(session.id, "inner", "{}", {"call": call})
    (later,) = await grown(store, session, "more")
    rows = await store.outline(session.id)
    assert [(row.id, row.parent) for row in rows] == [(user, None), (later, user)]


async def test_a_row_shows_the_first_line_that_says_anything_and_no_control_bytes(
    store: Store, session: Session
) -> None:
    await grown(store, session, "\n\n  \x1b[31mred\x1b[0m\nmore", "x" * 1_000, "", "\n" * 500)
    red, long, empty, blank = [row.text for row in await store.outline(session.id)]
    assert (red, empty, blank) == ("red", "", "")
    assert len(long) == 160 and long.endswith("…")


async def test_a_label_and_a_bookmark_are_kept_apart_and_taken_away(store: Store, session: Session) -> None:
    one, two = await grown(store, session, "one", "two")
    await store.mark(session.id, one, label="  before the\n storm ")
    await store.mark(session.id, one, bookmarked=True)
    await store.mark(session.id, two, bookmarked=True)
    assert [(m.node, m.label, m.bookmarked) for m in await store.marks(session.id)] == [
        (one, "before the storm", True),
        (two, "", True),
    ]
    await store.mark(session.id, one, label="")
    await store.mark(session.id, two, bookmarked=False)
    assert [(m.node, m.label) for m in await store.marks(session.id)] == [(one, "")]


async def test_a_label_that_is_too_long_or_on_a_foreign_node_is_refused(
    store: Store, session: Session
) -> None:
    (one,) = await grown(store, session, "one")
    other = await store.create_session(workspace="/w", model="m")
    with pytest.raises(StoreError, match="80 characters"):
        await store.mark(session.id, one, label="x" * 81)
    with pytest.raises(StoreError, match="no message"):
        await store.mark(other.id, one, label="x")


async def test_the_branch_in_use_is_the_first_even_within_one_tick_of_the_clock(
    store: Store, session: Session
) -> None:
    (one,) = await grown(store, session, "one")
    await store.fork(session.id, one, "a")
    for name in ("main", "a", "main"):
        await store.use_head(session.id, name)
        assert (await store.heads(session.id))[0].name == name


async def test_a_branch_may_begin_before_anything_was_said(store: Store, session: Session) -> None:
    await grown(store, session, "one")
    await store.fork(session.id, None, "fresh")
    assert await store.path(session.id, "fresh") == []
    (node,) = await grown(store, session, "again", head="fresh")
    assert [each.id for each in await store.path(session.id, "fresh")] == [node]


async def test_a_branch_is_renamed_with_all_that_names_it(store: Store, session: Session) -> None:
    (one,) = await grown(store, session, "one")
    await store.fork(session.id, one, "a")
    await store.record_operation(
        session.id, "fork", "to a", SessionPlace("main", one, 0), SessionPlace("a", one, 0)
    )
    await store.rename_head(session.id, "a", "better")
    assert {head.name for head in await store.heads(session.id)} == {"main", "better"}
    (operation,) = await store.operations(session.id)
    assert operation.after.head == "better"


@pytest.mark.parametrize(
    ("name", "new"), [("main", "x"), ("a", "main"), ("a", ""), ("a", "x\ny"), ("b", "x")]
)
async def test_a_name_that_cannot_be_is_refused(store: Store, session: Session, name: str, new: str) -> None:
    await store.fork(session.id, None, "a")
    with pytest.raises(StoreError):
        await store.rename_head(session.id, name, new)
    assert {head.name for head in await store.heads(session.id)} == {"main", "a"}


async def test_a_dropped_branch_leaves_its_messages_in_the_tree(store: Store, session: Session) -> None:
    (one,) = await grown(store, session, "one")
    await store.fork(session.id, one, "a")
    (two,) = await grown(store, session, "two", head="a")
    await store.drop_head(session.id, "a")
    assert [row.id for row in await store.outline(session.id)] == [one, two]
    with pytest.raises(StoreError):
        await store.drop_head(session.id, "main")


async def test_operations_are_undone_from_the_newest_and_redone_from_the_oldest(
    store: Store, session: Session
) -> None:
    places = [SessionPlace("main", None, number) for number in range(4)]
    for before, after in itertools.pairwise(places):
        await store.record_operation(session.id, "turn", f"to {after.step}", before, after)
    for expected in (3, 2):
        found = await store.undoable(session.id)
        assert found is not None and found.number == expected
        await store.set_undone(session.id, found.number, True)
    again = await store.redoable(session.id)
    assert again is not None and again.number == 2
    await store.set_undone(session.id, 2, False)
    last, redo = await store.undoable(session.id), await store.redoable(session.id)
    assert last is not None and redo is not None and (last.number, redo.number) == (2, 3)


async def test_a_new_operation_ends_what_could_be_redone(store: Store, session: Session) -> None:
    start, end = SessionPlace("main", None, 0), SessionPlace("main", None, 1)
    await store.record_operation(session.id, "turn", "one", start, end)
    await store.set_undone(session.id, 1, True)
    await store.record_operation(session.id, "turn", "other", start, end)
    assert await store.redoable(session.id) is None
    assert [operation.label for operation in await store.operations(session.id)] == ["other"]


async def test_marks_and_operations_go_with_their_session(store: Store, session: Session) -> None:
    (one,) = await grown(store, session, "one")
    await store.mark(session.id, one, label="x")
    await store.record_operation(
        session.id, "turn", "x", SessionPlace("main", None, 0), SessionPlace("main", one, 0)
    )
    await store.delete(session.id)
    assert await store.marks(session.id) == []
    assert await store.operations(session.id) == []
