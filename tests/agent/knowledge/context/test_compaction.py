"""Old results are masked; what is older is folded, and the person's words are carried as they are."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import Node
from agent.knowledge.context.compaction import (
    CompactionPlan,
    FoldRoom,
    path_after_compaction,
    plan_fold,
    plan_mask,
    still_shown,
    tail_start,
)
from agent.knowledge.context.message_history import ContextFold, conversation, fold_of, fold_text, newest_fold
from tests.agent.knowledge.context.paths import PathOf
from tests.agent.knowledge.context.test_message_history import assert_valid


def long_session(turns: int, size: int) -> PathOf:
    path = PathOf().add("system", "prompt")
    for turn in range(turns):
        path.user(f"task {turn}").assistant("", [f"c{turn}"]).tool(f"c{turn}", "r" * size).assistant("done")
    return path


def size_of(nodes: list[Node]) -> int:
    return sum(len(item.message.content) for item in conversation(nodes))


def folded(nodes: list[Node], room: FoldRoom, unchanged: frozenset[str] = frozenset()) -> list[Node]:
    found = newest_fold(nodes)
    fold = plan_fold(nodes, room, unchanged, found[1] if found else None)
    return path_after_compaction(nodes, fold.data())


def test_old_results_go_first_and_the_newest_stay() -> None:
    nodes = long_session(8, 1_000).nodes
    plan = plan_mask(nodes, 3)
    assert plan is not None
    assert plan.sentence().startswith("Made room: 5 old tool results")
    after = path_after_compaction(nodes, plan.data)
    whole = [item.message.content for item in conversation(after) if item.message.content.startswith("rrr")]
    assert len(whole) == 3


def test_a_masked_result_says_how_it_is_fetched() -> None:
    nodes = PathOf().user("go").assistant("", ["a"]).tool("a", "r" * 50_000).nodes
    plan = plan_mask(nodes, 0)
    assert plan is not None
    shown = conversation(path_after_compaction(nodes, plan.data))[-1].message.content
    assert "50,000 characters" in json.loads(shown)["masked"]
    assert f"id {nodes[-1].id}" in shown


def test_nothing_to_mask_gives_no_plan() -> None:
    assert plan_mask(PathOf().user("u" * 9_000).nodes, 0) is None


def test_the_tail_begins_where_it_has_room_and_never_within_an_exchange() -> None:
    path = (
        PathOf()
        .user("one")
        .assistant("", ["a", "b"])
        .tool("a", "r" * 100)
        .tool("b", "r" * 100)
        .assistant("x")
    )
    ids = [node.id for node in path.nodes]
    assert tail_start(path.nodes, 0) == ids[-1] + 1
    assert tail_start(path.nodes, 1) == ids[-1]
    assert tail_start(path.nodes, 150) == ids[-1]
    assert tail_start(path.nodes, 206) == ids[1]
    assert tail_start(path.nodes, 10_000) == ids[0]


def test_the_persons_words_are_carried_word_for_word_and_the_tail_stays_whole() -> None:
    nodes = folded(long_session(6, 1_000).nodes, FoldRoom(tail=1_200, words=10_000, pins=0))
    turned = conversation(nodes)
    assert_valid(turned)
    first, *rest = [item.message.content for item in turned]
    for turn in range(5):
        assert f">\ntask {turn}\n</user>" in first
    assert rest[:2] == ["done", "task 5"]
    assert "r" * 1_000 in rest


def test_a_later_fold_carries_what_an_earlier_one_did() -> None:
    path = long_session(4, 500)
    path.nodes = folded(path.nodes, FoldRoom(tail=0, words=10_000, pins=0))
    path.user("later").assistant("", ["z"]).tool("z", "r" * 500).assistant("done")
    path.nodes = folded(path.nodes, FoldRoom(tail=0, words=10_000, pins=0))
    (only,) = conversation(path.nodes)
    assert all(f"\ntask {turn}\n" in only.message.content for turn in range(4))
    assert "\nlater\n" in only.message.content


def test_a_fold_is_read_as_it_was_written() -> None:
    fold = ContextFold(
        start=7,
        summary="s",
        decisions=("a", "b"),
        shortened={3: "short"},
        pinned=(4,),
        focus="tests",
        before=9,
        after=5,
    )
    node = Node(9, "s", 8, "compaction", 0.0, "", json.loads(json.dumps(fold.data())))
    assert fold_of(node) == fold


def test_torn_data_of_a_fold_is_no_fold() -> None:
    for data in (
        {},
        {"stage": "fold"},
        {"stage": "fold", "from": "x"},
        {"stage": "fold", "from": 1, "shortened": 3},
    ):
        assert fold_of(Node(9, "s", 8, "compaction", 0.0, "", data)) is None


def reading() -> PathOf:
    """A session that read a file twice and another one once."""
    path = PathOf().user("look at the files")
    for number, name in enumerate(("a.py", "b.py", "a.py")):
        shown = [{"path": f"/w/{name}", "sha256": name * 16, "first": 1, "last": 2, "limit": 500}]
        path.assistant("Looking for the rounding.", [f"c{number}"])
        content = json.dumps({"path": name, "content": f"1|{name}\n2|x"})
        path.add("tool", content, call=f"c{number}", tool="read_file", outcome="done", shown=shown)
    return path


def test_files_that_were_read_are_told_with_lines_hash_and_reason() -> None:
    text = conversation(folded(reading().nodes, FoldRoom(tail=0, words=1_000, pins=0)))[0].message.content
    assert "- /w/a.py (lines 1–2; sha256 a.pya.pya.py; id 7): Looking for the rounding." in text
    assert "- /w/b.py" in text


def test_a_file_that_was_read_again_and_did_not_change_is_carried_whole() -> None:
    room = FoldRoom(tail=0, words=1_000, pins=70)
    nodes = folded(reading().nodes, room, frozenset({"/w/a.py", "/w/b.py"}))
    text = conversation(nodes)[0].message.content
    assert "a.py (id 7)\n1|a.py\n2|x" in text
    assert "1|b.py" not in text
    assert still_shown(nodes) == [("/w/a.py", "a.py" * 16, 1, 500)]
    assert "1|a.py" not in conversation(folded(reading().nodes, room))[0].message.content


@given(
    st.integers(1, 9),
    st.integers(0, 3_000),
    st.lists(st.tuples(st.booleans(), st.integers(0, 4_000), st.integers(0, 900)), max_size=6),
)
def test_any_compactions_one_after_the_other_leave_a_valid_conversation(
    turns: int, size: int, rooms: list[tuple[bool, int, int]]
) -> None:
    path = long_session(turns, size)
    for number, (masks, tail, words) in enumerate(rooms):
        plan = plan_mask(path.nodes, 1) if masks else None
        if plan is not None:
            path.nodes = path_after_compaction(path.nodes, plan.data)
        elif not masks:
            path.nodes = folded(path.nodes, FoldRoom(tail=tail, words=words, pins=0))
        assert_valid(conversation(path.nodes))
        path.user(f"more {number}").assistant("yes")
    text = "\n".join(item.message.content for item in conversation(path.nodes))
    assert all(f"task {turn}" in text for turn in range(turns))
    assert all(f"more {number}" in text for number in range(len(rooms)))


def test_the_sentence_of_a_fold_has_its_figures() -> None:
    fold = ContextFold(start=1, summary="s", before=9_000, after=3_000)
    assert "9,000 → 3,000 tokens" in CompactionPlan("fold", fold.data(), 1).sentence()
    assert fold_text(fold, []).endswith("# Summary, written by a model\ns")
