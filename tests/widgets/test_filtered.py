"""Rows that are kept from one refresh to the next."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.filter import LineFilter, Monochrome
from textual.geometry import Region
from textual.strip import Strip

from widgets.filtered import Drawn

RED = Style(color="#ff0000", bgcolor="#100000")


class Words(Drawn):
    """Says a word in its first row, and counts how often a row was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.word = "before"
        self.drawn = 0

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        text = self.word if y == 0 else ""
        return Strip([Segment(text.ljust(self.size.width), RED)])


class Stage(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.words = Words()
        self.extra: list[LineFilter] = []

    def compose(self) -> ComposeResult:
        yield self.words

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *self.extra]


def rows(words: Words) -> list[str]:
    return [row.text.rstrip() for row in words.render_lines(words.size.region)]


async def test_rows_are_drawn_once_for_a_refresh() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)):
        assert rows(app.words) == ["before", "", ""]
        app.words.drawn = 0
        app.words.word = "after"
        assert rows(app.words) == ["before", "", ""]
        assert app.words.drawn == 0
        app.words.refresh()
        assert rows(app.words) == ["after", "", ""]
        assert app.words.drawn == 3


async def test_a_refresh_of_one_row_is_enough() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)):
        rows(app.words)
        app.words.word = "after"
        app.words.refresh(Region(0, 0, 20, 1))
        assert rows(app.words)[0] == "after"


async def test_another_size_is_drawn_anew() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)) as pilot:
        rows(app.words)
        await pilot.resize_terminal(30, 5)
        await pilot.pause()
        assert rows(app.words) == ["before", "", "", "", ""]
        assert {row.cell_length for row in app.words.render_lines(app.words.size.region)} == {30}


async def test_a_part_is_asked_for_by_its_rows_and_columns() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)):
        rows(app.words)
        assert [row.text for row in app.words.render_lines(Region(2, 0, 4, 2))] == ["fore", "    "]
        assert rows(app.words) == ["before", "", ""]


async def test_a_filter_that_comes_or_goes_is_seen() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)):

        def reds() -> set[bool]:
            runs = [run for row in app.words.render_lines(app.words.size.region) for run in row]
            return {run.style == RED for run in runs}

        assert reds() == {True}
        app.extra.append(Monochrome())
        assert reds() == {False}
        app.extra.clear()
        assert reds() == {True}


async def test_a_new_word_reaches_the_screen() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)) as pilot:
        app.words.word = "after"
        app.words.refresh()
        await pilot.pause()
        assert "after" in app.export_screenshot()
