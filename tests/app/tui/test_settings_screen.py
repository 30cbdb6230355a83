"""The settings screen over real files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from textual._context import active_app
from textual.app import App
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, Static

from agent.core.config.edit import drop_entry, set_setting
from agent.core.config.loader import load
from agent.core.config.setting_names import split
from agent.core.home import Home
from app.tui.screens import dialog as dialogs
from app.tui.screens.models.key_dialog import ServerDialog
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.models.models import ProvidersScreen
from app.tui.screens.settings.preferences import Snapshot
from app.tui.screens.settings.settings import ChoiceEditor, LineEditor, SettingRow, SettingsScreen
from tests.support.waiting import until
from themes.skin import Skin
from widgets.palette import css_variables, textual_theme

OWN = """\
# mine
display:
  skin: night  # the best
  vi: true
terminal:
  timeout: 60
agent:
  max_turns: 40
providers:
  mine:
    base_url: https://models.example/v1
    headers: {X-Token: abracadabra-very-secret}
keys:
  view.log: ctrl+l
"""


class FileKeeper:
    """Settings of a home of the test's own."""

    def __init__(self, home: Home, environ: dict[str, str]) -> None:
        self.home, self.environ = home, environ

    async def read(self) -> Snapshot:
        shown = Path("~/.hermes/config.yaml")
        return Snapshot(load(self.home, self.environ), load(self.home, {}), shown)

    async def change(self, key: str, text: str) -> None:
        await asyncio.to_thread(set_setting, self.home, key, text)

    async def reset(self, key: str) -> Callable[[], Awaitable[object]]:
        back = await asyncio.to_thread(drop_entry, self.home, split(key))
        assert back is not None
        return partial(asyncio.to_thread, back)

    async def edit_entry(self, section: str, name: str) -> None:
        assert section == "providers"
        menu = ModelMenu(self.home.root, {"HERMES_HOME": str(self.home.root)})
        await active_app.get().push_screen_wait(ProvidersScreen(menu, name))


class Host(App[None]):
    def __init__(self, home: Path, own: str = OWN, **environ: str) -> None:
        super().__init__()
        home.mkdir(exist_ok=True)
        self.keeper = FileKeeper(Home(home), environ)
        self.file = home / "config.yaml"
        if own:
            self.file.write_text(own, encoding="utf-8")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return css_variables(Skin())

    async def on_mount(self) -> None:
        self.register_theme(theme := textual_theme(Skin()))
        self.theme = theme.name
        await self.push_screen(SettingsScreen(await self.keeper.read(), self.keeper))

    @property
    def settings(self) -> SettingsScreen:
        return next(screen for screen in self.screen_stack if isinstance(screen, SettingsScreen))

    def row(self, key: str) -> SettingRow:
        return next(row for row in self.settings.list.rows if row.key == key and row.kind != "heading")


def go(screen: SettingsScreen, key: str) -> None:
    at = next(i for i, row in enumerate(screen.list.rows) if row.key == key and row.kind != "heading")
    screen.list.move_to(at)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)


def said(host: Host, id: str) -> str:
    content = host.settings.query_one(f"#settings-{id}", Static).content
    return content.plain if isinstance(content, Content) else str(content)


async def begun(host: Host, pilot: Pilot[None], key: str = "") -> None:
    await until(pilot, lambda: host.screen_stack[-1].__class__ is SettingsScreen and host.settings.list.size)
    if key:
        go(host.settings, key)
        await until(pilot, lambda: key in said(host, "about"))


async def test_sections_can_be_jumped_to_and_what_differs_shown_alone(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(120, 40)) as pilot:
        await begun(host, pilot)
        rows = host.settings.list
        first = rows.row
        await pilot.press("tab")
        assert first is not None and rows.row is not None
        assert rows.row.key.partition(".")[0] != first.key.partition(".")[0]
        await pilot.press("shift+tab")
        assert rows.row == first
        await pilot.press("s")
        await until(pilot, lambda: len(rows.rows) < 20)
        members = [row for row in rows.rows if row.kind != "heading"]
        assert all(row.origin for row in members) and "terminal.timeout" in {row.key for row in members}
        assert all(after.kind != "heading" for row, after in pairwise(rows.rows) if row.kind == "heading")
        await pilot.press("s")
        await until(pilot, lambda: len(rows.rows) > 100)


async def test_every_setting_is_there_with_its_value_and_its_origin(tmp_path: Path) -> None:
    host = Host(tmp_path / "home", HERMES_MAX_TURNS="70")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot)
        timeout, vi, turns = host.row("terminal.timeout"), host.row("display.vi"), host.row("agent.max_turns")
        assert (timeout.value, timeout.origin, timeout.default) == ("60", "config.yaml:6", "180")
        assert (vi.value, vi.effect) == ("true", "now")
        assert (turns.value, turns.origin) == ("70", "HERMES_MAX_TURNS")
        assert turns.effect == "from the next session" and turns.label == "Max turns"
        assert "your own 40 (config.yaml line 8) counts once the variable is gone" in turns.overridden
        retries = host.row("model.retries")
        assert (retries.value, retries.origin, retries.is_own) == ("4", "", False)
        assert host.row("keys.view.log").value == "^L"
        mine = host.row("providers.mine")
        assert (mine.value, mine.origin) == ("https://models.example/v1", "config.yaml:11")


@pytest.mark.thorough
async def test_a_secret_is_neither_drawn_nor_copied_nor_edited(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "providers.mine")
        assert "base_url https://models.example/v1" in said(host, "about")
        await pilot.press("i")
        go(host.settings, "providers.mine.headers")
        await until(pilot, lambda: "providers.mine.headers" in said(host, "about"))
        drawn = [host.settings.list.render_line(row).text for row in range(host.settings.list.size.height)]
        assert "abracadabra" not in "\n".join([*drawn, *(row.search_text for row in host.settings.list.rows)])
        await pilot.press("enter")
        await pilot.pause(0.05)
        assert host.screen is host.settings


async def test_a_provider_is_opened_added_deleted_and_put_back_from_its_one_row(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "providers.mine")
        assert [row.key for row in host.settings.list.rows if row.key.startswith("providers.")] == [
            "providers.mine"
        ]
        await pilot.press("enter")
        opened = lambda: isinstance(host.screen, ProvidersScreen) and host.screen.loaded  # noqa: E731
        await until(pilot, opened, "the screen of providers")
        assert isinstance(host.screen, ProvidersScreen) and host.screen.pointed is not None
        assert host.screen.pointed["name"] == "mine"
        await pilot.press("escape", "n")
        await until(pilot, lambda: isinstance(host.screen, ServerDialog), "the dialog that adds one")
        await pilot.press("escape")
        await until(pilot, opened, "the screen of providers")
        await pilot.press("escape", "d")
        await until(pilot, lambda: load(host.keeper.home, {}).settings.providers == {}, "the deletion")
        await pilot.press("u")
        await until(pilot, lambda: host.row("providers.mine").is_own, "what was deleted")
        own = load(host.keeper.home, {}).settings.providers["mine"]
        assert own.headers == {"X-Token": "abracadabra-very-secret"}


@pytest.mark.thorough
async def test_a_switch_is_turned_in_the_file_and_nothing_else_is_touched(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "display.vi")
        await pilot.press("enter")
        await until(pilot, lambda: host.row("display.vi").value == "false")
        assert host.file.read_text("utf-8") == OWN.replace("vi: true", "vi: false")
        assert host.file.stat().st_mode & 0o777 == 0o600
        await pilot.press("enter")
        await until(pilot, lambda: host.row("display.vi").value == "true")
        assert host.settings.list.row == host.row("display.vi")


@pytest.mark.thorough
async def test_a_number_that_is_not_allowed_is_refused_in_one_sentence_until_it_is(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "terminal.timeout")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, LineEditor))
        field = host.screen.query_one(Input)
        assert field.value == "60"
        field.value = "0"
        await pilot.press("enter")
        refusal = host.screen.query_one("#refusal", Static)
        await until(pilot, lambda: "it takes a whole number, at least 1" in str(refusal.render()))
        assert host.file.read_text("utf-8") == OWN
        field.value = "90"
        await pilot.press("enter")
        await until(
            pilot, lambda: host.screen is host.settings and host.row("terminal.timeout").value == "90"
        )


@pytest.mark.thorough
async def test_an_enumeration_is_chosen_from_a_list(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "approvals.mode")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, ChoiceEditor))
        await pilot.press("2")
        await until(
            pilot, lambda: host.screen is host.settings and host.row("approvals.mode").value == "deny"
        )


@pytest.mark.thorough
async def test_escape_leaves_an_editor_and_then_the_screen_without_a_change(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "approvals.mode")
        for kind in (ChoiceEditor, SettingsScreen):
            if kind is ChoiceEditor:
                await pilot.press("enter")
            await until(pilot, lambda kind=kind: isinstance(host.screen, kind))
            await pilot.press("escape")
        await until(pilot, lambda: len(host.screen_stack) == 1)
        assert host.file.read_text("utf-8") == OWN


@pytest.mark.thorough
async def test_a_setting_goes_back_to_its_default_by_leaving_the_file(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "terminal.timeout")
        await pilot.press("d")
        await until(pilot, lambda: host.row("terminal.timeout").value == "180")
        assert host.row("terminal.timeout").origin == ""
        assert host.file.read_text("utf-8") == OWN.replace("  timeout: 60\n", "")
        await pilot.press("d")
        await pilot.pause(0.05)
        assert host.file.read_text("utf-8") == OWN.replace("  timeout: 60\n", "")


@pytest.mark.thorough
async def test_keys_are_checked_before_they_are_written(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "keys.view.files")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, LineEditor))
        field = host.screen.query_one(Input)
        assert field.value == "alt+4"
        field.value = "^L"
        await pilot.press("enter")
        refusal = host.screen.query_one("#refusal", Static)
        await until(pilot, lambda: "^L is taken by “Tool log” (`view.log`) already" in str(refusal.render()))
        field.value = "f6, alt+4"
        await pilot.press("enter")
        await until(pilot, lambda: host.row("keys.view.files").value == "F6 alt+4")
        assert host.file.read_text("utf-8") == OWN + "  view.files: 'f6, alt+4'\n"


@pytest.mark.thorough
async def test_a_wrong_name_among_the_keys_is_a_row_that_can_be_taken_out(tmp_path: Path) -> None:
    host = Host(tmp_path / "home", "keys:\n  vew.log: f5\n  view.log: f5\n")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "keys.vew.log")
        assert "did you mean `view.log`?" in said(host, "problems")
        await pilot.press("d")
        await until(pilot, lambda: said(host, "problems") == "")
        assert host.file.read_text("utf-8") == "keys:\n  view.log: f5\n"


@pytest.mark.thorough
async def test_a_broken_file_is_a_sentence_and_is_left_alone(tmp_path: Path) -> None:
    broken = "model:\n  name: [oops\n"
    host = Host(tmp_path / "home", broken)
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "display.vi")
        assert "config.yaml line 3" in said(host, "problems") and "Traceback" not in said(host, "problems")
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert host.row("display.vi").value == "false"
        assert host.file.read_text("utf-8") == broken


async def test_hostile_values_reach_the_screen_as_plain_text(tmp_path: Path) -> None:
    host = Host(tmp_path / "home", 'model: {name: "a\\e[31m[red]b"}\nkeys: {"\\e]0;x\\a[b]": f5}\n')
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot, "model.name")
        drawn = [host.settings.list.render_line(row).text for row in range(host.settings.list.size.height)]
        assert "[red]b" in "\n".join(drawn)
        assert not any("\x1b" in text for text in [*drawn, said(host, "problems"), said(host, "about")])


@pytest.mark.thorough
async def test_the_filter_finds_by_help_and_value_and_the_cursor_stands_on_a_setting(tmp_path: Path) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=(80, 24)) as pilot:
        await begun(host, pilot)
        await pilot.press("slash", *"prompt takes vi")
        await until(
            pilot, lambda: host.settings.list.row is not None and host.settings.list.row.key == "display.vi"
        )
        await until(pilot, lambda: host.settings.list.shown_count == 2)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: host.row("display.vi").value == "false")


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
async def test_the_cursor_passes_over_headings_in_both_directions(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    host = Host(tmp_path / "home")
    async with host.run_test(size=size) as pilot:
        await begun(host, pilot)
        seen, row = set(), None
        for key in [*["j"] * 40, "pagedown", "G", *["k"] * 40, "pageup", "g", "k", "k"]:
            host.simulate_key(key)
            await pilot.pause()
            row = host.settings.list.row
            assert row is not None and row.kind != "heading"
            seen.add(row.key)
        assert row is not None and row.key == "model.name" and len(seen) > 30


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
def test_how_settings_look(snap_compare: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    host = Host(tmp_path / "home", HERMES_MAX_TURNS="70")

    async def stand(pilot: Pilot[None]) -> None:
        await begun(host, pilot, "agent.max_turns")

    assert snap_compare(host, terminal_size=size, run_before=stand)


@pytest.mark.thorough
def test_how_a_refused_value_looks(snap_compare: Any, tmp_path: Path) -> None:
    host = Host(tmp_path / "home")

    async def refuse(pilot: Pilot[None]) -> None:
        await begun(host, pilot, "terminal.timeout")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(host.screen, LineEditor))
        host.screen.query_one(Input).value = "soon"
        host.screen.query_one(Input).cursor_blink = False
        await pilot.press("enter")
        await until(pilot, lambda: "soon" in str(host.screen.query_one("#refusal", Static).render()))

    assert snap_compare(host, terminal_size=(80, 24), run_before=refuse)


def test_how_a_broken_file_looks(snap_compare: Any, tmp_path: Path) -> None:
    host = Host(tmp_path / "home", "model:\n  name: [oops\n")

    async def wait(pilot: Pilot[None]) -> None:
        await begun(host, pilot)

    assert snap_compare(host, terminal_size=(80, 24), run_before=wait)
