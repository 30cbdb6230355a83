"""Editing the colours of a skin and saving it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import Input

from agent.core.home import Home
from agent.errors import ConfigError
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog, TextDialog
from app.tui.screens.skins import skin_files
from app.tui.screens.skins.skins import RoleList, SkinDraft, SkinEditorScreen, color_of
from tests.app.tui.skin_stage import Dressed, dressed, running, words
from tests.support.waiting import until
from themes.colors import normalize_color
from themes.contrast import check, tightest
from themes.loader import list_skins, load_file, load_skin
from themes.skin import ROLES, Skin
from widgets.rows.reader import Reader

SIZES = [(80, 24), (120, 40)]
ACCENT = tuple(ROLES).index("accent")
BUILTIN = [listed.name for listed in list_skins()]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


def own(home: Path, text: str, name: str = "mine") -> Path:
    (home / "skins").mkdir(exist_ok=True)
    path = home / "skins" / f"{name}.yaml"
    path.write_text(text)
    return path


async def opened(app: Dressed, pilot: Pilot[Any], name: str = "") -> SkinEditorScreen:
    app.run_worker(app.actions.run_slash(f"skin-editor {name}".strip()))
    await until(pilot, lambda: isinstance(app.screen, SkinEditorScreen), "the editor")
    screen = app.screen
    assert isinstance(screen, SkinEditorScreen)
    await until(pilot, lambda: screen.query_one(RoleList).has_focus, "the focus")
    return screen


async def write(pilot: Pilot[Any], screen: SkinEditorScreen, role: int, value: str) -> None:
    """Type a value for a role, without taking it."""
    screen.query_one(RoleList).move_to(role)
    await pilot.press("enter")
    await until(pilot, lambda: screen.query_one(Input).has_focus, "the input")
    await pilot.press("ctrl+u", *value)
    await until(pilot, lambda: screen.query_one(Input).value == value, "the typing")


async def change(pilot: Pilot[Any], screen: SkinEditorScreen, role: int, value: str) -> None:
    await write(pilot, screen, role, value)
    await pilot.press("enter")
    await until(pilot, lambda: screen.query_one(RoleList).has_focus, "taking it")
    await pilot.pause()


async def dialog(app: Dressed, pilot: Pilot[Any], kind: type[dialogs.Dialog[Any]]) -> None:
    def armed() -> bool:
        screen = app.screen
        return isinstance(screen, kind) and screen.armed

    await until(pilot, armed, kind.__name__)


async def save_as(app: Dressed, pilot: Pilot[Any], name: str) -> None:
    await pilot.press("ctrl+s")
    await dialog(app, pilot, TextDialog)
    app.screen.query_one(Input).value = name
    await pilot.press("enter")


@pytest.mark.thorough
async def test_a_colour_is_changed_saved_worn_and_kept(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await change(pilot, screen, ACCENT, "steelblue")
        assert screen.draft.changes == {"accent": "#4682b4"}
        assert "1 change, not saved" in words(app, "#page-state")
        assert app.appearance.skin.name == "night"
        await save_as(app, pilot, "mine")
        await until(pilot, lambda: "Saved in" in words(app, "#editor-says"), "saving")
        path = home / "skins" / "mine.yaml"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load_file(path).problems == ()
        assert load_file(path).skin.colors == {**Skin().colors, "accent": "#4682b4"}
        await pilot.press("escape")
        await until(pilot, lambda: app.appearance.skin.name == "mine", "wearing it")
        await until(pilot, lambda: app.said, "keeping it")
        assert (home / "config.yaml").read_text() == "display:\n  skin: mine\n"


@pytest.mark.thorough
async def test_an_invalid_colour_is_one_sentence_and_changes_nothing(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await write(pilot, screen, ACCENT, "bleu")
        await pilot.press("enter")
        await until(pilot, lambda: "✗ `bleu` is not a colour; write #rrggbb" in words(app, "#editor-says"))
        assert screen.query_one(Input).has_focus
        await pilot.press("escape")
        await until(pilot, lambda: screen.query_one(RoleList).has_focus, "the list")
        await until(pilot, lambda: screen.query_one(Input).value == Skin().colors["accent"], "the old value")
        assert screen.draft.changes == {}


@pytest.mark.thorough
async def test_what_becomes_hard_to_read_is_told_while_typing(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await write(pilot, screen, ACCENT, "#223344")
        await until(
            pilot, lambda: "▲ `accent` on `background` has a contrast of" in words(app, "#editor-says")
        )
        assert screen.draft.changes == {}


@pytest.mark.thorough
async def test_a_role_is_reset(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await change(pilot, screen, ACCENT, "#ffffff")
        await pilot.press("d")
        assert screen.draft.changes == {}
        assert "nothing changed" in words(app, "#page-state")


@pytest.mark.thorough
async def test_leaving_with_changes_asks_and_the_safe_answer_stays(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await change(pilot, screen, ACCENT, "#ffffff")
        await pilot.press("escape")
        await dialog(app, pilot, ConfirmDialog)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen, "staying")
        await pilot.press("escape")
        await dialog(app, pilot, ConfirmDialog)
        await pilot.press("1")
        await until(pilot, lambda: app.screen is app.session, "leaving")
        assert app.appearance.skin == Skin()
        assert not (home / "skins").exists()


@pytest.mark.thorough
async def test_a_bad_name_is_told_and_asked_for_again(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await change(pilot, screen, ACCENT, "#ffffff")
        await save_as(app, pilot, "../etc")
        await until(pilot, lambda: "is not a name for a skin" in dialog_text(app), "the sentence")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen, "the editor")
        assert not (home / "skins").exists()


def dialog_text(app: Dressed) -> str:
    return " ".join(each.text for each in app.screen.query("#dialog Reader").results(Reader))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["night", "taken"])
async def test_a_name_that_is_taken_is_written_only_after_a_yes(home: Path, name: str) -> None:
    before = own(home, "description: old\n", "taken").read_text()
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot, "paper")
        await change(pilot, screen, ACCENT, "#123456")
        await save_as(app, pilot, name)
        await dialog(app, pilot, ConfirmDialog)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen, "staying")
        assert (home / "skins" / "taken.yaml").read_text() == before
        assert not (home / "skins" / "night.yaml").exists()
        await save_as(app, pilot, name)
        await dialog(app, pilot, ConfirmDialog)
        await pilot.press("1")
        await until(pilot, lambda: "Saved in" in words(app, "#editor-says"), "saving")
        assert load_file(home / "skins" / f"{name}.yaml").skin.colors["accent"] == "#123456"


@pytest.mark.thorough
async def test_saving_an_own_skin_changes_its_colours_and_keeps_its_comments(home: Path) -> None:
    path = own(home, '# dear\nbase: tide\ncolors:\n  accent: "#ffffff"  # bright\n')
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot, "mine")
        await change(pilot, screen, ACCENT, "#eeeeee")
        await save_as(app, pilot, "mine")
        await dialog(app, pilot, ConfirmDialog)
        await pilot.press("1")
        await until(pilot, lambda: "Saved in" in words(app, "#editor-says"), "saving")
        assert path.read_text() == "# dear\nbase: tide\ncolors:\n  accent: '#eeeeee'  # bright\n"
        assert screen.draft.changes == {}


@pytest.mark.thorough
async def test_the_list_of_skins_leads_to_the_editor(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        await pilot.press("ctrl+t")
        await until(
            pilot, lambda: app.appearance.skin.name == "night" and len(app.screen_stack) == 2, "the list"
        )
        await pilot.press("j")
        await until(pilot, lambda: app.appearance.skin.name == "amber", "the preview")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, SkinEditorScreen), "the editor")
        assert app.appearance.skin.name == "night"
        assert "amber" in words(app, "#page-state")


@pytest.mark.thorough
async def test_letters_of_a_filter_are_no_commands(home: Path) -> None:
    app = dressed(home)
    async with running(app) as pilot:
        screen = await opened(app, pilot)
        await pilot.press("slash", *"error")
        await until(pilot, lambda: screen.query_one(RoleList).role == "error", "the filter")
        assert app.screen is screen
        assert screen.draft.changes == {}


@pytest.mark.parametrize(
    ("typed", "color"),
    [
        ("#ABC", "#aabbcc"),
        ("abcdef", "#abcdef"),
        (" ansi_bright_red ", "ansi_bright_red"),
        ("ansi_default", "ansi_default"),
        ("Tomato", "#ff6347"),
    ],
)
def test_colours_are_read_as_people_write_them(typed: str, color: str) -> None:
    assert color_of(typed) == color


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "A colour is missing"),
        ("#12345", "`#12345` is not a colour"),
        ("#11223344", "is not a colour"),
        ("ansi_rde", "not a colour of the terminal; did you mean `ansi_red`"),
        ("transparent", "is not a colour"),
        ("auto", "is not a colour"),
        ("\x1b[31m", "is not a colour"),
    ],
)
def test_what_is_no_colour_is_one_sentence(typed: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("[", r"\[")) as caught:
        color_of(typed)
    assert "\x1b" not in str(caught.value)


@given(st.text(max_size=30))
def test_whatever_is_typed_is_a_colour_of_a_skin_or_a_sentence(typed: str) -> None:
    try:
        color = color_of(typed)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert normalize_color(color) == color


@given(st.lists(st.tuples(st.sampled_from(tuple(ROLES)), st.sampled_from(["#000000", "#ffffff", "#14161b"]))))
def test_a_draft_names_exactly_what_differs(steps: list[tuple[str, str]]) -> None:
    draft = SkinDraft.of(Skin())
    for role, color in steps:
        draft = draft.with_color(role, color)
    colors = draft.skin.colors
    assert draft.changes == {r: c for r, c in colors.items() if c != Skin().colors[r]}
    for role in ROLES:
        draft = draft.reset(role)
    assert draft.skin == Skin()


@pytest.mark.parametrize("name", BUILTIN)
def test_figures_and_warnings_agree(name: str) -> None:
    skin = load_skin(name).skin
    hard = {role for finding in check(skin) for role in (finding.role, finding.background)}
    assert {role for role, finding in tightest(skin).items() if not finding.enough} == hard


def test_a_dark_skin_with_a_light_page_is_a_light_one() -> None:
    assert SkinDraft.of(Skin()).with_color("background", "#ffffff").skin.dark is False


def test_colours_that_cannot_be_changed_in_place_leave_the_file(home: Path) -> None:
    path = own(home, "colors: bright\n")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="cannot be changed without disturbing"):
        skin_files.recolor(path, {"accent": "#000000"})
    assert path.read_bytes() == before


def test_a_linked_skin_file_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.yaml"
    real.write_text("colors:\n  accent: '#ffffff'\n")
    (home / "skins").mkdir()
    link = home / "skins" / "mine.yaml"
    link.symlink_to(real)
    skin_files.recolor(link, {"accent": "#000000"})
    assert link.is_symlink()
    assert "#000000" in real.read_text()


def test_creating_never_overwrites(home: Path) -> None:
    own(home, "description: old\n")
    with pytest.raises(ConfigError, match="is there already"):
        skin_files.create(Home(home), "mine", Skin())


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["night", "paper", "ansi", "contrast-light"])
def test_the_editor_looks(snap_compare: Any, home: Path, name: str, size: tuple[int, int]) -> None:
    app = dressed(home, name)

    async def show(pilot: Pilot[Any]) -> None:
        screen = await opened(app, pilot)
        await change(pilot, screen, ACCENT, "#778899")

    assert snap_compare(app, terminal_size=size, run_before=show)


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_value_looks(snap_compare: Any, home: Path, size: tuple[int, int]) -> None:
    app = dressed(home)

    async def show(pilot: Pilot[Any]) -> None:
        screen = await opened(app, pilot)
        await write(pilot, screen, ACCENT, "bleu")
        screen.query_one(Input).cursor_blink = False
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=show)
