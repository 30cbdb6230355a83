"""The place of the workbench before there is one."""

from __future__ import annotations

import re
from html import unescape

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Static

from themes.skin import Skin
from widgets.palette import Palette
from widgets.panes.arrangement import EmptyBench
from widgets.panes.files import FilesPane
from widgets.panes.pane import PaneBar
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import Workbench


class Stage(App[None]):
    def __init__(self, bench: EmptyBench | Workbench) -> None:
        super().__init__()
        self.bench = bench

    def compose(self) -> ComposeResult:
        yield self.bench

    def on_mount(self) -> None:
        colors = Skin().colors
        self.screen.styles.background, self.screen.styles.color = colors["background"], colors["text"]
        self.bench.use(Palette(Skin()))


async def painted(bench: EmptyBench | Workbench, size: tuple[int, int]) -> list[object]:
    """Cell by cell what is on the screen: the ground, and what is written on it."""
    app = Stage(bench)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.05)
        styles = [app.screen.get_style_at(x, y) for y in range(size[1]) for x in range(size[0])]
        picture = app.export_screenshot()
    pieces = re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', picture)
    written = {
        (round(float(x) / 12.2) + at, y): character
        for x, y, words in pieces
        for at, character in enumerate(unescape(words))
        if not character.isspace()
    }
    assert written
    return [[style.bgcolor for style in styles], written]


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(120, 40), (99, 24), (80, 24), (50, 12), (100, 3), (30, 1)])
async def test_it_looks_like_a_workbench_whose_panes_have_nothing_to_show(size: tuple[int, int]) -> None:
    nothing = Static("")
    nothing.styles.height = "1fr"
    full = Workbench(nothing, (TodoPane(), FilesPane()), PaneBar())
    assert await painted(EmptyBench(), size) == await painted(full, size)


async def test_a_part_of_it_is_the_same_as_that_part_of_the_whole() -> None:
    bench = EmptyBench()
    async with Stage(bench).run_test(size=(120, 40)):
        whole = bench.render_lines(Region(0, 0, 120, 40))
        part = bench.render_lines(Region(70, 0, 30, 40))
        assert [row.text[70:100] for row in whole] == [row.text for row in part]


def test_it_takes_no_keys() -> None:
    widget: Widget = EmptyBench()
    assert not widget.can_focus
