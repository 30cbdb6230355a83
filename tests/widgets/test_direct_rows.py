"""Rows that reach the terminal past Textual's frames: in their place, and never over anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyte
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.geometry import Offset, Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Label, Static

from tests.support.painted import PaintedScreen
from tests.support.waiting import until
from widgets.painting.direct_rows import RowEncoder, changed_cells, uncovered_region
from widgets.transcript.view import Transcript

SIZE = (60, 12)
MOVED = re.compile(r"\x1b\[\d+;\d+r\x1b\[\d+;1H\n+\x1b\[r")


class Stage(App[None]):
    """A transcript between a line above, a pane beside it, and a menu that may lie over it."""

    CSS = """
    #above { height: 1; }
    #beside { width: 12; }
    #menu { overlay: screen; display: none; width: 20; height: 3; offset: 2 -7; background: red; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.transcript.motion = False
        self.written: list[str] = []
        self.transcript.direct.write = self.written.append

    def compose(self) -> ComposeResult:
        yield Label("above", id="above")
        with Horizontal():
            yield self.transcript
            yield Static("beside", id="beside")
        yield Static("menu", id="menu")

    def painted(self) -> PaintedScreen:
        """What a terminal shows that got nothing but the rows sent to it directly."""
        screen = PaintedScreen(*SIZE)
        screen.feed("".join(self.written))
        return screen


@contextmanager
def nothing_written(app: Stage) -> Iterator[None]:
    before = list(app.written)
    yield
    assert app.written == before


def shown(app: Stage) -> list[str]:
    transcript = app.transcript
    return [transcript.render_line(y).text for y in range(transcript.size.height)]


def say(app: Stage, text: str) -> None:
    app.transcript.add_text(text)
    app.transcript.flush()


async def test_rows_stand_in_the_place_of_their_widget() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        for number in range(30):
            say(app, f"**line** {number} of `many`\n\n")
        painted = app.painted()
        assert painted.faults == []
        assert painted.text(0, 1, 48, 11).split("\n") == shown(app)
        assert "line 29 of many" in painted.text(0, 1, 48, 11)
        assert painted.text(0, 0, 60, 1).strip() == "" == painted.text(48, 0, 12, 12).strip()


class Wide(Stage):
    """A transcript as wide as the terminal, between two lines."""

    def compose(self) -> ComposeResult:
        yield Label("above", id="above")
        yield self.transcript
        yield Label("below")


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12))
async def test_the_terminal_moves_rows_that_go_up_and_ends_as_if_all_had_been_written(
    sizes: list[int],
) -> None:
    app = Wide()
    async with app.run_test(size=SIZE):
        say(app, "".join(f"row {number}\n\n" for number in range(8)))
        for at, lines in enumerate(sizes):
            say(app, "".join(f"line {at} {number}\n\n" if number % 3 else "word " for number in range(lines)))
            painted = app.painted()
            assert painted.faults == []
            assert painted.text(0, 1, 60, 10).split("\n") == shown(app)
            assert painted.text(0, 0, 60, 1).strip() == "" == painted.text(0, 11, 60, 1).strip()


async def test_an_answer_that_goes_on_costs_its_new_rows_alone() -> None:
    app = Wide()
    async with app.run_test(size=(60, 30)):
        say(app, "".join(f"the row with the number {number}\n\n" for number in range(60)))
        app.written.clear()
        say(app, "the last row\n\n")
        assert MOVED.search(app.written[-1]) and "the last row" in app.written[-1]
        assert "the number" not in app.written[-1]


async def test_rows_below_pictures_are_not_moved_by_the_terminal() -> None:
    app = Wide()
    async with app.run_test(size=(60, 30)):
        say(app, "".join(f"the row with the number {number}\n\n" for number in range(60)))
        app.written.clear()
        app.transcript.pictures.used = True
        say(app, "the last row\n\n")
        assert MOVED.search("".join(app.written)) is None


async def test_rows_are_there_at_once_without_a_frame() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        say(app, "now")
        assert "now" in app.painted().text(0, 1, 48, 11)


async def test_only_cells_that_changed_are_sent() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        say(app, "first\n\nsecond")
        app.written.clear()
        say(app, " and third")
        assert " and third" in app.written[-1]
        assert "first" not in app.written[-1] and "second" not in app.written[-1]
        app.written.clear()
        say(app, "")
        assert app.written == []


CELLS = st.text("ab ", max_size=12)
STYLES = [Style(color="red"), Style(color="red", bold=True), Style(bgcolor="blue"), Style(underline=True)]
Parts = list[tuple[str, Style]]
PARTS = st.lists(st.tuples(CELLS | st.sampled_from(["龍", "é", "│"]), st.sampled_from(STYLES)), max_size=5)


@given(PARTS, PARTS)
def test_the_changed_cells_of_a_row_make_it_the_other_one(before: Parts, after: Parts) -> None:
    old, new = (
        Strip([Segment(text, style) for text, style in parts if text]).adjust_cell_length(24)
        for parts in (before, after)
    )
    start, changed = changed_cells(old, new)
    encoder = RowEncoder(Console(color_system="truecolor", force_terminal=True))
    pieces, whole = pyte.Screen(24, 1), pyte.Screen(24, 1)
    part = f"\x1b[1;{start + 1}H{encoder.encode(changed)}" if changed.cell_length else ""
    pyte.Stream(pieces).feed(f"\x1b[1;1H{encoder.encode(old)}{part}")
    pyte.Stream(whole).feed(new.render(Console(color_system="truecolor", force_terminal=True)))
    for x in range(24):
        seen, wanted = pieces.buffer[0][x], whole.buffer[0][x]
        if seen.data == " " == wanted.data and not wanted.underscore:
            assert (seen.bg, seen.underscore) == (wanted.bg, wanted.underscore)  # no more is seen of a blank
        else:
            assert seen == wanted
    assert changed_cells(new, new)[1].cell_length == 0


async def test_the_cursor_goes_back_to_where_the_program_left_it() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        app.cursor_position = Offset(7, 11)
        say(app, "words")
        assert app.written[-1].removesuffix("\x1b[?2026l").endswith("\x1b[12;8H")
        app.cursor_position = Offset(700, 11)
        say(app, " and more")
        assert app.written[-1].endswith("\x1b[12;60H")


async def test_a_frame_that_comes_later_paints_the_same_rows() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        say(app, "before")
        rows = app.transcript.render_lines(app.transcript.size.region)
        say(app, " and after")
        later = app.transcript.render_lines(app.transcript.size.region)
        assert [row.text for row in later] == shown(app) != [row.text for row in rows]


async def test_nothing_is_sent_while_a_menu_lies_over_the_rows() -> None:
    app = Stage()
    async with app.run_test(size=SIZE) as pilot:
        say(app, "before")
        menu = app.query_one("#menu")
        menu.display = True
        await until(pilot, lambda: menu.region, "the menu")
        with nothing_written(app):
            say(app, " beneath")
            await pilot.pause()
        assert "before beneath" in app.export_screenshot().replace("&#160;", " ")
        menu.display = False
        await until(pilot, lambda: uncovered_region(app.transcript), "the transcript alone")
        say(app, " again")
        assert " again" in app.written[-1]
        assert "before beneath again" in app.export_screenshot().replace("&#160;", " ")


async def test_nothing_is_sent_while_another_screen_is_in_front() -> None:
    app = Stage()
    async with app.run_test(size=SIZE) as pilot:
        say(app, "before")
        await app.push_screen(ModalScreen())
        with nothing_written(app):
            say(app, " beneath")
            await pilot.pause()
        await app.pop_screen()
        say(app, " again")
        assert " again" in app.written[-1]
        assert "before beneath again" in app.export_screenshot().replace("&#160;", " ")


async def test_nothing_is_sent_over_a_notification() -> None:
    app = Stage()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        say(app, "before")
        app.notify("something happened", timeout=1_000)
        await until(pilot, lambda: uncovered_region(app.transcript) is None, "the notification")
        with nothing_written(app):
            say(app, " beneath")
        app.clear_notifications()
        await until(pilot, lambda: uncovered_region(app.transcript), "its end")
        say(app, " again")
        assert " again" in app.written[-1]
        assert "before beneath again" in app.export_screenshot().replace("&#160;", " ")


async def test_rows_follow_a_widget_that_moved() -> None:
    app = Stage()
    async with app.run_test(size=SIZE) as pilot:
        say(app, "before")
        app.query_one("#above").styles.height = 3
        await until(pilot, lambda: app.transcript.region.y == 3, "the move")
        app.written.clear()
        say(app, " and after")
        rows = app.painted().rows()
        assert " and after" in rows[3 + shown(app).index(next(r for r in shown(app) if "after" in r))]


async def test_nothing_is_sent_for_a_widget_that_is_hidden() -> None:
    app = Stage()
    async with app.run_test(size=SIZE) as pilot:
        say(app, "before")
        app.transcript.display = False
        await until(pilot, lambda: not app.transcript.region, "the end of it")
        with nothing_written(app):
            say(app, " unseen")


class Scrolled(App[None]):
    """A transcript that is larger than what is seen of it."""

    CSS = "Transcript { height: 30; }"

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield self.transcript


async def test_a_widget_that_is_not_in_sight_in_full_has_no_direct_way() -> None:
    app = Scrolled()
    async with app.run_test(size=SIZE):
        assert app.transcript.region.height == 30
        assert uncovered_region(app.transcript) is None


async def test_what_is_uncovered_is_where_the_widget_is() -> None:
    app = Stage()
    async with app.run_test(size=SIZE, notifications=True, tooltips=True):
        assert uncovered_region(app.transcript) == app.transcript.region == Region(0, 1, 48, 11)
