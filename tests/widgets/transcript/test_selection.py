"""Selected text: by mouse, by item, and as numbers that stay when rows move."""

from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection

from tests.widgets.transcript.support import Host
from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.document import Document, RowPosition
from widgets.transcript.parts import AnswerItem, UserItem
from widgets.transcript.picture import line_of, place_of, selected_text, span_of, whole

place = st.builds(RowPosition, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))


@given(place, place)
def test_numbers_of_places_keep_their_order_and_lead_back(one, other):
    assert place_of(line_of(one)) == one
    assert (line_of(one) < line_of(other)) is (one < other)


def document_of(*items):
    document = Document(Palette(Skin()))
    document.load(items)
    return document


def test_selecting_everything_takes_the_sources_without_drawing():
    document = document_of(UserItem("one"), AnswerItem("**two**\x1b[31m"))
    assert selected_text(document, SELECT_ALL) == "one\n\n**two**"
    assert all(entry.parts is None for entry in document.entries)


def test_selected_text_leaves_the_gutter_out():
    document = document_of(UserItem("one two"), AnswerItem("three four"))
    start, end = Offset(0, line_of(RowPosition(0, 0, 0))), Offset(7, line_of(RowPosition(1, 1, 0)))
    assert selected_text(document, Selection(start, end)) == "one two\n\nthree"
    assert selected_text(document, Selection(Offset(6, start.y), end)) == "two\n\nthree"


def test_the_gutter_is_never_marked():
    selection = Selection(Offset(0, line_of(RowPosition(1, 0, 0))), None)
    assert span_of(selection, RowPosition(1, 0, 0), 10) == (2, 10)
    assert span_of(selection, RowPosition(0, 9, 9), 10) is None
    assert (
        span_of(Selection(None, Offset(1, line_of(RowPosition(1, 0, 0)))), RowPosition(1, 0, 0), 10) is None
    )


def test_one_item_is_selected_as_a_whole():
    document = document_of(UserItem("one"), AnswerItem("two\n\nthree"), UserItem("four"))
    assert selected_text(document, whole(document, 1)) == "two\n\nthree"


async def drag(pilot, start, end):
    await pilot.mouse_down(offset=start)
    await pilot.hover(offset=end)
    await pilot.mouse_up(offset=end)
    await pilot.pause()


async def test_the_mouse_selects_words_over_rows_and_marks_them():
    host = Host()
    async with host.run_test(size=(60, 12)) as pilot:
        host.transcript.add_user("The quick 漢字 fox")
        host.transcript.finish_answer("jumps over\n\nthe lazy dog", "", 1)
        host.transcript.flush()
        await pilot.pause()
        await drag(pilot, (13, 0), (8, 2))
        assert host.screen.get_selected_text() == "漢字 fox\n\njumps"
        ground = host.transcript.palette.style("text", "selection").bgcolor
        marked = [
            run.text for run in host.transcript.render_line(0) if run.style and run.style.bgcolor == ground
        ]
        assert "".join(marked).rstrip() == "漢字 fox"


async def test_a_selection_stays_on_its_words_when_news_move_the_rows():
    host = Host()
    async with host.run_test(size=(60, 6)) as pilot:
        host.transcript.load([UserItem(f"question {number}") for number in range(20)])
        await pilot.pause()
        await drag(pilot, (3, 3), (12, 3))
        selected = host.screen.get_selected_text()
        assert selected and selected.startswith("question")
        for number in range(5):
            host.transcript.add_user(f"more {number}")
        host.transcript.flush()
        host.transcript.navigator.scroll(-7)
        assert host.screen.get_selected_text() == selected


async def test_dragging_opens_no_card_and_a_double_click_selects_one_item():
    host = Host()
    async with host.run_test(size=(60, 12)) as pilot:
        host.transcript.add_user("one two")
        host.transcript.finish_answer("three\n\nfour", "because", 1)
        host.transcript.flush()
        await pilot.pause()
        await drag(pilot, (3, 2), (8, 2))
        assert "because" not in host.screen_text()
        await pilot.double_click(host.transcript, offset=(4, 4))
        await pilot.pause()
        assert host.screen.get_selected_text() == "three\n\nfour"
