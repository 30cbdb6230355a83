from __future__ import annotations

import json

from agent.core.store.export import line, node_record, trajectory
from agent.core.store.nodes import Node, Session
from agent.core.store.store import Store


async def conversation(store: Store, session: Session) -> list[Node]:
    await store.append(session.id, "system", "Be brief.", {"tools": []})
    await store.append(session.id, "user", "What is in a.txt?\u2028")
    calls = [
        {"id": "1", "name": "read_file", "arguments": '{"path": "a.txt"}'},
        {"id": "2", "name": "terminal", "arguments": "not json"},
    ]
    await store.append(
        session.id, "assistant", "Let me see.", {"calls": calls, "reasoning": "I should look."}
    )
    await store.finish_call(session.id, "1", '{"content": "1|hé"}', {"outcome": "done"})
    await store.finish_call(session.id, "2", "plain", {"outcome": "failed"})
    await store.append(session.id, "assistant", "It says hé.", {"calls": [], "state": "complete"})
    return await store.path(session.id)


async def test_lines_hold_the_whole_tree(store: Store, session: Session) -> None:
    nodes = await conversation(store, session)
    await store.fork(session.id, nodes[1].id, "side")
    side = await store.append(session.id, "assistant", "elsewhere \ud800", head="side")
    heads = await store.heads(session.id)
    lines = [line(node_record(node, heads)) async for node in store.all_nodes(session.id)]
    assert not any("\n" in each for each in lines)
    records = [json.loads(each) for each in lines]
    ends = {record["id"]: record.pop("heads") for record in records if "heads" in record}
    assert ends == {nodes[-1].id: ["main"], side.id: ["side"]}
    again = [Node(**record) for record in records]
    assert again == [*nodes, side]
    "\n".join(lines).encode()


async def test_a_trajectory_shows_reasoning_calls_and_results(store: Store, session: Session) -> None:
    nodes = await conversation(store, session)
    record = trajectory(await store.session(session.id), nodes)
    assert record["model"] == "some/model"
    assert record["completed"] is True
    assert record["timestamp"].endswith("+00:00")
    turns = record["conversations"]
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "tool", "gpt"]
    call = '{"name": "read_file", "arguments": {"path": "a.txt"}}'
    assert turns[2]["value"] == (
        "<think>\nI should look.\n</think>\nLet me see.\n"
        f"<tool_call>\n{call}\n</tool_call>\n"
        '<tool_call>\n{"name": "terminal", "arguments": "not json"}\n</tool_call>'
    )
    assert turns[3]["value"] == (
        '<tool_response>\n{"tool_call_id": "1", "name": "read_file", "content": {"content": "1|hé"}}\n'
        "</tool_response>\n"
        '<tool_response>\n{"tool_call_id": "2", "name": "terminal", "content": "plain"}\n</tool_response>'
    )
    assert json.loads(json.dumps(record)) == record


async def test_only_a_whole_answer_completes_a_trajectory(store: Store, session: Session) -> None:
    found = await store.session(session.id)
    nodes = await conversation(store, session)
    assert not trajectory(found, [])["completed"]
    assert not trajectory(found, nodes[:-1])["completed"]
    assert not trajectory(found, nodes[:3])["completed"]
    await store.append(session.id, "user", "go on")
    await store.append(session.id, "assistant", "I was", {"state": "interrupted"})
    assert not trajectory(found, await store.path(session.id))["completed"]


def test_lines_are_valid_utf_8_and_can_be_kept_to_ascii() -> None:
    record = {"text": "é \ud800 \x9b"}
    assert json.loads(line(record)) == record
    line(record).encode()
    assert line({"text": "é"}) == '{"text": "é"}'
    assert line(record, ascii_only=True).isascii()
