"""A stored conversation as items: from its end upwards, each as it was when it was live."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.store.nodes import Node
from agent.knowledge.context.message_history import ContextFold
from agent.session.conversation.stored_events import CUT_OFF
from app.editor.replay import replay_updates
from app.service.retelling import past_events
from app.tui.conversation.replay import call_in_full, newest_first
from tools.registry import Registry
from widgets.transcript.parts import AnswerItem, CallItem, Fold, NoticeItem, ReasoningItem, UserItem, parts_of


def node(number, kind, content="", /, **data):
    return Node(number, "s", number - 1 or None, kind, 0.0, content, data)


def asked(number, *ids, text=""):
    calls = [{"id": id, "name": "read", "arguments": {"path": f"{number}-{id}"}} for id in ids]
    return node(number, "assistant", text, calls=calls)


def result(number, id):
    return node(number, "tool", json.dumps({"ok": number}), call=id, tool="read", outcome="done", seconds=1)


def test_each_call_has_the_arguments_of_the_message_that_asked_for_it():
    path = [
        node(1, "user", "go", origin="prompt"),
        asked(2, "a", "b", text="first"),
        result(3, "a"),
        node(4, "notice", "by the way", kind="info"),
        result(5, "b"),
        asked(6, "a"),
        result(7, "a"),
    ]
    calls = [item for item in newest_first(path, Registry()) if isinstance(item, CallItem)]
    assert [call.arguments for call in calls] == [{"path": "6-a"}, {"path": "2-b"}, {"path": "2-a"}]


def test_what_the_model_was_told_is_not_said_to_the_person():
    told = node(1, "notice", "[The copy is gone. You work here again.]", kind="info", to_model=True)
    assert [*newest_first([told], Registry())] == [
        NoticeItem("info", "Told the model: The copy is gone. You work here again.")
    ]


def test_why_a_turn_failed_looks_as_it_did_when_it_was_live():
    (stored,) = newest_first([node(1, "notice", "No answer.", kind="failure")], Registry())
    assert parts_of(stored, Fold.CLOSED) == parts_of(NoticeItem("error", "No answer."), Fold.CLOSED)


def test_what_is_not_asked_for_is_not_made():
    class Path(list):
        read = 0

        def __getitem__(self, index):
            Path.read += 1
            return super().__getitem__(index)

    path = Path(node(number, "user", f"{number}", origin="prompt") for number in range(1, 1_000))
    items = newest_first(path, Registry())
    assert next(items) == UserItem("999", 999) and next(items) == UserItem("998", 998)
    assert Path.read == 2


def test_an_answer_that_was_cut_off_is_not_taken_for_a_whole_one():
    path = [
        node(1, "assistant", "It is", state="interrupted"),
        node(2, "assistant", "It is done.", state="complete"),
    ]
    shown = [*newest_first(path, Registry())][::-1]
    assert shown == [AnswerItem("It is", 1), NoticeItem("info", CUT_OFF), AnswerItem("It is done.", 2)]


def test_reasoning_stands_above_its_answer_and_results_without_a_message_are_shown():
    path = [result(1, "x"), node(2, "assistant", "yes", reasoning="hm", calls=None)]
    shown = [*newest_first(path, Registry())][::-1]
    assert [type(item) for item in shown] == [CallItem, ReasoningItem, AnswerItem]


def test_a_compaction_opens_to_what_the_model_reads_since_then_also_after_the_session_was_closed():
    fold = ContextFold(start=3, summary="They want it rounded.", shortened={2: "[a long paste]"})
    path = [
        node(1, "user", "Never use float.", origin="prompt"),
        node(2, "user", "x" * 9_000, origin="prompt"),
        node(3, "user", "Go on.", origin="prompt"),
        node(4, "compaction", "Made room.", **fold.data()),
        node(5, "compaction", "Masked.", stage="mask", nodes=[]),
    ]
    masked, folded, *_ = newest_first(path, Registry())
    assert masked == NoticeItem("compaction", "Masked.")
    assert folded.text == "Made room."
    for said in ("They want it rounded.", "Never use float.", "[a long paste]"):
        assert said in folded.detail
    assert "Go on." not in folded.detail and "xxx" not in folded.detail


def test_a_call_is_read_in_full_from_the_path():
    path = [asked(1, "a", "b"), result(2, "a"), result(3, "b"), node(4, "assistant", "done")]
    assert "1-a" in call_in_full(path, "a", Registry()) and '{"ok": 2}' in call_in_full(path, "a", Registry())
    assert call_in_full(path, "c", Registry()) == ""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["user", "asked", "result", "notice", "system"]), max_size=20))
def test_any_order_of_nodes_reads_as_forwards(kinds):
    makers = {"asked": lambda n: asked(n, "a"), "result": lambda n: result(n, "a")}
    path = [makers.get(kind, lambda n, kind=kind: node(n, kind, "x"))(n) for n, kind in enumerate(kinds, 1)]
    latest, wanted = {}, []
    for each in path:
        if each.kind == "assistant":
            latest = {"path": f"{each.id}-a"}
        elif each.kind == "tool":
            wanted.append(latest)
    calls = [item for item in newest_first(path, Registry()) if isinstance(item, CallItem)]
    assert [call.arguments for call in calls][::-1] == wanted


def test_terminal_service_and_editor_replay_the_same_conversation(tmp_path):
    todos = [{"id": "1", "content": "Sleep", "status": "pending"}]
    path = [
        node(1, "user", "go\x1b[2J on", origin="queue"),
        node(
            2,
            "assistant",
            "I look.",
            reasoning="hm",
            calls=[{"id": "a", "name": "todo_write", "arguments": {}}],
        ),
        node(3, "tool", json.dumps({"todos": todos}), call="a", tool="todo_write", outcome="done", seconds=1),
        node(4, "assistant", "It is", state="interrupted"),
    ]
    items = [*newest_first(path, Registry())][::-1]
    events = [*past_events(path, Registry())]
    updates = [*replay_updates(path, Registry(), tmp_path)]
    assert [type(item).__name__ for item in items] == [
        "UserItem",
        "ReasoningItem",
        "AnswerItem",
        "CallItem",
        "AnswerItem",
        "NoticeItem",
    ]
    kinds = ["user_message", "assistant_message", "tool_finished", "todos", "assistant_message", "notice"]
    assert [event.type for event in events] == kinds
    said, thought, words, call, more, plan = updates
    assert items[0].text == events[0].text == said.content.text and "\x1b" not in said.content.text
    assert items[1].text == events[1].reasoning == thought.content.text
    assert items[2].text == events[1].text == words.content.text
    assert items[3].result == events[2].result and call.tool_call_id == events[2].call == items[3].call
    assert items[4].text == events[4].text == more.content.text
    assert (
        [entry.content for entry in plan.entries] == [each.content for each in events[3].items] == ["Sleep"]
    )
