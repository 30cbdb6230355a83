"""The tree as rows: order, lanes, folds and filters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.widgets.timeline.trees import Row, grown, picture, planted
from widgets.timeline.layout import (
    FILTERS,
    BranchTag,
    Drawing,
    DrawnLine,
    Filter,
    NodeTree,
    TimelineFilter,
    lay_out,
    matches,
)
from widgets.timeline.paint import rails

OPEN = TimelineFilter(unfolded=True)

THREE = grown("1", "2<1", "3<2", "4<1", "5<4", "6<4", "7<3", "8<6")
"""Two ways on from 1, two from 4."""


def test_one_branch_is_a_straight_line() -> None:
    assert picture(planted(grown("1", "2<1", "3<2"), {"main": 3})) == ["● 1", "● 2", "● 3"]


def test_a_session_without_nodes_has_no_rows() -> None:
    assert picture(planted([], {"main": None})) == []


def test_the_branch_in_use_goes_straight_down_and_others_stand_right_of_where_they_left_it() -> None:
    assert picture(planted(THREE, {"main": 7, "other": 5, "third": 8})) == [
        "● 1",
        "├─● 4",
        "│ ├─● 5",
        "│ ● 6",
        "│ ● 8",
        "● 2",
        "● 3",
        "● 7",
    ]
    assert picture(planted(THREE, {"third": 8, "main": 7})) == [
        "● 1",
        "├─● 2",
        "│ ● 3",
        "│ ● 7",
        "● 4",
        "├─● 5",
        "● 6",
        "● 8",
    ]


def test_without_a_branch_in_use_the_newest_goes_on() -> None:
    assert picture(planted(grown("1", "2<1", "3<1"), {})) == ["● 1", "├─● 2", "● 3"]


def test_siblings_share_a_lane_so_that_width_is_depth_of_forks() -> None:
    rows = grown("1", *(f"{node}<1" for node in range(2, 60)))
    drawing = lay_out(planted(rows, {"main": 59}))
    assert max(line.lane for line in drawing.lines) == 1
    assert [line.joins for line in drawing.lines] == [False, *[True] * 57, False]


def test_a_fork_whose_way_on_is_filtered_away_ends_in_a_corner() -> None:
    tree = planted(grown("1", "2<1", "3<1"), {"main": 3}, [BranchTag(1, "a"), BranchTag(2, "b")])
    assert picture(tree, TimelineFilter(filter="marks")) == ["● 1", "├─● 2", "● 3"]
    bare = planted(grown("1", "2<1", "3<1"), {"main": None}, [BranchTag(1, "a"), BranchTag(2, "b")])
    assert picture(bare, TimelineFilter(filter="marks")) == ["● 1", "╰─● 2"]


def test_beginnings_do_not_hang_together() -> None:
    rows = grown("1", "2", "3<2", "4<1", "5<1")
    assert picture(planted(rows, {"main": 3, "old": 5})) == ["● 1", "├─● 4", "● 5", "● 2", "● 3"]
    assert not any(line.rails for line in lay_out(planted(rows, {"main": 3})).lines if line.lane == 0)


def turns() -> NodeTree:
    rows = grown(
        *("1", "2<1 assistant", "3<2 tool", "4<3 tool", "5<4 assistant", "6<5"),
        *("7<6 tool", "8<3 assistant", "9<8 tool"),
    )
    steps = {3: 1, 4: 3, 7: 4}
    rows = [Row(row.id, row.parent, row.kind, row.text, step=steps.get(row.id)) for row in rows]
    paths = {1: ("a.py",), 2: ("b.py", "a.py"), 3: ("c.py",), 4: ("a.py",)}
    return planted(rows, {"main": 7, "side": 9}, [BranchTag(4, "good")], paths)


def test_a_turn_folds_under_the_message_of_the_person_and_a_side_branch_under_its_start() -> None:
    tree = turns()
    assert picture(tree) == ["▸ 1", "├─▸ 8", "▸ 6"]
    assert picture(tree, TimelineFilter(turned=frozenset({1}))) == [
        *("▾ 1", "● 2", "● 3", "├─▸ 8", "● 4", "● 5"),
        "▸ 6",
    ]
    assert picture(tree, TimelineFilter(unfolded=True, turned=frozenset({1}))) == [
        *("▸ 1", "├─▾ 8", "│ ● 9", "▾ 6", "● 7"),
    ]


def test_a_turn_sums_up_its_calls_and_files() -> None:
    tree = turns()
    first, side = tree.index(1), tree.index(8)
    assert (tree.folded[first], tree.calls[first]) == (4, 2)
    assert (tree.folded[side], tree.calls[side]) == (1, 1)
    assert tree.turn_steps[first] == [1, 2, 3]
    assert tree.files(tree.turn_steps[first]) == ["a.py", "b.py", "c.py"]
    assert tree.steps[tree.index(4)] == [2, 3]


def test_what_comes_to_light_with_a_message_is_no_work_of_the_agent() -> None:
    rows = [Row(1, step=0), Row(2, 1, "tool", step=1), Row(3, 2, step=3), Row(4, 3, "tool", step=4)]
    tree = planted(rows, {"main": 4}, paths={1: ("a",), 2: ("b",), 3: ("c",), 4: ("d",)})
    assert dict(tree.steps) == {1: [1], 3: [4]}


def test_a_folded_turn_carries_its_tags_and_ends_of_branches() -> None:
    tree = turns()
    drawing = lay_out(tree)
    inside = {tree.rows[drawing.lines[at].node].id: nodes for at, nodes in drawing.carried.items()}
    assert inside == {1: [tree.index(4)], 8: [tree.index(9)], 6: [tree.index(7)]}


def test_a_closed_branch_is_one_row_that_carries_its_ends() -> None:
    tree = planted(THREE, {"main": 7, "other": 5, "third": 8})
    drawing = lay_out(tree, TimelineFilter(closed=frozenset({4})))
    assert picture(tree, drawing.timeline_filter) == ["● 1", "├─◂ 4", "● 2", "● 3", "● 7"]
    assert drawing.carried[1] == [tree.index(5), tree.index(8)]


def test_filters_pick_rows_and_keep_what_they_hang_on() -> None:
    tree = turns()
    assert picture(tree, TimelineFilter(filter="turns")) == ["● 1", "● 6"]
    assert picture(tree, TimelineFilter(filter="files")) == ["● 3", "● 4", "● 7"]
    assert picture(tree, TimelineFilter(filter="branch", unfolded=True)) == [
        *("▾ 1", "● 2", "● 3", "● 4", "● 5", "▾ 6", "● 7"),
    ]
    assert picture(tree, TimelineFilter(filter="marks")) == ["● 9", "● 4", "● 7"]
    assert picture(tree, TimelineFilter(filter="matches", needle="N9")) == ["● 9"]
    assert picture(tree, TimelineFilter(filter="matches", needle="")) == []


def test_search_looks_at_texts_tools_labels_and_names_of_branches() -> None:
    rows = [Row(1, text="Fix the Rounding"), Row(2, 1, "tool", "ok", tool="terminal")]
    tree = planted(rows, {"jpy": 2}, [BranchTag(1, "before lunch")])
    for needle, found in (
        ("rounding fix", [0]),
        ("TERMINAL", [1]),
        ("lunch", [0]),
        ("jpy", [1]),
        ("zebra", []),
    ):
        assert matches(tree, needle) == found


def test_what_is_left_out_of_the_rows_does_not_break_a_line() -> None:
    rows = [Row(1), Row(2, 1, "assistant"), Row(5, 4, "tool"), Row(6, 5)]
    tree = planted(rows, {"main": 6, "cut": 4})
    assert picture(tree, OPEN) == ["▾ 1", "● 2", "● 5", "● 6"]
    assert tree.tips[tree.index(2)] == ["cut"]


def test_rows_that_contradict_themselves_are_drawn_all_the_same() -> None:
    rows = [Row(3, 2), Row(2, 2), Row(1, 3), Row(2, 9)]
    assert sorted(picture(planted(rows, {"main": 77, "x": -4}))) == ["● 1", "● 2", "● 3"]


def test_branches_through_a_node_come_in_the_order_they_end() -> None:
    tree = planted(THREE, {"main": 7, "other": 5, "third": 8})
    assert tree.branches_through(tree.index(4)) == ["other", "third"]
    assert tree.branches_through(tree.index(3)) == ["main"]


def test_deep_lanes_are_cut_on_the_left() -> None:
    # From each node of a long line another way goes on, the later the earlier it forks.
    spine = [f"{node}<{node - 1}" for node in range(2, 61)]
    ways_on = [f"{61 + at}<{60 - at}" for at in range(60)]
    drawing = lay_out(planted(grown("1", *spine, *ways_on), {}))
    deepest = max(drawing.lines, key=lambda line: line.lane)
    assert deepest.lane > 30
    assert len(rails(deepest)) == 8 and rails(deepest)[0] == ("⋯ ", "dim")


@st.composite
def trees(draw: st.DrawFn) -> tuple[NodeTree, TimelineFilter]:
    count = draw(st.integers(1, 40))
    kinds = st.sampled_from(["user", "assistant", "tool", "notice", "system"])
    rows = []
    for node in range(1, count + 1):
        parent = draw(st.one_of(st.none(), st.integers(1, node - 1))) if node > 1 else None
        rows.append(Row(node, parent, draw(kinds), f"n{node}", step=draw(st.none() | st.integers(0, 9))))
    nodes = st.integers(1, count)
    tips = draw(st.dictionaries(st.sampled_from(["main", "a", "b"]), nodes, max_size=3))
    tags = [BranchTag(node, "x") for node in draw(st.sets(nodes, max_size=4))]
    paths = dict.fromkeys(draw(st.sets(st.integers(1, 9))), ("f",))
    look = TimelineFilter(
        draw(st.sampled_from(list(FILTERS))),
        "1",
        draw(st.booleans()),
        frozenset(draw(st.sets(nodes))),
        frozenset(draw(st.sets(nodes, max_size=2))),
    )
    return planted(rows, tips, tags, paths), look


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(trees())
def test_every_row_hangs_on_its_nearest_shown_ancestor_and_no_line_leads_nowhere(
    grown_tree: tuple[NodeTree, TimelineFilter],
) -> None:
    tree, look = grown_tree
    assert sorted(tree.order) == list(range(len(tree.rows)))
    drawing = lay_out(tree, look)
    number = {line.node: at for at, line in enumerate(drawing.lines)}
    assert len(number) == len(drawing.lines)
    for at, line in enumerate(drawing.lines):
        up = tree.parent[line.node]
        while up >= 0 and up not in number:
            up = tree.parent[up]
        if up < 0:
            assert line.lane == 0 and not line.joins
            continue
        over = number[up]
        assert over < at and line.joins == (drawing.lines[over].lane != line.lane)
        column = line.lane - line.joins
        assert drawing.lines[over].lane == column
        between = drawing.lines[over + 1 : at]
        assert all(each.lane > column and each.continues(column) for each in between)
    for at, line in enumerate(drawing.lines):
        for lane in range(line.lane):
            assert line.continues(lane) == _hangs_below(drawing, at, lane)


def _hangs_below(drawing: Drawing, at: int, lane: int) -> bool:
    """Whether a row below hangs on this lane without another row of the lane before it."""
    following: list[DrawnLine] = drawing.lines[at + 1 :]
    for line in following:
        if line.lane == lane + 1 and line.joins:
            return True
        if line.lane <= lane:
            return (
                line.lane == lane
                and not line.joins
                and drawing.tree.parent[line.node] >= 0
                and _has_over(drawing, line)
            )
    return False


def _has_over(drawing: Drawing, line: DrawnLine) -> bool:
    return drawing.shown_as[drawing.tree.parent[line.node]] >= 0


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(trees(), st.sampled_from(list(FILTERS)))
def test_each_node_knows_the_line_it_is_shown_on(
    grown_tree: tuple[NodeTree, TimelineFilter], filter: Filter
) -> None:
    tree, look = grown_tree
    drawing = lay_out(tree, TimelineFilter(filter, "1", look.unfolded, look.turned, look.closed))
    for at in range(len(tree.rows)):
        number = drawing.shown_as[at]
        if number >= 0:
            assert tree.below(drawing.lines[number].node, at)
    for number, nodes in drawing.carried.items():
        assert all(drawing.shown_as[at] == number for at in nodes)
