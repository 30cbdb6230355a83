"""Documents: rows by place, drawn once and only where they are seen."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from themes.skin import Skin
from tools.results import Display
from widgets.palette import Palette
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.drawing import draw
from widgets.transcript.parts import AnswerItem, CallItem, Fold, NoticeItem, ReasoningItem, UserItem
from widgets.transcript.picture import Viewport

PALETTE = Palette(Skin())


class Counter:
    """Draws, and keeps what it drew."""

    def __init__(self):
        self.drawn = []

    def __call__(self, part, width, palette, wide):
        self.drawn.append(part)
        return draw(part, width, palette, wide)


def make(items, width=80):
    counter = Counter()
    document = Document(PALETTE, counter)
    document.resize(width)
    document.load(items)
    return document, counter


def texts(rows):
    return [row.strip.text.rstrip() for row in rows]


def item(number):
    return UserItem(f"question {number}") if number % 2 == 0 else AnswerItem(f"answer {number}\n\n- a\n- b")


def test_ten_thousand_items_open_at_the_cost_of_one_screen():
    document, counter = make([item(number) for number in range(10_000)])
    view = Viewport(document)
    view.height = 40
    assert len(view.rows()) == 40
    assert len(counter.drawn) < 100
    assert sum(1 for entry in document.entries if entry.parts is not None) < 30


def test_a_jump_into_the_middle_draws_one_screen():
    document, counter = make([item(number) for number in range(10_000)])
    view = Viewport(document)
    view.height = 40
    view.to_share(0.5)
    assert len(view.rows()) == 40
    assert 3_000 < view.top.item < 7_000
    assert len(counter.drawn) < 100


def test_rows_stay_where_they_are_when_estimates_above_turn_out_wrong():
    long = AnswerItem("\n\n".join(["word " * 400] * 5))
    document, _ = make([long] * 50)
    view = Viewport(document)
    view.height = 20
    view.to(document.start_of(25))
    before = texts(view.rows())
    for index in range(25):
        for part in range(len(document.parts(index))):
            document.strips(index, part)
    assert texts(view.rows()) == before


def test_a_place_keeps_its_item_when_the_width_changes():
    document, _ = make([AnswerItem(f"{number} " + "word " * 60) for number in range(200)])
    view = Viewport(document)
    view.height = 20
    view.to(document.start_of(100))
    view.rows()
    document.resize(40)
    assert view.rows()[0].place.item == 100
    assert view.rows()[0].strip.text.strip().startswith("100")


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-60, 60), max_size=12), st.integers(1, 30))
def test_scrolling_shows_a_gapless_stretch_of_the_whole(steps, height):
    document, _ = make([item(number) for number in range(40)])
    whole = [row.place for row in document.down(RowPosition(0, 0, 0))]
    view = Viewport(document)
    view.height = height
    at = len(whole) - height
    for step in steps:
        view.scroll(step)
        at = min(max(at + step, 0), len(whole) - height)
        assert [row.place for row in view.rows()] == whole[at : at + height]
        assert view.following is (at == len(whole) - height)


def test_walking_up_is_walking_down_backwards():
    document, _ = make([item(number) for number in range(30)] + [AnswerItem("")])
    down = [row.place for row in document.down(RowPosition(0, 0, 0))]
    up = [row.place for row in document.up(document.end)]
    assert up == down[::-1]
    assert [document.place_at(document.rows_above(place)) for place in down] == down


def test_cards_stand_together_and_messages_apart():
    card = CallItem("1", "read", Display("read", "a.py"), outcome="done")
    document, _ = make([UserItem("hello"), card, card, AnswerItem("done")])
    rows = texts(document.down(RowPosition(0, 0, 0)))
    assert [bool(row) for row in rows] == [True, False, True, True, False, True]


def test_a_long_message_of_the_person_is_folded_after_twenty_rows():
    document, _ = make([UserItem("\n".join(f"line {number}" for number in range(100)))])
    rows = texts(document.down(RowPosition(0, 0, 0)))
    assert len(rows) == 21
    assert rows[-1].strip() == "… 80 more lines, ⏎"
    document.fold(0, Fold.OPEN)
    assert len(texts(document.down(RowPosition(0, 0, 0)))) == 100


def test_a_message_of_one_endless_line_is_drawn_in_parts():
    document, counter = make([UserItem("x" * 1_000_000)])
    document.fold(0, Fold.OPEN)
    view = Viewport(document)
    view.height = 30
    view.to(RowPosition(0, 0, 0))
    view.rows()
    assert sum(len(part.text) for part in counter.drawn) < 60_000


def test_reasoning_is_one_honest_line_until_it_is_opened():
    document, _ = make([ReasoningItem("one two three", 4.0), ReasoningItem("one two three")])
    rows = texts(document.down(RowPosition(0, 0, 0)))
    assert rows == ["▸ Thought for 4 s", "▸ Thought · 3 words"]
    document.fold(0, Fold.OPEN)
    assert texts(islice(document.down(RowPosition(0, 0, 0)), 2)) == ["▾ Thought for 4 s", "  one two three"]


@given(
    st.text(
        alphabet=st.sampled_from("\x1b]52;c\x07\x9b[31mab \n\t\r\x00\u202e\u200b#`-|漢e\u0301🙂"), max_size=80
    )
)
def test_no_control_character_reaches_a_strip(text):
    display = Display(text, text, text)
    items = [
        UserItem(text),
        ReasoningItem(text, 1.0),
        AnswerItem(text),
        NoticeItem("warning", text),
        CallItem("1", text, display, {text: text, "n": [text]}, "failed", 1.0, text),
    ]
    document, _ = make(items, 30)
    document.fold_all(Fold.OPEN)
    for row in document.down(RowPosition(0, 0, 0)):
        assert row.strip.cell_length == 30
        assert all(character.isprintable() for character in row.strip.text), row.strip.text
        assert "\u202e" not in row.strip.text
