"""What lies below other widgets: seen where nothing covers it, and nowhere else."""

from __future__ import annotations

from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.filter import LineFilter, Monochrome
from textual.geometry import Region
from textual.widgets import Static

from widgets.background import Backdrop, BlankContainer


class Stage(App[None]):
    """A container over a screen of another colour, with a child that fills its upper half."""

    CSS = """
    Screen { background: #101010; }
    #below { background: #203040; }
    #child { height: 50%; background: #405060; }
    """

    def __init__(self, kind: type[Backdrop | BlankContainer]) -> None:
        super().__init__()
        self.below = kind(Static("words", id="child"), id="below")
        self.extra: list[LineFilter] = []

    def compose(self) -> ComposeResult:
        yield self.below

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *self.extra]


def ground(style: Style) -> str:
    assert style.bgcolor is not None and style.bgcolor.triplet is not None
    return style.bgcolor.triplet.hex


async def test_a_backdrop_shows_its_colour_where_no_child_is() -> None:
    app = Stage(Backdrop)
    async with app.run_test(size=(30, 10)):
        assert ground(app.screen.get_style_at(3, 2)) == "#405060"
        assert ground(app.screen.get_style_at(3, 8)) == "#203040"


async def test_a_backdrop_takes_on_another_colour_and_another_size() -> None:
    app = Stage(Backdrop)
    async with app.run_test(size=(30, 10)) as pilot:
        assert ground(app.screen.get_style_at(29, 9)) == "#203040"
        app.below.styles.background = Color(1, 2, 3)
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert ground(app.screen.get_style_at(49, 19)) == "#010203"
        assert {row.cell_length for row in app.below.render_lines(Region(0, 0, 50, 20))} == {50}


async def test_a_backdrop_goes_through_the_filters_of_the_application() -> None:
    app = Stage(Backdrop)
    async with app.run_test(size=(30, 10)):
        app.extra.append(Monochrome())
        color = app.screen.get_style_at(3, 8).bgcolor
        assert color is not None and color.triplet is not None
        assert len(set(color.triplet)) == 1, "no grey"


async def test_a_part_of_a_backdrop_is_as_large_as_was_asked_for() -> None:
    app = Stage(Backdrop)
    async with app.run_test(size=(30, 10)):
        rows = app.below.render_lines(Region(5, 2, 11, 4))
        assert [row.cell_length for row in rows] == [11] * 4


async def test_what_is_covered_draws_nothing_and_leaves_the_screen_to_what_lies_below() -> None:
    app = Stage(BlankContainer)
    async with app.run_test(size=(30, 10)) as pilot:
        assert app.below.render_lines(Region(0, 0, 30, 10)) == []
        assert "words" in app.export_screenshot()
        app.screen.refresh()
        await pilot.pause()
        assert "words" in app.export_screenshot()
