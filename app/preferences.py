"""The settings of the person who sits here: read, changed, and put into effect."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.keys import resolve

if TYPE_CHECKING:
    from agent.config.loader import Loaded
    from agent.config.schema import Settings
    from agent.home import Home
    from app.application import HermesApp

AT_ONCE = ("display", "keys", "approvals", "watcher")
"""Sections whose settings take effect as soon as they are changed."""
BUT = ("display.personality",)
"""Settings in them that are part of a session from its start."""


def takes_effect_at_once(key: str) -> bool:
    """Whether a change of the dotted `key` is felt in the session that is open."""
    return key.partition(".")[0] in AT_ONCE and key not in BUT


class Preferences:
    """Changes go to the person's own `config.yaml`; what the open session can take, it takes at once."""

    def __init__(self, app: HermesApp) -> None:
        self._app = app

    async def read(self) -> Loaded:
        """All settings as they are now. What is wrong with a file is told in the result."""
        return await asyncio.to_thread(self._load)

    async def change(self, key: str, text: str) -> Loaded:
        """Set a setting to what `text` means for it. Raises `ConfigError`; nothing is changed then."""
        from agent.config.edit import set_setting

        return await self._write(key, lambda home: set_setting(home, key, text))

    async def reset(self, key: str) -> Loaded:
        """Take a setting out of the file, so that its default holds. Raises `ConfigError`."""
        from agent.config.edit import unset_setting

        return await self._write(key, lambda home: unset_setting(home, key))

    async def _write(self, key: str, write: Callable[[Home], object]) -> Loaded:
        await asyncio.to_thread(lambda: write(_home()))
        loaded = await self.read()
        adopt(self._app, loaded.settings)
        await self._tell_session(key, loaded.settings)
        return loaded

    async def _tell_session(self, key: str, settings: Settings) -> None:
        app = self._app
        try:
            if key == "display.skin" and settings.display.skin != app.skin.name:
                app.use_skin(settings.display.skin)
            elif key == "approvals.mode" and app.host.engine is not None:
                app.host.engine.approve(settings.approvals.mode)
            elif key == "watcher.enabled" and app.host.engine is not None:
                await app.host.engine.watch(settings.watcher.enabled)
        except HermesError as error:
            app.complain(str(error))

    def _load(self) -> Loaded:
        from agent.config.loader import load

        engine = self._app.host.engine
        workspace = Path(engine.session.record.workspace) if engine is not None else None
        return load(_home(), os.environ, workspace)


def _home() -> Home:
    from agent.home import Home

    return Home.locate()


def adopt(app: HermesApp, settings: Settings) -> None:
    """Let the application follow its own settings; what is wrong with the keys is told as a notice."""
    display = settings.display
    session = app.session
    if session.prompt.vi != display.vi:
        session.prompt.vi = display.vi
    session.move(display.motion and not os.environ.get("HERMES_REDUCED_MOTION"))
    app.attention.enabled = display.notifications
    keys = resolve(settings.keys)
    new = [problem for problem in keys.problems if problem not in app.keys.problems]
    app.keys = keys
    app.set_keymap(keys.keymap())
    session.prompt.bind_keys(keys.for_prompt())
    for problem in new[:3]:
        app.complain(problem)
    if len(new) > 3:
        app.complain(f"{len(new) - 3} more keys are not as you set them; /settings tells which.")
