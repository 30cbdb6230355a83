"""Cards of calls: one honest row, and what opens below it."""

import json

import pytest

from themes.skin import Skin
from tools.results import DiffDetail, Display, TextDetail
from widgets.palette import Palette
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import fit
from widgets.transcript.parts import CallItem, Fold, duration, hunks

SKIN = Skin(tool_icons={"terminal": "$"})


def rows(item, fold=None, width=60, skin=SKIN):
    document = Document(Palette(skin))
    document.resize(width)
    document.load([item])
    if fold is not None:
        document.fold(0, fold)
    return [row.strip.text.rstrip() for row in document.down(RowPosition(0, 0, 0))]


def card(outcome="done", summary="", detail=None, **fields):
    display = Display("read", "src/money.py", summary, detail)
    return CallItem("1", "read_file", display, {"path": "src/money.py"}, outcome, 0.1, **fields)


@pytest.mark.parametrize(
    ("outcome", "glyph", "role"),
    [
        ("done", "✓", "success"),
        ("failed", "✗", "error"),
        ("denied", "⊘", "warning"),
        ("interrupted", "■", "warning"),
        (None, "▶", "accent"),
    ],
)
def test_a_state_is_a_glyph_and_a_colour(outcome, glyph, role):
    document = Document(Palette(SKIN))
    document.load([card(outcome)])
    gutter = next(iter(document.strips(0, 0)[0]))
    assert gutter.text == glyph
    assert gutter.style == document.palette.style(role)


def test_a_card_is_one_row_with_its_duration_at_the_right():
    (row,) = rows(card(summary="80 lines", detail=TextDetail("a\n")))
    assert row == "✓ read     src/money.py · 80 lines" + " " * 20 + "0.1 s"
    assert len(row) == 59


@pytest.mark.parametrize("width", [8, 12, 20, 30, 45])
def test_a_card_fits_any_width(width):
    item = card(summary="a summary " * 20, detail=TextDetail("漢字" * 50))
    for fold in Fold:
        document = Document(Palette(SKIN))
        document.resize(width)
        document.load([item])
        document.fold(0, fold)
        assert {row.strip.cell_length for row in document.down(RowPosition(0, 0, 0))} == {width}


def test_subject_and_summary_share_the_row():
    (row,) = rows(CallItem("1", "x", Display("read", "s" * 80, "m" * 80), {}, "done", 0.1), width=60)
    assert "s…" in row and "m…" in row and row.endswith("0.1 s")


def test_an_icon_of_the_skin_stands_before_the_verb():
    item = CallItem("1", "terminal", Display("run", "make"), {}, "done", 1.0)
    assert rows(item)[0].startswith("✓ $ run    make")


def test_an_open_card_shows_arguments_and_detail():
    item = card(summary="2 lines", detail=TextDetail("import math\nx = 1\n", "python"))
    assert [row.strip() for row in rows(item, Fold.OPEN)[1:]] == [
        "path  src/money.py",
        "import math",
        "x = 1",
    ]


def test_without_a_detail_the_result_is_laid_out():
    item = CallItem("1", "x", Display("ask", "it"), {"n": [1]}, "done", 0.1, json.dumps({"a": {"b": "é"}}))
    assert [row.strip() for row in rows(item, Fold.OPEN)[1:]] == [
        "n  1",
        "a",
        "b  é",
    ]
    broken = CallItem("1", "x", Display("ask", "it"), {}, "done", 0.1, "no json")
    assert rows(broken, Fold.OPEN)[1].strip() == "no json"


def test_a_failed_call_opens_itself_and_shows_the_end_of_its_output():
    output = "\n".join(f"line {number}" for number in range(40))
    item = card("failed", "exit 1", TextDetail(output), result='{"error": "It ended with code 1."}')
    shown = [row.strip() for row in rows(item)]
    assert shown[1:3] == ["It ended with code 1.", "… 28 more above, ⏎"]
    assert shown[3:] == [f"line {number}" for number in range(28, 40)]


def test_an_error_is_said_once():
    item = card("failed", "No such file.", result='{"error": "No such file."}')
    assert "\n".join(rows(item)).count("No such file.") == 1
    assert "No such file." in rows(item, Fold.CLOSED)[0]


def test_a_diff_opens_itself_up_to_twelve_rows():
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,0 +1,40 @@\n" + "".join(f"+x{n} = {n}\n" for n in range(40))
    item = card(summary="+40 −0", detail=DiffDetail(diff))
    shown = rows(item)
    assert len(shown) == 1 + 12 + 1
    assert shown[-1].strip().startswith("… ") and shown[-1].endswith(" more, ⏎")
    assert any("x39 = 39" in row for row in rows(item, Fold.OPEN))
    (closed,) = rows(item, Fold.CLOSED)
    assert closed.endswith("⏎ diff   0.1 s")


def test_a_short_diff_hides_nothing():
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    assert not any("more" in row for row in rows(card(detail=DiffDetail(diff))))


def test_a_running_call_shows_the_last_three_lines_of_its_output():
    assert [row.strip() for row in rows(card(None, live="1\n2\n3\n4\n"))[1:]] == ["2", "3", "4"]


def test_a_long_diff_is_cut_before_hunks():
    hunk = "@@ -1,3 +1,3 @@\n" + " x\n" * 90
    parts = list(hunks(("--- a/x\n+++ b/x\n" + hunk * 10).rstrip("\n")))
    assert len(parts) > 2
    assert "\n".join(parts) == ("--- a/x\n+++ b/x\n" + hunk * 10).rstrip("\n")
    assert all(part.startswith("@@") for part in parts[1:])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (-1, "0.0 s"),
        (9.94, "9.9 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (185, "3 min 5 s"),
        (7_260, "2 h 1 min"),
    ],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


def test_cut_text_says_so_and_fits():
    assert fit("abcdef", 6) == "abcdef"
    assert fit("abcdef", 4) == "abc…"
    assert fit("漢字漢字", 4) == "漢…"
    assert fit("abc", 0) == ""
