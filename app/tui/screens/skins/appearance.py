"""The look of the running application: its skin, the colours that the terminal can show, and motion.

Skins are read in threads; switching to one happens at once, on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from textual.filter import LineFilter, Monochrome, NoColor

from agent.core.home import Home, from_home
from agent.errors import ConfigError
from themes.colors import DEFAULT, Depth, adapt_skin, detect
from themes.skin import Skin, SkinProblem
from widgets.palette import Palette, textual_theme

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme

    from agent.core.config.schema import DisplaySettings
    from app.tui.app_context import AppContext
    from themes.contrast import ContrastFinding
    from themes.loader import LoadedSkin
    from themes.skin_changes import SkinFileState

    class AppearancePort(AppContext, Protocol):
        """The members of the application that depend on its look."""

        copy_on_select: bool
        leave_answer: bool

        @property
        def appearance(self) -> Appearance: ...


LOOK_SECONDS = 0.5
"""Seconds between two checks of the current skin's file."""
RARE_LOOK_SECONDS = 2.0
"""Seconds between two checks if the skin has no file."""
SETTLING_SECONDS = 0.1
"""Seconds that a file must be unchanged before it is read, as editors write in more than one step."""


class Appearance:
    """Applies skins and motion to the application, and keeps the current ones."""

    def __init__(
        self,
        app: App[Any],
        ports: AppContext,
        skin: Skin,
        folder: Path | None,
        environ: Mapping[str, str],
    ) -> None:
        """`folder` holds the user's own skins; `environ` describes the abilities of the terminal."""
        self._app = app
        self._ports = ports
        self.folder = folder
        self.depth: Depth = detect(environ)
        self.skin = skin
        """The current skin, as in its file."""
        self.shown = adapt_skin(skin, self.depth)
        """The current skin, reduced to the terminal's colours."""
        self.light = skin.name == "auto" and not skin.dark
        """True if the terminal has reported a light background."""
        self._never_moves = bool(environ.get("HERMES_REDUCED_MOTION"))
        self.motion = not self._never_moves
        self._changes = 0
        self._theme = ""
        self._read_from: dict[str, SkinFileState] = {}
        """The state of each skin's file just before it was last read, by name of the skin."""

    @property
    def palette(self) -> Palette:
        """The styles of the current skin."""
        return Palette(self.shown)

    def filters(self, filters: Iterable[LineFilter]) -> list[LineFilter]:
        """Return the `filters` of Textual that suit the terminal; for a terminal without colours, one that
        removes them.
        """
        if self.depth != "none":
            return list(filters)
        # Shades of grey are colours too, and on the terminal's own background their contrast is unknown.
        return [*(each for each in filters if not isinstance(each, Monochrome)), NoColor()]

    # Skins

    def apply_before_mount(self) -> None:
        """Apply the first skin before any style sheet is read; reading them again would cost a frame."""
        if self.shown.colors["background"].startswith("ansi_"):
            return  # `show` does it, as colours of the terminal need another filter
        theme = self._register()
        self._app.set_reactive(type(self._app).theme, theme.name)
        self._app.set_class(True, f"-theme-{theme.name}", update=False)
        self._app.set_class(theme.dark, "-dark-mode", update=False)
        self._app.set_class(not theme.dark, "-light-mode", update=False)
        self._app.stylesheet.set_variables(self._app.get_css_variables())
        self._ports.session.use(self.palette)

    def apply_after_mount(self) -> None:
        """Apply the first skin after mounting, if `apply_before_mount` could not."""
        if not self._theme:
            self.show(self.skin)

    def show(self, skin: Skin) -> None:
        """Apply `skin` to all screens. A skin that `apply` is still reading is discarded."""
        self._changes += 1
        self.skin, self.shown = skin, adapt_skin(skin, self.depth, light=self.light)
        before = self._theme
        self._app.theme = self._register().name
        self._app.unregister_theme(before)
        palette = self.palette
        self._ports.session.use(palette)
        for screen in self._app.screen_stack:
            # Some screens draw in styles of the palette, besides those of their style sheet.
            if screen is not self._ports.session and (use := getattr(screen, "use", None)):
                use(palette)

    def _register(self) -> Theme:
        # Textual applies a theme only under a new name, but an edited skin keeps its name.
        theme = replace(textual_theme(self.shown), name=f"hermes-{self.skin.name}-{self._changes}")
        self._app.register_theme(theme)
        self._theme = theme.name
        return theme

    async def read(self, name: str) -> LoadedSkin:
        """Return the skin called `name` with its problems. Raises `ConfigError` if there is none."""
        _, loaded = await asyncio.to_thread(_read, name, self.folder, self.light)
        return _of_name(name, loaded)

    async def apply(self, name: str) -> None:
        """Apply the skin of this name; show a problem in its file. Raises `ConfigError` if there is none."""
        loaded = await self.apply_silently(name)
        if name == "auto":
            await self.match_background()
        if loaded is not None and loaded.problems:
            self._ports.show_warning(problems_text(loaded.problems))

    async def match_background(self) -> None:
        """If the skin follows the terminal, ask the terminal for its background, and adapt to it."""
        if self._follows_background and (light := await self._ports.ask_background()) is not None:
            await self.set_light(light)

    async def set_light(self, light: bool) -> None:
        """Adapt to a light or dark background if the skin follows the terminal."""
        if self._follows_background and light != self.light:
            self.light = light
            if self.skin.name == "auto":
                await self.apply_silently("auto")
            else:
                self.show(self.skin)

    @property
    def _follows_background(self) -> bool:
        return self.skin.name == "auto" or self.shown.colors["background"] == DEFAULT

    async def apply_silently(self, name: str) -> LoadedSkin | None:
        """Apply a skin like `apply`, without a notice; return None if another one was requested meanwhile."""
        self._changes += 1
        asked = self._changes
        state, loaded = await asyncio.to_thread(_read, name, self.folder, self.light)
        _of_name(name, loaded)
        if asked != self._changes:
            return None
        self._read_from[name] = state
        if loaded.skin != self.skin:
            self.show(loaded.skin)
        return loaded

    async def save(self, name: str) -> None:
        """Save the skin in the settings, and show a notice that names the file.

        Raises `ConfigError` if the settings cannot be changed; the file is unchanged then.
        """
        from agent.core.config.edit import set_setting

        home = Home.locate()
        await asyncio.to_thread(set_setting, home, "display.skin", name)
        self._ports.show_notice(f"Kept: display.skin is {name} in {from_home(home.config)}.")

    async def apply_settings(self, display: DisplaySettings) -> None:
        """Apply the look from the settings. An unknown skin is reported and leaves the current one."""
        self.set_motion(display.motion)
        try:
            await self.apply(display.skin)
        except ConfigError as error:
            self._ports.show_warning(f"display.skin: {error}")

    # Motion

    def set_motion(self, motion: bool) -> None:
        """Turn motion on or off. With `HERMES_REDUCED_MOTION` in the environment it stays off."""
        self.motion = motion and not self._never_moves
        self._app.animation_level = "full" if self.motion else "none"
        self._ports.session.set_motion(self.motion)

    # Edits of the current skin's file

    async def watch(self) -> None:
        """Apply changes to the file of the current skin until cancelled; return at once without a folder."""
        if self.folder is None:
            return
        if self.skin.name not in self._read_from:
            # The skin may have been edited since it was applied, while the program was still starting.
            await self._read_again(edited=False)
        while True:
            name, changes = self.skin.name, self._changes
            state = await self._state(name)
            # A skin applied without being read has only the first look to compare with.
            known = self._read_from.setdefault(name, state)
            # If the skin was applied during this check, it may have been read after it.
            if state != known and changes == self._changes:
                await self._wait_until_settled(name, state)
                await self._read_again()
            await asyncio.sleep(LOOK_SECONDS if state else RARE_LOOK_SECONDS)

    async def _state(self, name: str) -> SkinFileState:
        from themes.skin_changes import file_state

        return await asyncio.to_thread(file_state, self.folder, name) if self.folder else ()

    async def _wait_until_settled(self, name: str, state: SkinFileState) -> None:
        while True:
            await asyncio.sleep(SETTLING_SECONDS)
            before, state = state, await self._state(name)
            if state == before:
                return

    async def _read_again(self, *, edited: bool = True) -> None:
        name, before = self.skin.name, self._changes
        state, loaded = await asyncio.to_thread(_read, name, self.folder, self.light)
        if before != self._changes:
            return
        self._read_from[name] = state
        try:
            _of_name(name, loaded)
        except ConfigError as error:
            self._ports.show_warning(f"{error} The look stays as it was.")
            return
        if loaded.problems and (edited or loaded.skin != self.skin):
            self._ports.show_warning(f"{problems_text(loaded.problems)} The look stays as it was.")
        elif not loaded.problems and loaded.skin != self.skin:
            self.show(loaded.skin)
            self._ports.show_notice(f"{name} was read again.")


def _read(name: str, folder: Path | None, light: bool) -> tuple[SkinFileState, LoadedSkin]:
    """Return the state of a skin's file before it was read, which reveals later writes, and the skin."""
    from themes.loader import load_skin
    from themes.skin_changes import file_state

    state = file_state(folder, name) if folder else ()
    return state, load_skin(name, folder, light=True) if light else load_skin(name, folder)


def _of_name(name: str, loaded: LoadedSkin) -> LoadedSkin:
    """Return `loaded`. Raises `ConfigError` if it replaces a skin called `name` that does not exist."""
    if loaded.skin.name != name:
        problem = loaded.problems[0]
        raise ConfigError(_capital(problem.message) if problem.origin == "skin" else str(problem))
    return loaded


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def problems_text(problems: tuple[SkinProblem, ...]) -> str:
    """Return the first problem, and the number of others. Pure."""
    more = len(problems) - 1
    return f"{problems[0]}" + (f" ({more} more in this file.)" if more else "")


async def findings(skin: Skin) -> list[ContrastFinding]:
    """Return the contrast problems of `skin`, computed in a thread."""
    from themes.contrast import check

    return await asyncio.to_thread(check, skin)
