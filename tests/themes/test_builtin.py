"""The skins and personalities that come with Hermes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from themes.colors import DEFAULT, RGB, contrast, is_terminal, rgb
from themes.contrast import check, pairs
from themes.loader import BUILTIN, LoadedSkin, builtin_names, load_file, load_skin
from themes.personalities import personalities, personality
from themes.skin import NIGHT, ROLES, Skin

ROOT = Path(__file__).parents[2]
NAMES = builtin_names()
BLACK = RGB(0, 0, 0)


def test_the_house_brings_fifteen_skins_light_and_dark() -> None:
    assert set(NAMES) == {
        *("night", "paper", "ink", "amber", "moss", "tide", "ember", "orchid", "fjord", "dawn", "dusk"),
        *("contrast-dark", "contrast-light", "ansi", "mono"),
    }
    assert NAMES[0] == "night"
    light = {name for name in NAMES if not load_skin(name).skin.dark}
    assert light == {"paper", "ink", "dawn", "contrast-light"}


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_skin_has_no_problems_and_says_everything_itself(name: str) -> None:
    loaded = load_file(BUILTIN / f"{name}.yaml")
    assert loaded.problems == ()
    assert loaded.skin.name == name
    assert loaded.skin.description
    text = (BUILTIN / f"{name}.yaml").read_text("utf-8")
    assert {role for role in ROLES if re.search(rf"^  {role}: ", text, re.M)} == set(ROLES)


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_of_a_built_in_skin_can_be_read(name: str) -> None:
    assert [str(finding) for finding in check(load_skin(name).skin)] == []


@pytest.mark.parametrize("name", ["contrast-dark", "contrast-light"])
def test_the_contrast_skins_keep_the_stricter_level(name: str) -> None:
    colors = load_skin(name).skin.colors
    for role, background, needed in pairs():
        ratio = contrast(rgb(colors[role], default=BLACK), rgb(colors[background], default=BLACK))
        assert ratio >= (7 if needed == 4.5 else 4.5), (role, background, ratio)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("ansi", "mono")])
def test_what_is_marked_stands_out_from_the_page(name: str) -> None:
    colors = load_skin(name).skin.colors
    for page in ("background", "surface"):
        for mark in ("selection", "match"):
            ratio = contrast(rgb(colors[mark], default=BLACK), rgb(colors[page], default=BLACK))
            # On light pages a find is told by its yellow more than by its lightness.
            assert ratio >= (1.15 if mark == "selection" else 1.1), (mark, page, ratio)
    assert colors["selection"] != colors["match"]


def test_the_default_skin_is_the_file_night() -> None:
    loaded = load_file(BUILTIN / "night.yaml")
    assert loaded == load_skin("night") == LoadedSkin(Skin())
    assert set(NIGHT) == set(ROLES)


def test_the_default_skin_needs_no_yaml() -> None:
    code = (
        "import sys, themes.loader as l, widgets.palette; l.load_skin('night'); print('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout == "False\n"


def test_the_terminal_skins_use_the_terminals_colours_only() -> None:
    assert all(is_terminal(color) for color in load_skin("ansi").skin.colors.values())
    assert set(load_skin("mono").skin.colors.values()) == {DEFAULT}
    mono = load_skin("mono").skin
    assert (mono.prompt_symbol + "".join(mono.spinner)).isascii()


def test_skins_differ_in_more_than_colour() -> None:
    voices = {
        (skin.prompt_symbol, skin.spinner, skin.verbs, skin.welcome)
        for name in NAMES
        if not (skin := load_skin(name).skin).name.startswith("contrast")
    }
    assert len(voices) == len(NAMES) - 2


def test_there_are_thirteen_personalities_each_with_a_paragraph() -> None:
    names = [each.name for each in personalities()]
    assert names == [
        *("helpful", "concise", "technical", "creative", "teacher", "kawaii", "catgirl"),
        *("pirate", "shakespeare", "surfer", "noir", "philosopher", "hype"),
    ]
    for each in personalities():
        assert 10 < len(each.description) < 60
        assert 100 < len(each.style) < 400
        assert "\n" not in each.style
    assert len({each.style for each in personalities()}) == 13


def test_a_personality_is_found_in_any_case_and_a_near_name_is_suggested() -> None:
    assert personality(" Noir ").name == "noir"
    with pytest.raises(KeyError, match="did you mean `pirate`"):
        personality("pirat")
