"""Choosing a skin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from app.tui.screens.skins.skins import SkinList, SkinsScreen, about
from tests.app.tui.skin_stage import Dressed, dressed, running, words
from tests.support.waiting import until
from themes.contrast import check
from themes.loader import LoadedSkin, load_skin

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "skins").mkdir()
    (tmp_path / "skins" / "rain.yaml").write_text(
        'description: Rain\nbase: tide\ncolors:\n  dim: "#445566"\n  acent: "#fff"\n'
    )
    return tmp_path


async def opened(app: Dressed, pilot: Pilot[Any]) -> SkinsScreen:
    await pilot.press("ctrl+t")
    await until(pilot, lambda: isinstance(app.screen, SkinsScreen), "the list")
    screen = app.screen
    assert isinstance(screen, SkinsScreen)
    await until(pilot, lambda: screen.query_one(SkinList).count, "its rows")
    return screen


@pytest.mark.thorough
async def test_moving_shows_a_skin_and_escape_restores(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        assert "question_mark" in screen.active_bindings
        await pilot.press("j")
        await until(pilot, lambda: app.appearance.skin.name == "amber", "the preview")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.session, "leaving")
        assert app.appearance.skin.name == "night"
        assert not (home / "config.yaml").exists()


@pytest.mark.thorough
async def test_a_chosen_skin_is_kept_and_comments_stay(home: Path) -> None:
    (home / "config.yaml").write_text("# mine\ndisplay:\n  skin: night  # for now\n  vi: true\n")
    app = dressed(home)
    async with running(app) as pilot:
        await opened(app, pilot)
        await pilot.press("j", "enter")
        await until(pilot, lambda: app.said, "a remark")
        assert app.appearance.skin.name == "amber"
        kept = (home / "config.yaml").read_text()
        assert kept == "# mine\ndisplay:\n  skin: amber  # for now\n  vi: true\n"
        assert app.said[0].startswith("Kept: display.skin is amber in ")


async def test_settings_that_cannot_be_written_are_told_and_the_skin_is_worn(home: Path) -> None:
    (home / "config.yaml").write_text("display: [\n")
    app = dressed(home)
    async with running(app) as pilot:
        app.run_worker(app.actions.run_slash("skin paper"))
        await until(pilot, lambda: app.said, "a complaint")
        assert app.appearance.skin.name == "paper"
        assert "config.yaml" in app.said[0]
        assert (home / "config.yaml").read_text() == "display: [\n"


@pytest.mark.thorough
async def test_typing_filters_and_shows_what_is_left(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await pilot.press("slash", *"mber")
        await until(pilot, lambda: screen.query_one(SkinList).shown_count == 2, "the filter")
        await until(pilot, lambda: app.appearance.skin.name == "amber", "the preview")
        await pilot.press("enter", "j")
        await until(pilot, lambda: app.appearance.skin.name == "ember", "the next one")
        await pilot.press("escape")
        assert app.screen is screen
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.session, "leaving")


@pytest.mark.thorough
async def test_own_skins_tell_their_mistakes_and_what_is_hard_to_read(home: Path) -> None:
    app = dressed(home)
    async with running(app, (120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("G")
        await until(pilot, lambda: "Rain" in words(app, "#skins-about"), "the words")
        text = words(app, "#skins-about")
        assert "✗ rain.yaml:5: `acent` is not a role of a skin; did you mean `accent`?" in text
        assert "▲ `dim` on `background` has a contrast of 2.3:1" in text


@pytest.mark.thorough
async def test_a_skin_that_went_away_meanwhile_is_told(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        await opened(app, pilot)
        (home / "skins" / "rain.yaml").unlink()
        await pilot.press("G")
        await until(pilot, lambda: "✗ There is no skin" in words(app, "#skins-about"), "the sentence")


def test_a_good_skin_has_only_its_own_words() -> None:
    skin = load_skin("night").skin
    assert about(LoadedSkin(skin), check(skin)).plain == "Neutral dark; the default."


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["night", "paper", "ansi", "rain"])
def test_the_list_looks(snap_compare: Any, home: Path, name: str, size: tuple[int, int]) -> None:
    app = dressed(home)

    async def show(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.session.panes_mounted and app.beginning.is_over, "furnishing")
        app.session.transcript.add_user("The totals are off by a cent. Find out why.")
        await app.appearance.apply(name)
        screen = await opened(app, pilot)
        await until(pilot, lambda: screen.query_one(SkinList).highlighted_name == name)
        await until(pilot, lambda: words(app, "#skins-about"), "the words")

    assert snap_compare(app, terminal_size=size, run_before=show)
