"""How the running application looks: what the terminal can show, motion, skins edited meanwhile."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.color import Color

from agent.core.config.schema import DisplaySettings
from agent.errors import ConfigError
from app.tui.screens.palette import PaletteScreen
from app.tui.screens.skins import appearance
from tests.app.tui.skin_stage import dressed, running
from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal
from tests.support.waiting import until
from themes import loader
from themes.loader import load_file, load_skin
from themes.skin import ROLES
from widgets.palette import Palette
from widgets.panes.status import StatusBar, StatusFigures

EDITED = 'base: tide\ncolors:\n  accent: "#abcdef"\n'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr(appearance, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(appearance, "RARE_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(appearance, "SETTLING_SECONDS", 0.02)
    (tmp_path / "skins").mkdir()
    return tmp_path


def own(home: Path, text: str, name: str = "mine") -> Path:
    path = home / "skins" / f"{name}.yaml"
    path.write_text(text)
    return path


def display(**values: Any) -> DisplaySettings:
    return DisplaySettings.model_validate(values)


async def test_a_skin_on_the_terminals_own_page_follows_its_light(home: Path) -> None:
    app = dressed(home, "ansi")
    async with running(app):
        assert app.session.status.palette.skin.colors["warning"] == "ansi_yellow"
        await app.appearance.set_light(True)
        assert app.session.status.palette.skin.colors["warning"] == "ansi_magenta"


async def test_a_dialog_leaves_what_is_below_it_readable_in_the_terminals_own_colours(home: Path) -> None:
    app = dressed(home, "ansi")
    async with running(app) as pilot:
        await until(pilot, lambda: app.native_ansi_color)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen))
        await pilot.pause()
        rows = app.screen._compositor.render_strips()
        below = [segment for strip in rows for segment in strip if "hermes" in segment.text]
        assert below and all(segment.style and segment.style.dim for segment in below)


async def test_a_skin_reaches_style_sheets_and_drawn_widgets(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        await app.appearance.apply("paper")
        await pilot.pause()
        paper = load_skin("paper").skin
        assert app.session.transcript.palette.skin == paper
        assert app.session.status.palette.skin == paper
        await until(pilot, lambda: app.screen.background_colors[1] == Color.parse(paper.colors["background"]))


async def test_a_skin_that_is_not_there_changes_nothing(home: Path) -> None:
    app = dressed(home)
    async with running(app):
        with pytest.raises(ConfigError, match="There is no skin `papre`; did you mean `paper`"):
            await app.appearance.apply("papre")
        assert app.appearance.skin.name == "night"


async def test_a_skin_shown_while_another_is_read_stays(home: Path) -> None:
    app = dressed(home)
    async with running(app):
        reading = asyncio.create_task(app.appearance.apply_silently("paper"))
        await asyncio.sleep(0)
        app.appearance.show(load_skin("moss").skin)
        assert await reading is None
        assert app.appearance.skin.name == "moss"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"COLORTERM": "truecolor"}, {"#7aa2f7"}),
        ({"COLORTERM": "", "TERM": "linux"}, {"ansi_bright_blue"}),
        ({"COLORTERM": "", "TERM": "dumb"}, {"ansi_default"}),
        ({"NO_COLOR": "1"}, {"ansi_default"}),
    ],
)
async def test_a_skin_is_brought_down_to_what_the_terminal_shows(
    home: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], colours: set[str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    app = dressed(home)
    async with running(app):
        assert {app.session.transcript.palette.skin.colors["accent"]} == colours
        assert app.appearance.skin.colors["accent"] == "#7aa2f7"


@pytest.mark.thorough
@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"COLORTERM": "", "TERM": "dumb"}])
async def test_no_colour_is_drawn_on_a_terminal_without_colours(
    home: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    app = dressed(home)
    async with running(app) as pilot:
        await pilot.press("ctrl+t")
        await pilot.pause(0.3)
        filters = app.get_line_filters()
        for y in range(app.size.height):
            strip = app.session.status.render_line(y)
            for each in filters:
                strip = strip.apply_filter(each, Color.parse("black"))
            for segment in strip:
                style = segment.style
                assert style is not None
                assert style.color is None or style.color.is_default
                assert style.bgcolor is None or style.bgcolor.is_default


async def test_settings_choose_skin_and_motion(home: Path) -> None:
    app = dressed(home)
    async with running(app):
        await app.appearance.apply_settings(display(skin="ink", motion=False))
        assert app.appearance.skin.name == "ink"
        assert not app.session.transcript.motion
        assert not app.session.status.motion
        assert app.animation_level == "none"
        app.appearance.set_motion(True)
        assert app.session.transcript.motion
        assert app.session.status.motion


async def test_a_skin_of_the_settings_that_is_not_there_is_told(home: Path) -> None:
    app = dressed(home)
    async with running(app):
        await app.appearance.apply_settings(display(skin="nowhere"))
        assert app.appearance.skin.name == "night"
        assert app.said == ["display.skin: There is no skin `nowhere`."]


async def test_an_own_skin_with_the_name_of_the_default_is_worn(home: Path) -> None:
    own(home, 'colors:\n  accent: "#ffffff"\n', "night")
    app = dressed(home)
    async with running(app):
        await app.appearance.apply_settings(display())
        assert app.appearance.skin.colors["accent"] == "#ffffff"


async def test_reduced_motion_of_the_environment_outranks_the_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_REDUCED_MOTION", "1")
    app = dressed(home)
    async with running(app):
        app.appearance.set_motion(True)
        assert not app.session.transcript.motion
        assert not app.session.status.motion


class StatusHost(App[None]):
    """A status bar whose clock the test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.bar = StatusBar(clock=lambda: self.now)

    def compose(self) -> ComposeResult:
        yield self.bar


async def test_faces_of_the_skin_stand_beside_the_verb_and_do_not_shift_it(home: Path) -> None:
    path = own(home, 'faces: ["(o_o)", "(-_-) zz"]\nverbs: [Dripping]\nspinner: "ab"\n')
    host = StatusHost()
    async with host.run_test(size=(120, 40)):
        host.bar.use(Palette(load_file(path).skin))
        host.bar.show(StatusFigures(model="m", busy_since=100.0))
        first = host.bar.render_line(0).text
        host.now = 104.0
        second = host.bar.render_line(0).text
        host.bar.set_motion(False)
        still = host.bar.render_line(0).text
    assert "a (o_o)" in first
    assert "(-_-) zz Dripping" in second
    assert first.index("Dripping") == second.index("Dripping")
    assert "▶ (o_o)" in still


async def test_an_edit_of_the_worn_skin_is_seen(home: Path) -> None:
    path = own(home, "base: tide\n")
    app = dressed(home)
    async with running(app) as pilot:
        await app.appearance.apply("mine")
        theme = app.theme
        path.write_text(EDITED)
        await until(pilot, lambda: app.appearance.skin.colors["accent"] == "#abcdef", "reading it again")
        assert app.theme != theme
        assert app.said == ["mine was read again."]
        assert [name for name in app.available_themes if name.startswith("hermes-")] == [app.theme]


async def test_an_edit_before_the_first_look_is_seen(home: Path) -> None:
    path = own(home, "base: tide\n")
    app = dressed(home, "mine")
    path.write_text(EDITED)
    async with running(app) as pilot:
        await until(pilot, lambda: app.said, "reading it again")
        assert app.appearance.skin.colors["accent"] == "#abcdef"
        assert app.said == ["mine was read again."]


async def test_a_skin_that_goes_away_before_the_first_look_is_told(home: Path) -> None:
    path = own(home, "base: tide\n")
    app = dressed(home, "mine")
    path.unlink()
    async with running(app) as pilot:
        await until(pilot, lambda: app.said, "a complaint")
        assert app.said == ["There is no skin `mine`. The look stays as it was."]


@pytest.mark.sample(1)
@pytest.mark.parametrize("looks", ["no look in between", "looks in between"])
async def test_an_edit_between_reading_a_skin_and_wearing_it_is_seen(
    home: Path, monkeypatch: pytest.MonkeyPatch, looks: str
) -> None:
    path = own(home, "base: tide\n")
    first = loader.load_skin

    def late(name: str, folder: Path | None = None) -> loader.LoadedSkin:
        found = first(name, folder)
        if name == "mine" and path.read_text() != EDITED:
            path.write_text(EDITED)
            time.sleep(0.2 if looks == "looks in between" else 0)
        return found

    app = dressed(home)
    async with running(app) as pilot:
        monkeypatch.setattr(loader, "load_skin", late)
        await app.appearance.apply("mine")
        assert app.appearance.skin.colors["accent"] != "#abcdef"
        await until(pilot, lambda: app.said, "reading it again")
        assert app.appearance.skin.colors["accent"] == "#abcdef"


@pytest.mark.thorough
async def test_an_edit_while_another_skin_is_tried_on_is_seen_when_it_is_worn_again(home: Path) -> None:
    path = own(home, "base: tide\n")
    app = dressed(home)
    async with running(app) as pilot:
        await app.appearance.apply("mine")
        before = app.appearance.skin
        await app.appearance.apply_silently("paper")
        path.write_text(EDITED)
        await pilot.pause(0.2)
        app.appearance.show(before)
        await until(pilot, lambda: app.said, "reading it again")
        assert app.appearance.skin.colors["accent"] == "#abcdef"


async def test_a_mistake_in_an_edit_is_one_sentence_and_the_look_stays(home: Path) -> None:
    path = own(home, 'colors:\n  accent: "#111111"\n')
    app = dressed(home)
    async with running(app) as pilot:
        await app.appearance.apply("mine")
        path.write_text('colors:\n  accent: "#222222"\n  acent: "#333333"\n  blue: "#333333"\n')
        await until(pilot, lambda: app.said, "a complaint")
        assert app.said == [
            "mine.yaml:3: `acent` is not a role of a skin; did you mean `accent`? (1 more in this file.) "
            "The look stays as it was."
        ]
        assert app.appearance.skin.colors["accent"] == "#111111"
        path.write_text('colors:\n  accent: "#222222"\n')
        await until(pilot, lambda: app.appearance.skin.colors["accent"] == "#222222", "mending it")


async def test_a_skin_that_goes_away_leaves_its_look(home: Path) -> None:
    path = own(home, 'colors:\n  accent: "#111111"\n')
    app = dressed(home)
    async with running(app) as pilot:
        await app.appearance.apply("mine")
        path.unlink()
        await until(pilot, lambda: app.said, "a complaint")
        assert app.said == ["There is no skin `mine`. The look stays as it was."]
        assert app.appearance.skin.colors["accent"] == "#111111"


async def test_edits_of_other_skins_change_nothing(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        own(home, 'colors:\n  acent: "#111111"\n', "other")
        await pilot.pause(0.3)
        assert app.said == []
        assert set(app.appearance.skin.colors) == set(ROLES)


@pytest.mark.thorough
def test_a_dumb_terminal_gets_lines_without_colours_or_a_screen_of_their_own(home: Path) -> None:
    run = ["env", "TERM=dumb", "COLORTERM=", *HERMES]
    with Terminal(run, environment(home), home, (80, 24)) as terminal:
        terminal.until(lambda: b"hermes" in terminal.painted.lower())
        assert b"\x1b[" not in bytes(terminal.painted)


@pytest.mark.thorough
def test_no_colour_reaches_a_real_terminal_without_colours(home: Path) -> None:
    with Terminal(["env", "NO_COLOR=1", *HERMES], environment(home), home, (80, 24)) as terminal:
        terminal.until(lambda: len(terminal.painted) > 4_000)
        codes = re.findall(rb"\x1b\[([0-9;:]*)m", bytes(terminal.painted))
    assert codes
    coloured = [code for code in codes if re.search(rb"(?:^|;)(?:[34][0-8]|9[0-7]|10[0-7])(?:;|$)", code)]
    assert coloured == []
