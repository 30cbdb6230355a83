"""Settings that take effect in the application that is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.errors import ConfigError
from agent.events import Noticed
from app.tui.screens.settings.preferences import adopt, takes_effect_at_once
from app.tui.screens.settings.settings import SettingsScreen
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import by_step, call, say
from tests.support.sessions import engine_of


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "own"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


def told(at: Stage) -> list[str]:
    return [event.text for event in at.bench.seen(Noticed)]


@pytest.mark.thorough
async def test_the_screen_opens_by_its_key_and_by_its_word(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        for keys in (["f2"], [*"/settings", "enter"]):
            await at.pilot.press(*keys)
            await at.until(lambda: isinstance(at.app.screen, SettingsScreen), "the screen")
            await at.pilot.press("escape")
            await at.until(lambda: not isinstance(at.app.screen, SettingsScreen), "leaving")


@pytest.mark.thorough
async def test_vi_keys_and_calls_follow_the_settings_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        await at.app.preferences.change("display.vi", "true")
        await at.app.preferences.change("display.notifications", "false")
        assert at.app.session.prompt.vi and not at.app.attention.enabled
        await at.app.preferences.reset("display.vi")
        assert not at.app.session.prompt.vi
        assert Home.locate().config.read_text() == "display:\n  notifications: false\n"


async def test_a_draft_survives_the_change_to_vi_keys(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        await at.type("keep me")
        adopt(at.app, Settings.model_validate({"display": {"vi": True}}))
        assert at.app.session.prompt.text == "keep me"


@pytest.mark.thorough
async def test_approvals_set_to_deny_hold_for_the_next_call(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="rm -rf made"), say("done")])
    async with stage(tmp_path, script, approve="all") as at:
        await at.ready()
        (at.bench.workspace / "made").mkdir()
        await at.app.preferences.change("approvals.mode", "deny")
        await at.type("go", "enter")
        await at.quiet()
        assert (at.bench.workspace / "made").is_dir()


@pytest.mark.thorough
async def test_the_watcher_is_turned_off_and_on_by_word_and_by_setting(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        engine = engine_of(at.app)
        await at.type("/watch off", "enter")
        await at.until(lambda: not engine.watches, "the end of watching")
        assert any("unnoticed" in text for text in told(at))
        await at.type("/watch", "enter")
        await at.until(lambda: engine.watches, "watching")
        await at.app.preferences.change("watcher.enabled", "false")
        assert not engine.watches
        complaints: list[str] = []
        at.app.show_warning = complaints.append  # type: ignore[method-assign]
        await at.type("/watch maybe", "enter")
        await at.until(lambda: complaints == ["/watch takes on or off, not “maybe”."], "the refusal")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("key", "text", "part"),
    [
        ("display.skin", "no-such-skin", "no-such-skin"),
        ("display.personality", "no-such-tone", "no-such-tone"),
        ("display.vi", "perhaps", "it takes true or false"),
        ("display.vii", "true", "did you mean `display.vi`?"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, key: str, text: str, part: str
) -> None:
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        with pytest.raises(ConfigError) as refusal:
            await at.app.preferences.change(key, text)
        assert part in str(refusal.value)
        assert not Home.locate().config.exists()


@pytest.mark.thorough
async def test_a_variable_that_overrides_a_change_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_APPROVALS", "deny")
    async with stage(tmp_path, [say("hi")]) as at:
        await at.ready()
        await at.app.preferences.change("approvals.mode", "all")
        snapshot = await at.app.preferences.read()
        assert snapshot.loaded.settings.approvals.mode == "deny"
        assert snapshot.own.settings.approvals.mode == "all"


def test_it_is_known_which_changes_are_felt_at_once() -> None:
    felt = {
        key: takes_effect_at_once(key)
        for key in ("display.vi", "keys.view.log", "approvals.mode", "watcher.enabled")
    }
    assert all(felt.values())
    assert not any(map(takes_effect_at_once, ("display.personality", "model.name", "terminal.timeout")))
