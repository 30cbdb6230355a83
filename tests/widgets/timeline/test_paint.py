"""What a row of the timeline says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from tests.widgets.timeline.trees import Row
from widgets.timeline.layout import BranchTip, TimelineFilter, build_tree, lay_out
from widgets.timeline.paint import PaintContext, draw_row, first_words

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ('{"output": "ok"}', "ok"),
        ('{"output": "", "exit_code": 0}', "output: , exit_code: 0"),
        ('{"exit_code": 1, "output": "\\n  two\\nlines"}', "two"),
        ('{"content": "1|import re\\n2|imp…', "1|import re"),
        ('{"content": "cut in an escape \\', "cut in an escape"),
        ('{"content": "cut in an escape \\u00', "cut in an escape u00"),
        ('{"error": "no \\"quotes\\" \\u00e9 \\ud83d\\ude00"}', 'no "quotes" é 😀'),
        ('{"odd": "half \\ud83d of it"}', "half \ufffd of it"),
        ('["first", "second"]', "first"),
        ("{}", ""),
        ("{", ""),
        ("plain words", "plain words"),
    ],
)
def test_a_result_is_told_in_its_first_words(result: str, said: str) -> None:
    assert first_words(result) == said


@pytest.mark.thorough
@given(JSON, st.integers(0, 200))
def test_no_result_is_too_odd_or_cut_off_too_early(value: object, length: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        first_words(text[:length]).encode("utf-8", "surrogatepass")


def rows_of(labels: dict[int, str], *steps: int) -> list[str]:
    """What is drawn of a message and of calls that made these steps."""
    rows = [Row(1, text="mend it", step=0)]
    rows += [
        Row(number, number - 1, "tool", '{"output": "done"}', step=step, tool="write_file")
        for number, step in enumerate(steps, 2)
    ]
    tree = build_tree(
        rows, [BranchTip("main", rows[-1].id)], "main", paths={1: ["a"], 2: ["b"], 3: ["c"]}, labels=labels
    )
    drawing = lay_out(tree, TimelineFilter(unfolded=True))
    around = PaintContext(lambda *_, **__: Style(), 0.0, {})
    return [draw_row(drawing, number, 80, around).plain for number in range(len(drawing.lines))]


def test_a_call_is_told_by_what_it_did_where_it_left_a_step() -> None:
    _, told, untold = rows_of({1: "write src/app.py"}, 1, 1)
    assert "write src/app.py" in told and "done" not in told and "write_file" not in told
    assert "write_file  done" in untold


def test_of_several_steps_the_last_that_says_something_tells() -> None:
    _, told = rows_of({1: "first", 2: "second", 3: ""}, 3)
    assert "second" in told and "first" not in told


def test_a_label_from_outside_carries_nothing_to_the_terminal() -> None:
    _, told = rows_of({1: "write a\x1b[31m\nb\u202e[/]"}, 1)
    assert "\x1b" not in told and "\n" not in told and "\u202e" not in told and "[/]" in told


def test_a_search_finds_what_a_row_shows() -> None:
    row = Row(1, kind="tool", tool="write_file", step=1, text="{}")
    tree = build_tree([row], paths={1: ["a"]}, labels={1: "write src/app.py"})
    assert "src/app.py" in tree.words(0)


def test_only_the_first_prompt_is_the_beginning() -> None:
    tree = build_tree(
        [Row(1, kind="system"), Row(2, 1), Row(3, 2, kind="system")], [BranchTip("main", 3)], "main"
    )
    drawing = lay_out(tree, TimelineFilter(unfolded=True))
    around = PaintContext(lambda *_, **__: Style(), 0.0, {})
    first, _, renewed = (draw_row(drawing, number, 80, around).plain for number in range(3))
    assert "the beginning" in first and "prompt or tools changed" in renewed
