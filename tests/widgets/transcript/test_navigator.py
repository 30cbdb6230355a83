"""Moving around in a document that no widget shows: the picture says where one is."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.document import Document
from widgets.transcript.navigator import Navigator
from widgets.transcript.parts import AnswerItem, UserItem
from widgets.transcript.picture import DocumentPicture, Finder, Viewport

WIDTH, HEIGHT = 60, 10


class Host:
    """What a widget is to its navigator: it composes a picture and notes how many rows were others."""

    def __init__(self) -> None:
        palette = Palette(Skin())
        self.document = Document(palette)
        self.document.resize(WIDTH - 2)
        self.viewport = Viewport(self.document)
        self.viewport.height = HEIGHT
        finder = Finder()
        self.picture = DocumentPicture(self.document, self.viewport, finder, palette)
        self.navigator = Navigator(self.document, self.viewport, finder, self.picture, self)
        self.document.load(
            item
            for number in range(30)
            for item in (UserItem(f"question {number}", number), AnswerItem(f"answer {number}", number))
        )
        self.works: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self.repaint()

    def repaint(self) -> int:
        return len(self.picture.compose(WIDTH, HEIGHT, self.navigator.focused, None))

    def settle(self) -> None:
        self.settled = True

    def redraw_code(self) -> None:
        self.repaint()

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]], *, group: str = "") -> None:
        self.works.append(work)

    def shown(self) -> str:
        return "\n".join(strip.text for strip in self.picture.lines)


WAYS: dict[str, tuple[Callable[[Navigator], object], str, bool]] = {
    "start": (lambda it: it.jump_to_start(), "question 0", False),
    "end": (lambda it: it.jump_to_end(), "answer 29", True),
    "half": (lambda it: it.jump_to_share(0.5), "question 14", False),
    "rows up": (lambda it: it.scroll(-42), "question 17", False),
    "your message": (lambda it: [it.jump_user(-1) for _ in range(5)], "question 23", False),
    "items up": (lambda it: [it.move(-1) for _ in range(20)], "question 20", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_brings_its_place_into_sight(way: str) -> None:
    host = Host()
    go, expected, follows = WAYS[way]
    go(host.navigator)
    assert expected in host.shown()
    assert host.viewport.following is follows


async def test_a_search_stands_on_its_hit_and_names_it_in_the_last_row() -> None:
    host = Host()
    assert await host.navigator.find("question 3") == 1
    host.navigator.find_next()
    assert "question 3" in host.shown() and host.picture.lines[-1].text.rstrip().endswith("1 of 1")
    assert host.navigator.node() == 3 and host.navigator.source() == "question 3"
    host.navigator.forget()
    host.repaint()
    assert host.navigator.focused is None and "answer 29" in host.shown()


async def test_one_is_taken_to_an_item_and_its_words_are_searched_beside() -> None:
    host = Host()

    def wanted(item: object) -> bool:
        return isinstance(item, AnswerItem) and item.node == 7

    assert await host.navigator.go_to(wanted, "answer")
    assert "answer 7" in host.shown() and len(host.works) == 1 and host.settled
    assert not await host.navigator.go_to(lambda item: False)


def test_only_rows_that_are_others_are_painted() -> None:
    host = Host()
    assert host.repaint() == 0
    host.navigator.scroll(-1)
    assert host.repaint() == 0
    host.picture.unread.add(3)
    assert host.repaint() == 1 and "↓ 1 new" in host.shown()


def test_copying_again_copies_the_blocks_of_code_in_turn() -> None:
    host = Host()
    answer = "Two ways:\n\n```sh\nmake\n```\n\nor\n\n1. this\n\n```\nninja\n```\n"
    host.document.append(AnswerItem(answer, 31))
    copies = [host.navigator.next_copy() for _ in range(4)]
    assert copies == [
        (answer, "y again: block of code 1 of 2."),
        ("make", "y again: block of code 2 of 2."),
        ("ninja", ""),
        (answer, "y again: block of code 1 of 2."),
    ]
    host.navigator.move(-1)
    host.navigator.move(-1)
    assert host.navigator.next_copy() == (host.navigator.source(), "")
