"""Ranges that are chosen by keys: by line, block and message, as source."""

import pytest

from tests.widgets.transcript.support import DIFF, Host, call
from tools.results import DiffDetail, Display, TextDetail
from widgets.transcript.navigator import CopyRange
from widgets.transcript.parts import AnswerItem

ANSWER = """\
# Head
Some **bold** words that are so many that this line is wrapped more than once.

```python
x = 1

y = 2
```

* one
  * `inner`
* two

| a | b |
|---|---|
| 1 | 2 |
"""


def marked(host: Host) -> str:
    """What is marked on the screen, without blanks at the ends of rows."""
    ground = host.transcript.palette.style("text", "selection").bgcolor
    rows = [
        "".join(
            run.text for run in host.transcript.render_line(y) if run.style and run.style.bgcolor == ground
        )
        for y in range(host.transcript.size.height)
    ]
    return "\n".join(row.rstrip() for row in rows if row)


async def press(host: Host, pilot, *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


@pytest.fixture
async def stand():
    host = Host()
    async with host.run_test(size=(60, 40)) as pilot:
        host.transcript.add_user("first\nsecond")
        host.transcript.finish_answer(ANSWER, "", 1)
        host.transcript.flush()
        host.transcript.focus()
        await pilot.pause()
        yield host, pilot


@pytest.mark.parametrize("wraps", [False, True])
async def test_each_line_of_the_source_can_be_copied_and_its_rows_are_marked(stand, wraps: bool) -> None:
    host, pilot = stand
    host.transcript.navigator.wrap_code(wraps)
    await press(host, pilot, "k", "k", "v")
    seen = []
    for _ in range(15):
        seen.append((host.transcript.navigator.range.text(), marked(host)))
        await press(host, pilot, "j")
    texts = [text for text, _ in seen]
    wanted = ["first", "second", *(line for line in ANSWER.rstrip().split("\n"))]
    blank_between_blocks = (4, 10, 14)
    assert texts == [line for at, line in enumerate(wanted) if at not in blank_between_blocks][:15]
    rows = dict(seen)
    assert rows["second"] == "second" and rows["# Head"] == "Head"
    assert rows[wanted[3]].split() == wanted[3].replace("*", "").split() and "\n" in rows[wanted[3]]
    assert rows["x = 1"].startswith("x = 1") and rows["y = 2"] == "y = 2"
    assert rows["  * `inner`"].endswith("inner") and "two" not in rows["  * `inner`"]


async def test_a_range_grows_by_line_block_and_message_and_y_copies_its_source(stand) -> None:
    host, pilot = stand
    await press(host, pilot, "k", "k", "v", "j", "v", "j")
    assert host.screen.get_selected_text() == "second\n\n# Head"
    await press(host, pilot, "right_curly_bracket")
    assert host.transcript.navigator.range.text() == "second\n\n" + "\n".join(ANSWER.split("\n")[:2])
    await press(host, pilot, "right_curly_bracket", "y")
    assert host.copied == ["second\n\n" + "\n".join(ANSWER.split("\n")[:8])]
    assert host.screen.get_selected_text() is None and host.transcript.navigator.range is None
    await press(host, pilot, "v", "right_square_bracket", "y")
    assert host.copied[1] == ANSWER


async def test_lines_of_an_opened_card_can_be_copied_and_a_folded_one_gives_all_it_holds(stand) -> None:
    host, pilot = stand
    call(host.transcript, 1, "search", "x", "2 hits", TextDetail("src/a.py:1\nsrc/b.py:2\nsrc/c.py:3"))
    call(host.transcript, 2, "edit", "src/money.py", "+3 −2", DiffDetail(DIFF))
    host.transcript.flush()
    await press(host, pilot, "k", "k", "enter", "v", "j", "j", "v", "j", "y")
    assert host.copied == ["src/a.py:1\nsrc/b.py:2"]
    await press(host, pilot, "enter", "v", "y", "j", "v", "j", "j", "j", "j", "j", "y")
    assert host.copied[1].startswith("search x 2 hits\npath  x\nsrc/a.py:1")
    assert host.copied[2] == " import math"


async def test_a_range_ends_when_rows_fold_and_stays_when_the_width_changes(stand) -> None:
    host, pilot = stand
    await press(host, pilot, "k", "v", "j")
    narrow = marked(host)
    await pilot.resize_terminal(100, 40)
    await pilot.pause()
    assert "".join(narrow.split()) == "".join(marked(host).split()) and "\n" not in marked(host)
    host.transcript.navigator.fold_all()
    await pilot.pause()
    assert marked(host) == "" and host.screen.get_selected_text() is None


@pytest.mark.parametrize(
    "source", [ANSWER, "a\n\n\n\nb\n===\nc\n> d\n\n    e\n\n    f", "## f\n- g\n\n  h\n1. i"]
)
async def test_every_range_within_an_answer_is_a_piece_of_its_source(stand, source: str) -> None:
    host, _ = stand
    host.transcript.load([AnswerItem(source)])
    lines = source.count("\n") + 1
    for start in range(lines):
        chosen = CopyRange(host.transcript.document, 0)
        for _ in range(start):
            chosen.step("line", 1)
        chosen.hold()
        for _ in range(lines):
            chosen.step("line", 1)
            assert chosen.text() in source
        chosen.step("block", 1)
        assert chosen.text().rstrip().endswith(source.rstrip().rpartition("\n")[2])


async def test_a_card_that_changes_below_the_range_gives_what_it_holds_now(stand) -> None:
    host, pilot = stand
    host.transcript.start_call("one", "terminal", Display("terminal", "make"), {})
    host.transcript.progress_call("one", "first\nsecond\nthird\n")
    host.transcript.flush()
    await press(host, pilot, "k", "v", "v", "j", "j")
    assert host.transcript.navigator.range.text() == "terminal make \nfirst\nsecond"
    host.transcript.finish_call("one", "done", 1.0, Display("terminal", "make", "ok"), "{}")
    host.transcript.flush()
    await press(host, pilot, "right_curly_bracket", "y")
    assert host.copied == ["terminal make ok\n{}"]
