"""Reading, changing and applying the user's own settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agent.errors import HermesError
from app.tui.terminal.terminals import mouse_policy
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.schema import Settings
    from agent.core.home import Home
    from app.tui.screens.skins.appearance import AppearancePort

AT_ONCE = ("display", "notifications", "keys", "approvals", "watcher")
"""Sections whose settings take effect as soon as they are changed."""
BUT = ("display.personality",)
"""Settings in these sections that take effect only with the next session."""
ENTRY_SCREENS = {"providers": "providers", "mcp_servers": "mcp"}
"""The slash commands of the screens that edit the entries of a section."""
Outcome = TypeVar("Outcome")


def takes_effect_at_once(key: str) -> bool:
    """Return whether a change to the dotted `key` applies to the open session."""
    return key.partition(".")[0] in AT_ONCE and key not in BUT


class Snapshot(NamedTuple):
    """All settings at one moment, in effect and as in the user's file."""

    loaded: LoadedSettings
    """The settings in effect, from all sources."""
    own: LoadedSettings
    """The settings of the user's own file alone."""
    file: Path


class Preferences:
    """Changes the user's `config.yaml`, and applies changes to the open session where possible."""

    def __init__(self, app: AppearancePort) -> None:
        self._app = app

    async def read(self) -> Snapshot:
        """Return all current settings; problems in a file are part of the result."""
        return await asyncio.to_thread(self._load)

    async def change(self, key: str, text: str) -> None:
        """Parse `text` and set the setting to its value. Raises `ConfigError`; then nothing is changed."""
        from agent.api.known_names import change_setting

        if key == "display.skin":
            await self._app.appearance.read(text)
        warnings: list[str] = []
        await self._write(key, lambda home: change_setting(home, key, text, warnings))
        for sentence in warnings:
            self._app.show_warning(sentence)

    async def reset(self, key: str) -> Callable[[], Awaitable[object]]:
        """Remove a setting or an entry; return a function that restores it. Raises `ConfigError`."""
        from agent.core.config.edit import drop_entry
        from agent.core.config.setting_names import split

        back = await self._write(key, lambda home: drop_entry(home, split(key)))
        return lambda: self._write(key, lambda _home: back and back())

    async def edit_entry(self, section: str, name: str) -> None:
        """Open the screen that edits the entry `name` of a section; the name `add` starts a new entry."""
        await self._app.actions.run_slash(f"{ENTRY_SCREENS[section]} {name}")

    async def _write(self, key: str, write: Callable[[Home], Outcome]) -> Outcome:
        outcome = await asyncio.to_thread(lambda: write(_home()))
        loaded = (await self.read()).loaded
        adopt(self._app, loaded.settings)
        await self._tell_session(key, loaded.settings)
        return outcome

    async def _tell_session(self, key: str, settings: Settings) -> None:
        app, client = self._app, self._app.host.client
        try:
            if key == "display.skin":
                await app.appearance.apply(settings.display.skin)
            elif key == "approvals.mode" and client is not None:
                await client.set_mode(settings.approvals.mode)
            elif key == "display.wrap_code":
                app.session.transcript.navigator.wrap_code(settings.display.wrap_code)
            elif (
                key == "watcher.enabled" and client is not None and client.watches != settings.watcher.enabled
            ):
                await client.watch(settings.watcher.enabled)
        except HermesError as error:
            app.show_warning(str(error))

    def _load(self) -> Snapshot:
        from agent.core.config.loader import load
        from agent.core.home import from_home

        home, client = _home(), self._app.host.client
        workspace = client.workspace if client is not None else None
        return Snapshot(load(home, os.environ, workspace), load(home, {}), Path(from_home(home.config)))


def _home() -> Home:
    from agent.core.home import Home

    return Home.locate()


def adopt(app: AppearancePort, settings: Settings) -> None:
    """Apply the settings of the user interface; problems with the keys are shown as a notice."""
    from app.tui.commands.keys import resolve
    from app.tui.conversation.clipboard_images import show_images

    display = settings.display
    session = app.session
    if session.prompt.vi != display.vi:
        session.prompt.vi = display.vi
    app.appearance.set_motion(display.motion)
    app.attention.enabled = display.notifications
    calls = settings.notifications
    app.attention.ways = {"needs_you": calls.needs_you, "done": calls.done, "failed": calls.failed}
    app.attention.away_seconds = calls.away_seconds
    app.copy_on_select, app.leave_answer = display.copy_on_select, display.leave_answer
    app.report_mouse(mouse_policy(display.mouse, os.environ))
    show_images(app, display.pictures)
    keys = resolve(settings.keys)
    new = [problem for problem in keys.problems if problem not in app.keys.problems]
    app.use_keys(keys)
    session.prompt.hints.stop_key = keys.label("turn.stop")
    session.prompt.bind_keys(keys.for_prompt())
    session.show_hints(keys.hints())
    for problem in new[:3]:
        app.show_warning(problem)
    if len(new) > 3:
        app.show_warning(f"Not as you set them: {plural(len(new) - 3, 'more key')}; /settings tells which.")
