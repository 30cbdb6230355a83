"""Rows that are kept from one refresh to the next."""

from __future__ import annotations

from pytest import MonkeyPatch
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.filter import LineFilter, Monochrome
from textual.geometry import Region
from textual.strip import Strip

from widgets.painting import filtered_rows as filtered_module
from widgets.painting.filtered_rows import DrawnRow, FilteredRows

RED = Style(color="#ff0000", bgcolor="#100000")


class Words(DrawnRow):
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


STYLES = {
    "true colours": Style(color="#ff0000", bgcolor="#100000", bold=True),
    "the terminal's colours": Style(color="red", bgcolor="#100000"),
    "the terminal's background": Style(color="#ff0000", bgcolor="blue"),
    "dim": Style(color="#ff0000", bgcolor="#100000", dim=True),
    "nothing": Style.null(),
    "no style": None,
}


async def test_rows_come_out_as_the_filters_make_them_whatever_their_styles() -> None:
    app = Stage()
    async with app.run_test(size=(20, 3)):
        background = app.words.background_colors[1]
        rows = [
            Strip([Segment("a", one), Segment("b", two)])
            for one in STYLES.values()
            for two in STYLES.values()
        ]
        filtered: list[Strip] = []
        for _ in range(2):
            filtered = FilteredRows(app.words).filter(rows, 0, 2)
            for row, new in zip(rows, filtered, strict=True):
                runs = list(row)
                for each in app.get_line_filters():
                    runs = each.apply(runs, background)
                assert list(new) == runs
        assert any(list(new) != list(row) for row, new in zip(rows, filtered, strict=True))


async def test_more_styles_than_are_remembered_are_filtered_all_the_same(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_module, "STYLES", 3)
    app = Stage()
    async with app.run_test(size=(20, 3)):
        kept = FilteredRows(app.words)
        for number in range(20):
            plain, dim = Style(color=f"#0000{number:02x}"), Style(color=f"#{number:02x}0000", dim=True)
            row = Strip([Segment("a", plain), Segment("b", dim)])
            first, second = kept.filter([row], 0, 2)[0]
            assert first.style == plain and second.style != dim
