"""Colours in numbers, contrast, and skins brought down to what a terminal can show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themes.colors import (
    DEFAULT,
    RGB,
    TERMINAL_COLORS,
    adapt_skin,
    blend,
    contrast,
    detect,
    is_terminal,
    luminance,
    normalize_color,
    rgb,
)
from themes.contrast import ContrastFinding, check, fix_contrast, is_dark, pairs
from themes.loader import builtin_names, load_skin
from themes.skin import ROLES, Skin

BLACK, WHITE = RGB(0, 0, 0), RGB(255, 255, 255)
COLORS = st.builds(RGB, *[st.integers(0, 255)] * 3)


def test_colours_are_written_in_six_digits_or_as_the_terminals() -> None:
    assert normalize_color(" #AbC ") == "#aabbcc"
    assert normalize_color("ANSI_Bright_Red") == "ansi_bright_red"
    assert normalize_color(DEFAULT) == DEFAULT
    for wrong in ("", "#", "#12", "#12345", "#1234567", "#ggg", "red", "ansi_", "ansi_orange", "#１２３"):
        assert normalize_color(wrong) is None, wrong


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(RGB(119, 119, 119), WHITE) == pytest.approx(4.478, abs=0.001)
    assert contrast(RGB(255, 0, 0), WHITE) == pytest.approx(3.998, abs=0.001)


@given(one=COLORS, other=COLORS)
def test_contrast_is_symmetric_and_between_1_and_21(one: RGB, other: RGB) -> None:
    assert contrast(one, other) == contrast(other, one)
    assert 1 <= contrast(one, other) <= 21.0001
    assert rgb(one.hex, default=other) == one
    assert blend(one, other, 0) == one and blend(one, other, 1) == other


@given(ink=COLORS, paper=COLORS)
def test_a_suggested_colour_is_enough(ink: RGB, paper: RGB) -> None:
    color = fix_contrast(ink, paper, 4.5)
    assert contrast(rgb(color, default=ink), paper) >= 4.5


def test_a_contrast_nothing_can_reach_has_no_suggestion() -> None:
    assert fix_contrast(BLACK, RGB(119, 119, 119), 7) == ""


def test_every_role_is_measured_as_ink_or_as_paper() -> None:
    measured = {role for role, _, _ in pairs()} | {background for _, background, _ in pairs()}
    assert measured == set(ROLES)


def test_a_faint_colour_is_found_on_each_of_its_backgrounds() -> None:
    skin = Skin(colors={**Skin().colors, "dim": "#333333"})
    findings = check(skin)
    assert {finding.role for finding in findings} == {"dim"}
    assert {"background", "surface", "code_background", "selection"} <= {each.background for each in findings}


def test_a_finding_is_a_sentence_that_never_rounds_up() -> None:
    assert str(ContrastFinding("dim", "surface", 4.4999, 4.5, "#aaaaaa")) == (
        "`dim` on `surface` has a contrast of 4.4:1, at least 4.5:1 is needed; #aaaaaa would do."
    )


def test_terminal_colours_are_measured_as_xterm_shows_them() -> None:
    dark = Skin(colors={**dict.fromkeys(ROLES, DEFAULT), "accent": "ansi_blue"})
    assert {finding.role for finding in check(dark)} == {"accent"}
    light = Skin(dark=False, colors={**dict.fromkeys(ROLES, DEFAULT), "accent": "ansi_blue"})
    assert check(light) == []
    hidden = Skin(colors={**dict.fromkeys(ROLES, DEFAULT), "text": "ansi_red", "background": "ansi_red"})
    assert ("text", "background") in {(each.role, each.background) for each in check(hidden)}


def test_a_page_is_dark_or_light_by_its_luminance() -> None:
    assert is_dark({"background": "#2b3340"}) and is_dark({"background": DEFAULT})
    assert not is_dark({"background": "#cccccc"})


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm-256color"}, "many"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "full"),
        ({"TERM": "xterm-kitty"}, "full"),
        ({"TERM": "tmux-256color"}, "many"),
        ({"TERM": "linux"}, "sixteen"),
        ({"TERM": "xterm"}, "sixteen"),
        ({"TERM": "dumb"}, "none"),
        ({}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "24bit", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "many"),
    ],
)
def test_what_a_terminal_can_show_is_read_from_its_environment(environ: dict[str, str], depth: str) -> None:
    assert detect(environ) == depth


@pytest.mark.parametrize("name", builtin_names())
def test_sixteen_colours_keep_the_states_apart_and_the_page_the_terminals(name: str) -> None:
    skin = load_skin(name).skin
    colors = adapt_skin(skin, "sixteen").colors
    assert set(colors) == set(ROLES)
    assert set(colors.values()) <= {DEFAULT, *TERMINAL_COLORS}
    assert colors["background"] == colors["surface"] == DEFAULT
    if name != "mono":
        assert len({colors["success"], colors["warning"], colors["error"]}) == 3
    assert not {"ansi_black", "ansi_blue"} & set(colors.values())


@pytest.mark.parametrize("name", builtin_names())
def test_yellow_is_not_written_on_a_light_page_of_the_terminal(name: str) -> None:
    assert "ansi_yellow" not in adapt_skin(load_skin(name).skin, "sixteen", light=True).colors.values()


@pytest.mark.parametrize("name", builtin_names())
def test_256_colours_keep_the_order_of_pages_and_the_colours_of_xterm(name: str) -> None:
    full = load_skin(name).skin
    shown = adapt_skin(full, "many")
    pages = ("background", "surface", "selection")
    light = [
        [luminance(rgb(skin.colors[page], default=RGB(0, 0, 0))) for page in pages] for skin in (full, shown)
    ]
    for one, other in ((0, 1), (1, 2)):
        assert (light[0][one] - light[0][other]) * (light[1][one] - light[1][other]) >= 0
    assert adapt_skin(shown, "many") is shown


def test_hues_keep_their_names() -> None:
    skin = Skin(
        colors={
            **Skin().colors,
            "accent": "#3388ff",
            "user": "#9ece6a",
            "keyword": "#bb44ff",
            "function": "#44dddd",
            "number": "#ff0033",
            "string": "#ffcc00",
            "text": "#cccccc",
        }
    )
    colors = adapt_skin(skin, "sixteen").colors
    assert [
        colors[role] for role in ("accent", "user", "keyword", "function", "number", "string", "text")
    ] == [
        *("ansi_bright_blue", "ansi_green", "ansi_magenta", "ansi_cyan", "ansi_bright_red", "ansi_yellow"),
        DEFAULT,
    ]


@given(color=COLORS)
def test_every_colour_has_a_name_among_sixteen(color: RGB) -> None:
    skin = Skin(colors={**Skin().colors, "accent": color.hex})
    assert is_terminal(adapt_skin(skin, "sixteen").colors["accent"])


def test_without_colours_only_the_words_of_a_skin_are_left() -> None:
    tide = load_skin("tide").skin
    bare = adapt_skin(tide, "none")
    assert set(bare.colors.values()) == {DEFAULT}
    assert (bare.name, bare.verbs, bare.prompt_symbol) == (tide.name, tide.verbs, tide.prompt_symbol)
    assert adapt_skin(tide, "full") is tide
    mono = load_skin("mono").skin
    assert adapt_skin(mono, "none") is mono
