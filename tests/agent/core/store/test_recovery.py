from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.messages import ToolCall
from agent.core.store.nodes import Node, Session
from agent.core.store.recovery import NOT_STARTED, STARTED
from agent.core.store.store import Store
from agent.errors import StoreError


def calls(*ids: str) -> dict[str, Any]:
    return {"calls": [{"id": each, "name": "terminal", "arguments": "{}"} for each in ids]}


async def ask(store: Store, session: Session, *ids: str) -> Node:
    await store.append(session.id, "user", "do it")
    return await store.append(session.id, "assistant", "", calls(*ids))


async def test_a_result_closes_its_call(store: Store, session: Session) -> None:
    asker = await ask(store, session, "a", "b")
    await store.start_call(session.id, asker.id, "a", "terminal")
    (left,) = await store.unfinished_branches(session.id)
    assert [(call.id, call.started) for call in left.calls] == [("a", True), ("b", False)]
    result = await store.finish_call(session.id, "a", '{"output": ""}', {"outcome": "done", "seconds": 1.2})
    assert result.data == {"call": "a", "tool": "terminal", "outcome": "done", "seconds": 1.2}
    assert result.parent == asker.id
    await store.finish_call(session.id, "b", '{"error": "no"}', {"outcome": "denied"})
    assert await store.unfinished_branches(session.id) == ()


async def test_a_call_ends_once_and_must_have_been_asked_for(store: Store, session: Session) -> None:
    asker = await ask(store, session, "a")
    with pytest.raises(StoreError, match="asks for no call b"):
        await store.start_call(session.id, asker.id, "b", "terminal")
    with pytest.raises(StoreError, match="No call b waits"):
        await store.finish_call(session.id, "b", "{}", {"outcome": "done"})
    with pytest.raises(StoreError, match="cannot end as running"):
        await store.finish_call(session.id, "a", "{}", {"outcome": "running"})
    await store.finish_call(session.id, "a", "{}", {"outcome": "done"})
    with pytest.raises(StoreError, match="No call a waits"):
        await store.finish_call(session.id, "a", "{}", {"outcome": "done"})


async def test_an_id_may_come_back_in_a_later_message(store: Store, session: Session) -> None:
    for _ in range(2):
        asker = await ask(store, session, "call_0")
        await store.start_call(session.id, asker.id, "call_0", "terminal")
        result = await store.finish_call(session.id, "call_0", "{}", {"outcome": "done"})
        assert result.parent == asker.id


async def test_calls_that_begin_at_once_are_recorded_with_their_message(
    store: Store, session: Session
) -> None:
    begun = ToolCall("a", "terminal", "{}")
    await store.append(session.id, "assistant", "", calls("a", "b"), starts=[begun])
    (left,) = await store.unfinished_branches(session.id)
    assert [(call.id, call.started) for call in left.calls] == [("a", True), ("b", False)]
    done = await store.recover(session.id)
    assert [json.loads(node.content) for node in done.results] == [{"error": STARTED}, {"error": NOT_STARTED}]


async def test_a_message_whose_start_cannot_be_recorded_is_not_stored(store: Store, session: Session) -> None:
    with pytest.raises(StoreError, match="asks for no call b"):
        await store.append(session.id, "assistant", "", calls("a"), starts=[ToolCall("b", "terminal", "{}")])
    assert await store.path(session.id) == []


async def test_recovery_closes_calls_and_tells_what_had_started(store: Store, session: Session) -> None:
    asker = await ask(store, session, "a", "b", "c")
    await store.start_call(session.id, asker.id, "a", "terminal")
    await store.finish_call(session.id, "a", "{}", {"outcome": "done"})
    await store.start_call(session.id, asker.id, "b", "terminal")
    done = await store.recover(session.id)
    assert done.has_changes
    assert done.message is None
    assert [json.loads(node.content) for node in done.results] == [{"error": STARTED}, {"error": NOT_STARTED}]
    assert [node.data["call"] for node in done.results] == ["b", "c"]
    assert {node.data["outcome"] for node in done.results} == {"interrupted"}
    path = await store.path(session.id)
    assert path[-2:] == list(done.results)
    assert not (await store.recover(session.id)).has_changes
    assert await store.path(session.id) == path


async def test_a_steering_message_between_results_hides_no_call(store: Store, session: Session) -> None:
    await ask(store, session, "a", "b")
    await store.finish_call(session.id, "a", "{}", {"outcome": "done"})
    await store.append(session.id, "user", "also this", {"origin": "steer"})
    done = await store.recover(session.id)
    assert [node.data["call"] for node in done.results] == ["b"]


async def test_a_draft_becomes_an_interrupted_message(store: Store, session: Session) -> None:
    await store.append(session.id, "user", "tell me")
    await store.save_draft(session.id, "main", "Once", "hm")
    await store.save_draft(session.id, "main", "Once upon", "hm hm")
    (left,) = await store.unfinished_branches(session.id)
    assert left.draft is not None
    assert left.draft.text == "Once upon"
    done = await store.recover(session.id)
    assert done.message is not None
    assert (done.message.kind, done.message.content) == ("assistant", "Once upon")
    assert done.message.data == {"calls": [], "reasoning": "hm hm", "state": "interrupted"}
    assert not (await store.recover(session.id)).has_changes
    assert await store.unfinished_branches(session.id) == ()


async def test_the_finished_message_clears_its_draft_only(store: Store, session: Session) -> None:
    first = await store.append(session.id, "user", "tell me")
    await store.fork(session.id, first.id, "side")
    await store.save_draft(session.id, "main", "Once", "")
    await store.save_draft(session.id, "side", "Twice", "")
    await store.append(session.id, "assistant", "Once upon a time")
    (left,) = await store.unfinished_branches(session.id)
    assert left.head == "side"
    assert left.draft is not None


async def test_an_empty_draft_leaves_no_message(store: Store, session: Session) -> None:
    await store.save_draft(session.id, "main", "", "")
    done = await store.recover(session.id)
    assert not done.has_changes
    assert await store.path(session.id) == []
    assert await store.unfinished_branches(session.id) == ()


async def test_branches_that_share_open_calls_are_recovered_one_by_one(
    store: Store, session: Session
) -> None:
    asker = await ask(store, session, "a")
    await store.start_call(session.id, asker.id, "a", "terminal")
    await store.fork(session.id, asker.id, "side")
    assert {each.head for each in await store.unfinished_branches(session.id)} == {"main", "side"}
    assert (await store.recover(session.id)).has_changes
    assert [each.head for each in await store.unfinished_branches(session.id)] == ["side"]
    assert (await store.recover(session.id, "side")).has_changes
    assert await store.unfinished_branches(session.id) == ()


async def test_a_draft_needs_a_branch(store: Store, session: Session) -> None:
    with pytest.raises(StoreError, match="no branch"):
        await store.save_draft(session.id, "nowhere", "text", "")
    with pytest.raises(StoreError, match="no session"):
        await store.recover("nope")


async def test_odd_calls_in_a_message_do_not_stop_recovery(store: Store, session: Session) -> None:
    await store.append(session.id, "assistant", "", {"calls": ["x", {"name": "y"}, {"id": 7, "name": None}]})
    done = await store.recover(session.id)
    assert [node.data["call"] for node in done.results] == ["7"]
    await store.append(session.id, "assistant", "", {"calls": "none"})
    assert not (await store.recover(session.id)).has_changes
