"""Roles as styles, and a skin as a theme for style sheets."""

from __future__ import annotations

import pytest
from rich.color import ColorType
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.widgets import Button, Input, OptionList, Static

from themes.colors import adapt_skin
from themes.loader import builtin_names, load_skin
from themes.skin import ROLES, Skin
from widgets.palette import Palette, css_variables, textual_theme

NIGHT = Palette(Skin())
MONO = Palette(load_skin("mono").skin)


def marks(style: Style) -> set[str]:
    return {
        name for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)
    }


def test_a_role_is_drawn_in_its_colour_on_the_background_of_another() -> None:
    style = NIGHT.style("error", "surface", bold=True)
    assert style.color is not None and style.color.triplet is not None and style.bgcolor is not None
    assert style.color.triplet.hex == Skin().colors["error"]
    assert style.bgcolor.triplet is not None and style.bgcolor.triplet.hex == Skin().colors["surface"]
    assert marks(style) == {"bold"}
    assert marks(NIGHT.style("text", italic=True, underline=True, strike=True)) == {
        "italic",
        "underline",
        "strike",
    }


def test_a_skin_with_colours_needs_no_marks() -> None:
    assert all(
        marks(NIGHT.style(role, ground)) == set() for role in ROLES for ground in ("background", "match")
    )


def test_terminal_colours_stay_the_terminals() -> None:
    style = Palette(load_skin("ansi").skin).style("error")
    assert style.color is not None and style.color.type is ColorType.STANDARD
    assert style.bgcolor is not None and style.bgcolor.type is ColorType.DEFAULT


def test_without_colours_states_differ_in_how_they_are_drawn() -> None:
    states = {frozenset(marks(MONO.style(role))) for role in ("success", "warning", "error", "accent", "dim")}
    assert len(states) == 5
    assert marks(MONO.style("added")) != marks(MONO.style("removed"))
    assert marks(MONO.style("text")) == set()


def test_without_colours_what_is_selected_found_or_under_the_cursor_is_marked() -> None:
    plain, selected, found = (MONO.style("text", ground) for ground in ("surface", "selection", "match"))
    assert (marks(plain), marks(selected), marks(found)) == (set(), {"reverse"}, {"bold", "underline"})
    assert marks(MONO.style("background", "cursor")) == {"reverse"}
    assert marks(MONO.style("background", "accent")) == {"reverse"}, "a key of jump mode"
    assert marks(MONO.style("dim", "selection")) == {"reverse"}, "dim and reverse together cannot be read"


def test_bold_is_never_dimmed() -> None:
    assert marks(MONO.style("dim", bold=True)) == {"bold"}


def test_a_style_is_made_once() -> None:
    assert NIGHT.style("dim", "surface") is Palette(Skin()).style("dim", "surface")


def test_a_role_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        NIGHT.style("colour")


class Sheet(App[None]):
    """Uses roles in a style sheet, beside widgets with style sheets of their own."""

    CSS = "\n".join(f"#{role} {{ color: ${role.replace('_', '-')}; }}" for role in ROLES if role != "text")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(Skin())

    def compose(self) -> ComposeResult:
        yield from (Static(role, id=role) for role in ROLES)
        yield Input("x")
        yield Button("go", variant="primary")
        yield OptionList("a", "b")


@pytest.mark.thorough
async def test_every_skin_is_a_theme_whose_roles_style_sheets_can_name() -> None:
    app = Sheet()
    async with app.run_test() as pilot:
        for name in builtin_names():
            skin = load_skin(name).skin
            app.register_theme(textual_theme(skin))
            app.theme = f"hermes-{name}"
            await pilot.pause()
            for role in ROLES:
                if role != "text":
                    assert app.query_one(f"#{role}").styles.color == Color.parse(skin.colors[role]), (
                        name,
                        role,
                    )
            assert app.native_ansi_color == (name in ("ansi", "mono"))
            assert app.current_theme.dark == skin.dark


@pytest.mark.thorough
@pytest.mark.parametrize("depth", ["sixteen", "none"])
async def test_a_skin_brought_down_is_a_theme_of_terminal_colours(depth: str) -> None:
    skin = adapt_skin(load_skin("ember").skin, "sixteen" if depth == "sixteen" else "none")
    app = Sheet()
    async with app.run_test() as pilot:
        app.register_theme(textual_theme(skin))
        app.theme = "hermes-ember"
        await pilot.pause()
        assert app.native_ansi_color
        assert app.query_one("#error").styles.color.ansi == (9 if depth == "sixteen" else -1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["night", "paper", "ansi", "mono"])
async def test_the_chosen_line_of_a_list_stands_out_in_every_skin(name: str) -> None:
    app = Sheet()
    async with app.run_test(size=(80, 60)) as pilot:
        app.register_theme(textual_theme(load_skin(name).skin))
        app.theme = f"hermes-{name}"
        choices = app.query_one(OptionList)
        choices.focus()
        choices.highlighted = 0
        await pilot.pause()
        chosen = choices.get_component_styles("option-list--option-highlighted")
        assert chosen.background != chosen.color
        assert chosen.background != choices.styles.background
