"""Items that were put away: in memory few, on the screen all."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.transcript.support import DIFF, Host, call
from themes.skin import Skin
from tools.results import DiffDetail, Display, TextDetail
from widgets.palette import Palette
from widgets.transcript.archive import UNREADABLE, Archive
from widgets.transcript.document import Document
from widgets.transcript.parts import (
    AnswerItem,
    CallItem,
    DocumentEntry,
    Fold,
    NoticeItem,
    ReasoningItem,
    UserItem,
    source_of,
)
from widgets.transcript.picture import KEPT_ITEMS, SLACK, Finder, Viewport

ONE_OF_EACH = [
    UserItem("said", 3, "steer", ("a.png", "sha256:b")),
    ReasoningItem("thought", 1.5),
    ReasoningItem("thinks", live=True),
    AnswerItem("# Head\n\ntext \U0001f600 \x1b[31m", 4),
    CallItem("c", "read", Display("read", "a.py", "2 lines", TextDetail("a\nb", "python")), {"path": "a.py"}),
    CallItem("d", "edit", Display("edit", "a.py", "", DiffDetail(DIFF)), {"n": [{"x": None}]}, "done", 0.25),
    CallItem(
        "e", "run", Display("run", "make", picture="b.png"), {}, "failed", 2.0, '{"error": "no"}', "live"
    ),
    NoticeItem("warning", "noticed"),
]


def document(items=(), width=40):
    made = Document(Palette(Skin()))
    made.resize(width)
    made.load(items)
    return made


def rows(shown):
    return [row.strip.text for row in shown.down(shown.start)]


@pytest.mark.parametrize("index", [0, -1, 7, -8])
@pytest.mark.parametrize("item", ONE_OF_EACH)
def test_every_kind_of_item_comes_back_as_it_was(item, index):
    archive = Archive()
    entry = DocumentEntry(item, gap=True, age=3)
    entry.chosen = Fold.OPEN
    archive.write(index, entry)
    for _ in range(2):
        back = archive.read(index)
        assert (back.item, back.gap, back.age, back.chosen) == (item, True, 3, Fold.OPEN)


def test_entries_are_written_and_read_in_any_order(tmp_path):
    archive = Archive(tmp_path)
    order = [3, -2, 0, 99, -50, 1]
    for index in order:
        archive.write(index, DocumentEntry(UserItem(f"{index}" * 50), gap=False))
    assert [source_of(archive.read(index).item) for index in sorted(order)] == [
        f"{index}" * 50 for index in sorted(order)
    ]
    archive.write(0, DocumentEntry(UserItem("changed"), gap=True))
    assert archive.read(0).item == UserItem("changed")
    assert archive.read(1).item == UserItem("1" * 50)


def test_what_has_not_changed_is_written_once():
    shown = document([UserItem(f"question {number}") for number in range(5)])
    while shown.archive_item():
        pass
    full = shown.archive.file.size
    assert full and shown.in_memory == 0 and len(shown) == 5
    rows(shown)
    while shown.archive_item():
        pass
    assert shown.archive.file.size == full
    shown.fold(2, Fold.OPEN)
    while shown.archive_item():
        pass
    assert shown.archive.file.size > full
    assert shown.entry(2).chosen is Fold.OPEN


def test_the_file_has_no_name(tmp_path):
    archive = Archive(tmp_path)
    archive.write(0, DocumentEntry(UserItem("secret"), gap=False))
    assert archive.file.size and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [600, 5_000])
def test_arguments_nested_too_deeply_to_be_written_stay_in_memory(depth):
    arguments = {}
    for _ in range(depth):
        arguments = {"a": arguments}
    archive = Archive()
    archive.write(0, DocumentEntry(UserItem("below"), gap=False))
    archive.write(1, DocumentEntry(CallItem("c", "t", Display("run", "a"), arguments), gap=False))
    item = archive.read(1).item
    assert isinstance(item, CallItem) and item.call == "c"
    found = 0
    while arguments:
        arguments, found = arguments["a"], found + 1
    assert found == depth and archive.read(0).item == UserItem("below")


def test_without_a_place_for_the_file_everything_stays_in_memory(tmp_path):
    archive = Archive(tmp_path / "gone")
    for index, item in enumerate(ONE_OF_EACH):
        archive.write(index, DocumentEntry(item, gap=False))
    assert [archive.read(index).item for index in range(len(ONE_OF_EACH))] == ONE_OF_EACH


def test_what_could_not_be_written_is_written_once_there_is_room(tmp_path):
    shown = document([UserItem("question")])
    shown.archive.file.folder = tmp_path / "later"
    shown.archive_item()
    assert shown.source(0) == "question" and not shown.archive.file.size
    shown.archive.file.folder.mkdir()
    shown.fold(0, Fold.OPEN)
    shown.archive_item()
    assert shown.archive.file.size and shown.source(0) == "question" and shown.entry(0).chosen is Fold.OPEN


def test_what_the_disk_lost_leaves_a_notice_and_moves_no_index(tmp_path):
    shown = document([UserItem(f"question {number}") for number in range(5)])
    for _ in range(3):
        shown.archive_item()
    assert shown.in_memory == 2
    with shown.archive.file._open() as file:
        file.truncate(5)
    assert shown.source(0) == UNREADABLE.text
    assert [shown.source(index) for index in (3, 4)] == ["question 3", "question 4"]


texts = st.text("ab *`#-\n", max_size=60)
items = st.one_of(
    texts.map(UserItem),
    texts.map(AnswerItem),
    texts.map(ReasoningItem),
    texts.map(lambda text: NoticeItem("info", text)),
    texts.map(lambda text: CallItem("1", "read", Display("read", "a.py"), {}, "done", 0.1, text)),
)


@pytest.mark.thorough
@given(st.lists(items, max_size=12), st.lists(st.sampled_from("aadddmrfowsx"), max_size=30), st.data())
def test_put_away_or_not_a_document_is_the_same(said, steps, data):
    small, whole = document(said), document(said)
    views = [Viewport(each) for each in (small, whole)]
    for view in views:
        view.height = 6
    both = (small, whole)
    for step in steps:
        at = data.draw(st.integers(0, max(whole.stop - 1, 0)), label="at")
        match step:
            case "a":
                item = data.draw(items)
                assert small.append(item) == whole.append(item)
            case "d":
                small.archive_item()
            case "m":
                small.fetch_earlier()
            case "r":
                for each in both:
                    each.resize(30 if each.width == 40 else 40)
            case "f":
                fold = data.draw(st.sampled_from(list(Fold)))
                for each in both:
                    each.fold_all(fold)
            case "o" if len(whole):
                for each in both:
                    each.fold(at, Fold.OPEN)
            case "w":
                by = data.draw(st.integers(-20, 20))
                for view in views:
                    view.scroll(by)
                few, many = ([row.strip.text for row in view.rows()] for view in views)
                assert few == many
            case "s":
                finders = [Finder(), Finder()]
                found = []
                for finder, each in zip(finders, both, strict=True):
                    for _ in finder.search(each, "a"):
                        small.archive_item()
                    match = finder.move(-1, at)
                    found.append((finder.count, match, match and finder.place(each, match)))
                assert found[0] == found[1]
            case "x" if len(whole):
                other = replace(UserItem(""), text=data.draw(texts))
                for each in both:
                    each.change(at, other)
    for _ in small.fill():
        pass
    assert (small.first, small.stop, small.complete) == (0, whole.stop, True)
    assert rows(small) == rows(whole)
    assert small.heights.total == len(rows(small))
    for row, found in enumerate(small.down(small.start)):
        assert small.place_at(row) == found.place
        assert small.rows_above(found.place) == row


async def settled(host):
    host.transcript.flush()
    await host.workers.wait_for_complete()


@pytest.mark.thorough
async def test_ten_thousand_items_leave_a_bounded_number_in_memory():
    host = Host()
    async with host.run_test(size=(80, 10)):
        for number in range(10_000):
            host.transcript.add_notice("info", f"notice {number}")
            if number % 1_000 == 999:
                await settled(host)
                assert host.transcript.document.in_memory <= KEPT_ITEMS + SLACK
        document = host.transcript.document
        assert document.stop == len(document) == 10_000 and document.archive.file.size
        assert len(document._looked) <= document.in_memory
        assert host.rows()[-1].endswith("notice 9999")


@pytest.mark.thorough
async def test_the_top_is_reached_with_few_in_memory_and_all_are_there_in_order():
    host = Host()
    async with host.run_test(size=(80, 10)) as pilot:
        for number in range(3 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        shown = host.transcript.document
        assert shown.entries.here(0) is None
        host.transcript.focus()
        await pilot.press("g")
        await settled(host)
        assert shown.complete and shown.first == 0
        assert host.rows()[0].endswith("notice 0")
        assert shown.in_memory <= KEPT_ITEMS + SLACK
        assert [shown.source(index) for index in range(shown.stop)] == [
            f"notice {number}" for number in range(3 * KEPT_ITEMS)
        ]
        await pilot.press("G")
        await settled(host)
        assert host.rows()[-1].endswith(f"notice {3 * KEPT_ITEMS - 1}")


@pytest.mark.thorough
async def test_who_reads_above_keeps_what_is_in_sight():
    host = Host()
    async with host.run_test(size=(80, 10)):
        for number in range(KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        host.transcript.navigator.scroll(-100)
        before = host.rows()[:-1]
        for number in range(3 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"more {number}")
        await settled(host)
        assert host.rows()[:-1] == before
        assert host.transcript.document.in_memory <= KEPT_ITEMS + SLACK


class Reads:
    """Counts what an archive is asked for."""

    def __init__(self, archive, monkeypatch):
        self.count = 0
        read = archive.read

        def counted(index):
            self.count += 1
            return read(index)

        monkeypatch.setattr(archive, "read", counted)


async def test_a_search_finds_what_was_put_away_and_a_step_there_reads_one_screen(monkeypatch):
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.add_notice("info", "the needle")
        for number in range(2 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        shown = host.transcript.document
        assert await host.transcript.navigator.find("needle") == 1
        assert shown.entries.here(0) is None, "what is searched stays where it is"
        reads = Reads(shown.archive, monkeypatch)
        host.transcript.navigator.find_next()
        assert any("the needle" in row for row in host.rows())
        assert reads.count <= 3 * 10


@pytest.mark.thorough
async def test_no_jump_reads_more_than_what_it_shows(monkeypatch):
    host = Host()
    async with host.run_test(size=(80, 10)):
        for number in range(3 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        reads = Reads(host.transcript.document.archive, monkeypatch)
        host.transcript.action_top()
        assert host.rows()[0].endswith("notice 0")
        for share in (0.2, 0.5, 0.4):
            host.transcript._viewport.to_share(share)
            host.transcript.repaint()
            assert host.rows()[0].endswith(f"notice {int(share * (3 * KEPT_ITEMS - 10))}")
        host.transcript.navigator.jump_to_end()
        assert reads.count <= 4 * 3 * 10


async def test_a_message_of_the_person_is_reached_among_what_was_put_away():
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.add_user("the question")
        for number in range(2 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        host.transcript.navigator.jump_user(-1)
        await settled(host)
        assert host.rows()[0].endswith("the question")


async def test_a_long_way_to_a_message_is_gone_in_slices_and_left_by_who_goes_elsewhere(monkeypatch):
    monkeypatch.setattr("widgets.transcript.navigator.SLICE", 0.0)
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.add_user("the question")
        for number in range(100):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        host.transcript.navigator.jump_user(-1)
        assert host.transcript.following, "the first slice did not lead there"
        host.transcript.navigator.scroll(-20)
        before = host.rows()
        await settled(host)
        assert host.rows() == before
        host.transcript.navigator.jump_user(-1)
        await settled(host)
        assert host.rows()[0].endswith("the question")


@pytest.mark.thorough
async def test_a_call_ends_on_its_card_wherever_that_is_by_then():
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.motion = False
        host.transcript.start_call("slow", "run", Display("run", "make"), {})
        for number in range(2 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        assert host.transcript.document.in_memory <= KEPT_ITEMS + SLACK
        host.transcript.progress_call("slow", "some output\n")
        host.transcript.finish_call("slow", "done", 9.0, Display("run", "make", "built"), "{}")
        await settled(host)
        item = host.transcript.document.entry(0).item
        assert isinstance(item, CallItem) and item.display.summary == "built"


@pytest.mark.thorough
async def test_an_answer_that_is_being_written_stays_in_memory_until_it_is_complete():
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.add_text("# Head\n\nfirst")
        host.transcript.flush()
        for number in range(2 * KEPT_ITEMS):
            host.transcript.add_notice("info", f"notice {number}")
        await settled(host)
        shown = host.transcript.document
        open_one = shown.entries.here(0)
        assert open_one is not None and open_one.open
        host.transcript.add_text(" and last")
        host.transcript.finish_answer("# Head\n\nfirst and last", "", 7)
        await settled(host)
        assert shown.entry(0).item == AnswerItem("# Head\n\nfirst and last", 7)


@pytest.mark.thorough
async def test_another_conversation_leaves_nothing_of_the_one_before(tmp_path: Path):
    host = Host()
    async with host.run_test(size=(80, 10)):
        for number in range(KEPT_ITEMS + 2 * SLACK):
            call(host.transcript, number, "read", "a.py", "2 lines", TextDetail("a\nb"))
        await settled(host)
        archive = host.transcript.document.archive
        assert archive.file.size
        host.transcript.clear()
        assert (
            not archive.file.size and not len(host.transcript.document) and host.transcript.document.complete
        )
