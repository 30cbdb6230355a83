"""Items from before: fetched as they are wanted, and then no different from items that were there at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.transcript.support import Host
from themes.skin import Skin
from tools.results import Display
from widgets.palette import Palette
from widgets.transcript.document import KEPT_ENTRIES, Document, RowPosition
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    Fold,
    NoticeItem,
    ReasoningItem,
    RowCache,
    UserItem,
    WordsPart,
)
from widgets.transcript.picture import KEPT_ITEMS, Finder, Viewport

PALETTE = Palette(Skin())


class Source:
    """Items from the last to the first, and how many of them were asked for."""

    def __init__(self, items):
        self.items = items
        self.asked = 0

    def __iter__(self):
        for item in reversed(self.items):
            self.asked += 1
            yield item


def question(number):
    return UserItem(f"question {number}")


def lazy(items, width=40):
    document = Document(PALETTE)
    document.resize(width)
    document.load(earlier=Source(items))
    return document


def eager(items, width=40):
    document = Document(PALETTE)
    document.resize(width)
    document.load(items)
    return document


def rows(document):
    return [row.strip.text for row in document.down(document.start)]


texts = st.text("ab *`#-\n", max_size=60)
items = st.one_of(
    texts.map(UserItem),
    texts.map(AnswerItem),
    texts.map(ReasoningItem),
    texts.map(lambda text: NoticeItem("info", text)),
    texts.map(lambda text: CallItem("1", "read", Display("read", "a.py"), {}, "done", 0.1, text)),
)


@given(st.lists(items, max_size=12), st.lists(st.sampled_from("murfao"), max_size=12), st.data())
def test_fetched_late_or_there_at_once_a_document_is_the_same(said, steps, data):
    late, whole = lazy(said), eager(said)
    for step in steps:
        match step:
            case "m":
                late.fetch_earlier()
            case "u":
                list(late.up(late.end))
            case "r":
                for document in (late, whole):
                    document.resize(30 if document.width == 40 else 40)
            case "f":
                fold = data.draw(st.sampled_from(list(Fold)))
                for document in (late, whole):
                    document.fold_all(fold)
            case "a":
                for document in (late, whole):
                    document.append(UserItem("more"))
            case "o" if len(late):
                back = data.draw(st.integers(1, len(late)))
                for document in (late, whole):
                    document.fold(document.stop - back, Fold.OPEN)
    for _ in late.fill():
        pass
    assert late.complete
    assert rows(late) == rows(whole)
    assert late.heights.total == sum(late.heights[index] for index in range(late.first, late.stop))
    assert late.heights.total == len(rows(late))
    for row, found in enumerate(late.down(late.start)):
        assert late.place_at(row) == found.place
        assert late.rows_above(found.place) == row


async def test_only_what_is_in_sight_is_fetched_before_the_first_paint():
    host = Host()
    source = Source([question(number) for number in range(20_000)])
    async with host.run_test(size=(80, 24)):
        host.transcript.load(earlier=source)
        assert source.asked < 40
        assert "question 19999" in host.rows()[-1]


async def test_a_number_above_what_is_in_sight_comes_in_by_itself_and_moves_nothing():
    host = Host()
    source = Source([question(number) for number in range(KEPT_ITEMS + 1_000)])
    async with host.run_test(size=(80, 24)):
        host.transcript.load(earlier=source)
        host.transcript.navigator.scroll(-15)
        before = host.rows()
        await host.workers.wait_for_complete()
        assert KEPT_ITEMS <= source.asked < KEPT_ITEMS + 100
        host.transcript.repaint()
        assert host.rows() == before


async def test_the_start_stays_in_sight_while_items_come_in_above():
    host = Host()
    async with host.run_test(size=(80, 10)) as pilot:
        host.transcript.load(earlier=Source([question(number) for number in range(2_000)]))
        host.transcript.focus()
        await pilot.press("g")
        await host.workers.wait_for_complete()
        host.transcript.repaint()
        assert host.rows()[0].endswith("question 0") and not host.transcript.following


async def test_another_conversation_ends_the_fetching_of_the_one_before():
    host = Host()
    first, second = (Source([question(number) for number in range(5_000)]) for _ in range(2))
    async with host.run_test(size=(80, 10)):
        host.transcript.load(earlier=first)
        host.transcript.load(earlier=second)
        await host.workers.wait_for_complete()
        assert first.asked < 40
        assert len(host.transcript.document) == KEPT_ITEMS
        assert second.asked == KEPT_ITEMS + 1, "the item above the first tells whether a gap stands there"


async def test_what_stands_at_the_top_stays_there_when_the_window_changes_its_width():
    host = Host()
    said = [UserItem(f"question {number} " + "word " * 40) for number in range(500)]
    async with host.run_test(size=(80, 12)) as pilot:
        host.transcript.load(earlier=Source(said))
        host.transcript.navigator.scroll(-300)
        top = host.transcript._viewport.top.item
        await pilot.resize_terminal(50, 12)
        await host.workers.wait_for_complete()
        await pilot.resize_terminal(110, 12)
        assert host.transcript._viewport.top.item == top


async def test_the_keys_go_up_into_what_was_not_there_yet():
    host = Host()
    said = [question(0), *[AnswerItem(f"answer {number}") for number in range(400)]]
    async with host.run_test(size=(80, 10)):
        host.transcript.load(earlier=Source(said))
        host.transcript.navigator.jump_user(-1)
        await host.workers.wait_for_complete()
        assert host.rows()[0].endswith("question 0")


async def test_new_items_stand_below_those_from_before():
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.load(earlier=Source([NoticeItem("info", "one"), NoticeItem("info", "two")]))
        host.transcript.add_notice("info", "three")
        host.transcript.flush()
        assert [row.split()[-1] for row in host.rows()[:3]] == ["one", "two", "three"]
        assert host.transcript.document.entries[-1].item == NoticeItem("info", "two")


async def test_a_search_reaches_what_was_not_fetched_yet():
    host = Host()
    source = Source([question(number) for number in range(3_000)])
    async with host.run_test(size=(80, 10)):
        host.transcript.load(earlier=source)
        assert await host.transcript.navigator.find("question 7") == 1 + 10 + 100
        host.transcript.navigator.find_next()
        assert host.rows()[-1].endswith("1 of 111")
        assert "question 7" in host.rows()[0]


def test_another_search_ends_the_one_before():
    document = lazy([question(number) for number in range(100)])
    finder = Finder()
    first = finder.search(document, "question")
    for _ in range(10):
        next(first)
    assert finder.count == 10 and finder.searching
    second = finder.search(document, "question 9")
    assert finder.count == 0
    assert list(first) == []
    assert len(list(second)) == 100 and finder.count == 11 and not finder.searching


def test_hits_are_visited_while_more_are_counted():
    document = lazy([question(number) for number in range(100)])
    finder = Finder()
    steps = finder.search(document, "question")
    for _ in range(10):
        next(steps)
    assert finder.move(1, -50) is None, "nobody knows yet what the first hit below is"
    last = finder.move(-1, document.stop)
    assert last is not None and last.item == document.stop - 1
    assert finder.move(1, 0) is None, "the first hit is not known yet, so nothing comes after the last"
    above = [finder.move(-1, 0) for _ in range(9)]
    assert [match.item for match in above if match] == [last.item - back for back in range(1, 10)]
    assert finder.move(-1, 0) is None
    list(steps)
    assert finder.number == 91 and finder.move(-1, 0) and finder.number == 90


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.integers(0, 8),
    st.lists(st.sampled_from([1, -1]), max_size=12),
)
def test_hits_are_visited_in_their_order_whatever_was_there_first(hits, start, steps):
    said = [UserItem("x" * count) for count in hits]
    document = lazy(said)
    finder = Finder()
    for _ in finder.search(document, "x"):
        pass
    flat = [(at, number) for at, count in enumerate(hits) for number in range(count)]
    first = document.first
    at = None
    for step in steps:
        match = finder.move(step, start + first)
        if not flat:
            assert match is None
            continue
        if at is None:
            below = [place for place, (index, _) in enumerate(flat) if index >= start]
            above = [place for place, (index, _) in enumerate(flat) if index <= start]
            at = (below or [0])[0] if step > 0 else (above or [len(flat) - 1])[-1]
        else:
            at = (at + step) % len(flat)
        assert match is not None
        assert (match.item - first, match.number) == flat[at]
        assert finder.number == at + 1


def test_folding_everything_touches_only_what_was_looked_at():
    items = [
        CallItem(str(n), "t", Display("read", "a"), {"path": "a"}, "done", 0.1, "x") for n in range(9_000)
    ]
    document = eager(items)
    view = Viewport(document)
    view.height = 20
    view.rows()
    document.fold_all(Fold.OPEN)
    assert sum(1 for entry in document.entries if entry.chosen is Fold.OPEN) <= 25
    assert document.entry(17).fold is Fold.OPEN


@pytest.mark.thorough
def test_parts_and_rows_are_kept_for_a_bounded_number_of_items():
    document = eager([question(number) for number in range(3 * KEPT_ENTRIES)])
    all_rows = rows(document)
    assert sum(1 for entry in document.entries if entry.parts is not None) <= KEPT_ENTRIES
    assert document.heights.total == len(all_rows)
    assert rows(document) == all_rows


@pytest.mark.thorough
def test_an_answer_that_is_being_written_keeps_its_parts():
    document = eager([])
    index = document.open(AnswerItem(""))
    document.write(index, [WordsPart("first", "text")], [])
    for number in range(2 * KEPT_ENTRIES):
        document.parts(document.append(question(number)))
    document.close(index, [WordsPart("last", "text")], AnswerItem("first\n\nlast"))
    assert [row.strip.text.strip() for row in document.down(RowPosition(index, 0, 0))][:3] == [
        "first",
        "",
        "last",
    ]


def test_kept_rows_are_bounded_and_one_long_part_is_still_kept():
    kept = RowCache(limit=10)
    blank = eager([question(1)]).strips(0, 0)[0]
    long, short = WordsPart("long", "text"), WordsPart("short", "text")
    kept.store(long, [blank] * 50)
    assert kept.get(long) is not None and kept.rows == 50
    kept.store(short, [blank] * 3)
    assert kept.get(long) is None and kept.rows == 3


@pytest.mark.parametrize("count", [0, 1])
async def test_a_conversation_of_hardly_anything_opens(count):
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.load(earlier=Source([question(number) for number in range(count)]))
        assert len(host.transcript.document) == count
        assert host.transcript.following
