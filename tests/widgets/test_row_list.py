"""The list of rows on a real screen."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from themes.loader import load_skin
from themes.skin import NIGHT, Skin
from widgets.palette import Palette
from widgets.rows.row_list import ReadingRows, RowList
from widgets.rows.row_text import to_strip


class Host(App[None]):
    def __init__(self, texts: list[str], *, follow: bool = False) -> None:
        super().__init__()
        self.texts = texts
        self.drawn: list[int] = []
        self.opened: list[int] = []
        self.copied = ""
        self.escaped = 0
        self.rows = ReadingRows(
            self.draw,
            search_text=lambda index: self.texts[index],
            count=len(texts),
            empty="Nothing here yet.",
            follow=follow,
        )

    BINDINGS = [("escape", "back", "Back")]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield self.rows

    def draw(self, index: int, width: int) -> list[Text]:
        self.drawn.append(index)
        return [Text(" " + self.texts[index])]

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        self.opened.append(event.index)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied = text

    def action_back(self) -> None:
        self.escaped += 1


def shown(rows: RowList) -> list[str]:
    texts = [rows.render_line(y).text.strip(" ▌") for y in range(rows.size.height)]
    return [text for text in texts if text]


async def settle(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause(0.05)


NUMBERS = [f"row {index}" for index in range(100_000)]


async def test_a_hundred_thousand_rows_draw_only_what_is_in_view() -> None:
    app = Host(NUMBERS)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("G")
        assert shown(app.rows)[-1] == "row 99999"
        await pilot.press("g")
        assert shown(app.rows) == NUMBERS[:10]
        await pilot.press("pagedown", "j", "down", "k")
        assert app.rows.cursor == 10
        assert len(set(app.drawn)) < 100


async def test_enter_and_click_open_a_row() -> None:
    app = Host(NUMBERS[:50])
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("j", "enter")
        await pilot.click(app.rows, offset=(5, 7))
        await pilot.pause()
        assert app.opened == [1, 7]
        assert app.rows.cursor == 7


async def test_the_filter_takes_letters_as_text_and_shows_what_matches() -> None:
    app = Host(["apple", "green apple", "gold", "Grape", "Green gold"])
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("slash", *"GREEN g")
        await settle(pilot)
        assert app.rows.needle == "GREEN g"
        assert shown(app.rows) == ["green apple", "Green gold", "/ GREEN g█"]
        await pilot.press("enter", "j", "enter")
        assert app.opened == [4]
        await pilot.press("escape")
        assert len(shown(app.rows)) == 5
        assert app.rows.cursor == 4
        assert app.escaped == 0
        await pilot.press("escape")
        assert app.escaped == 1


@pytest.mark.thorough
async def test_a_filter_over_many_rows_sees_rows_that_come_in_meanwhile() -> None:
    app = Host(list(NUMBERS))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("slash", *"999")
        app.texts.append("row 999 again")
        app.rows.add_rows()
        app.texts.append("another")
        app.rows.add_rows()
        await settle(pilot)
        matching = sum("999" in text for text in app.texts)
        assert app.rows.shown_count == matching
        await pilot.press("enter", "G")
        assert shown(app.rows)[-2] == "row 999 again"


async def test_n_goes_from_match_to_match_around_the_end() -> None:
    app = Host(["one x", "two", "three x", "four"])
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("slash", "x", "enter", "escape")
        await settle(pilot)
        places = []
        for key in ("n", "n", "N"):
            await pilot.press(key)
            await settle(pilot)
            places.append(app.rows.cursor)
        assert places == [2, 0, 2]


async def test_a_filter_without_a_match_says_how_to_get_back() -> None:
    app = Host(["one"])
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.press("slash", "z")
        await settle(pilot)
        assert shown(app.rows)[0] == "No row matches. esc shows all."
        await pilot.press("enter", "enter", "y", "j")
        assert app.opened == []
        assert app.copied == ""


async def test_an_empty_list_teaches_one_thing_and_takes_every_key() -> None:
    app = Host([])
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.press("j", "G", "g", "enter", "y", "pagedown", "n", "N")
        assert shown(app.rows) == ["Nothing here yet."]
        assert app.opened == []
        app.texts.append("first")
        app.rows.add_rows()
        await pilot.pause(0.05)
        assert shown(app.rows) == ["first"]


async def test_following_shows_the_newest_until_one_looks_back() -> None:
    app = Host([f"row {index}" for index in range(20)], follow=True)
    async with app.run_test(size=(40, 5)) as pilot:
        assert shown(app.rows)[-1] == "row 19"
        await pilot.press("up")
        assert not app.rows.follows
        before = shown(app.rows)
        app.texts.append("new")
        app.rows.add_rows()
        await pilot.pause(0.05)
        assert shown(app.rows) == before
        await pilot.press("G")
        assert shown(app.rows)[-1] == "new"
        assert app.rows.follows


async def test_a_changed_row_is_the_only_one_drawn_again() -> None:
    app = Host([f"row {index}" for index in range(20)])
    async with app.run_test(size=(40, 5)) as pilot:
        await pilot.pause(0.1)
        app.drawn.clear()
        app.texts[2] = "changed"
        app.rows.update_row(2)
        await pilot.pause(0.1)
        assert set(app.drawn) == {2}
        assert shown(app.rows)[2] == "changed"


async def test_a_row_that_changes_enters_and_leaves_a_filtered_list() -> None:
    app = Host(["running", "done", "running"])
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.press("slash", *"done", "enter")
        await settle(pilot)
        app.texts[2] = "done late"
        app.rows.update_row(2)
        app.texts[1] = "failed"
        app.rows.update_row(1)
        await pilot.pause(0.05)
        assert shown(app.rows) == ["done late", "/ done"]


async def test_y_copies_the_row_and_not_its_drawing() -> None:
    app = Host(["one", "two"])
    async with app.run_test(size=(3, 5)) as pilot:
        await pilot.press("j", "y")
        assert app.copied == "two"


async def test_the_wheel_scrolls_without_moving_the_cursor() -> None:
    app = Host(NUMBERS[:50])
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.hover(app.rows)
        app.rows.action_page(1)
        cursor = app.rows.cursor
        from textual.events import MouseScrollDown

        app.rows.post_message(MouseScrollDown(app.rows, 1, 1, 0, 1, 0, False, False, False))
        await pilot.pause(0.05)
        assert shown(app.rows)[0] == "row 3"
        assert app.rows.cursor == cursor


async def test_another_skin_changes_every_colour() -> None:
    app = Host(["one"])
    async with app.run_test(size=(10, 3)) as pilot:
        app.rows.use(Palette(Skin(colors={**NIGHT, "background": "#102030", "text": "#ffeedd"})))
        await pilot.pause(0.05)
        styles = [segment.style for segment in app.rows.render_line(2)]
        assert {style.bgcolor.name for style in styles if style and style.bgcolor} == {"#102030"}


async def test_the_cursor_is_a_glyph_and_a_colour() -> None:
    app = Host(["one", "two"])
    async with app.run_test(size=(10, 3)):
        strip = app.rows.render_line(0)
        assert strip.text.startswith("▌")
        assert not app.rows.render_line(1).text.startswith("▌")
        style = next(iter(strip)).style
        assert style is not None and style.bgcolor is not None
        assert style.bgcolor.name == NIGHT["selection"]


async def test_without_colours_the_row_under_the_cursor_is_reversed_and_not_dim() -> None:
    app = Host(["one", "two"])
    async with app.run_test(size=(40, 8)) as pilot:
        mono = Palette(load_skin("mono").skin)
        app.draw = lambda index, width: [Text(f" {app.texts[index]}", mono.style("dim"))]  # type: ignore[method-assign]
        app.rows.use(mono)
        app.rows.focus()
        await settle(pilot)
        (one, two) = [app.rows.render_line(y) for y in (0, 1)]
        styles = [segment.style for segment in one if segment.text.strip() and segment.style]
        assert styles and all(style.reverse and not style.dim for style in styles)
        assert not any(segment.style and segment.style.reverse for segment in two)


async def test_a_row_without_a_gutter_loses_no_letter_to_the_cursor() -> None:
    app = Host(["one"])
    app.rows._draw = lambda index, width: [Text("one")]
    async with app.run_test(size=(10, 3)):
        assert app.rows.render_line(0).text.startswith("one")


def test_a_line_is_drawn_below_words_and_not_below_the_blanks_around_them() -> None:
    line = Text.assemble(("  user   ", "underline"), ("now", "underline"), ("  ", "underline"))
    strip = to_strip(line, 20, Style(), Console())
    lined = "".join("_" if run.style and run.style.underline else " " for run in strip for _ in run.text)
    assert (strip.text, lined) == ("  user   now".ljust(20), "  ____   ___".ljust(20))
