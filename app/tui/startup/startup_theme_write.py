"""Writing the first frame's look for the next start, where `app.tui.startup.startup_theme_read` reads it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.style import Style

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import HermesError
from app.tui.startup import startup_theme_read
from themes.colors import normalize_color
from themes.skin import ROLES, Skin
from widgets.palette import Palette
from widgets.rows.row_text import one_line

if TYPE_CHECKING:
    from app.tui.screens.skins.appearance import AppearancePort


log = logging.getLogger(__name__)


def look_of(app: AppearancePort) -> startup_theme_read.Look:
    """Return the first frame's look in the application's current skin."""
    return frame_in_skin(app.appearance.shown, COLOR_SYSTEMS.get(app.console.color_system or ""))


def frame_in_skin(skin: Skin, colors: ColorSystem | None) -> startup_theme_read.Look:
    """Return the first frame's look in the colours of `skin`."""
    palette = Palette(skin)

    def style(role: str, background: str = "background", *, bold: bool = False) -> str:
        return _parameters(palette.style(role, background, bold=bold), colors)

    return {
        "ground": style("text"),
        "name": one_line(skin.agent_name, startup_theme_read.WORDS["name"]),
        "name_style": style("accent", bold=True),
        "rule": style("rule"),
        "surface": style("text", "surface"),
        "symbol": skin.prompt_symbol[: startup_theme_read.WORDS["symbol"]],
        "symbol_style": style("user", "surface", bold=True),
        "cursor": style("surface", "cursor"),
        "hint": style("dim", "surface"),
    }


def keep(signature: str, look: startup_theme_read.Look, skin: Skin, environ: Mapping[str, str]) -> None:
    """Write the look for the next start, unless it is already stored. A failure is logged.

    `signature` was computed before the settings were read.
    """
    from tools.kit.files import write_atomically

    place = Path(startup_theme_read.path(environ))
    lines = [startup_theme_read.HEADING, signature, *(f"{name}={value}" for name, value in look.items())]
    content = "\n".join([*lines, json.dumps(asdict(skin))]).encode()
    try:
        if not startup_theme_read.is_look(look) or (place.is_file() and place.read_bytes() == content):
            return
        private_folder(place.parent)
        write_atomically(place.parent.resolve() / place.name, content, PRIVATE_FILE, follow_links=False)
    except (HermesError, OSError) as error:
        log.info("the look of the first frame was not kept: %s", error)


def kept_skin(arguments: Sequence[str], environ: Mapping[str, str]) -> Skin | None:
    """Return the skin of the last start if its sources are unchanged, else None."""
    lines = startup_theme_read.remembered_lines(arguments, environ)
    try:
        return _skin(json.loads(lines[-1])) if lines else None
    except (ValueError, TypeError, RecursionError):
        return None


def _skin(data: Any) -> Skin | None:
    """Return the skin in `data`; None if the data differ from the form that `keep` writes."""
    example = asdict(Skin())
    if not isinstance(data, dict) or data.keys() != {field.name for field in fields(Skin)}:
        return None
    if any(
        type(data[name]) is not (list if type(value) is tuple else type(value))
        for name, value in example.items()
    ):
        return None
    colors = data["colors"]
    if colors.keys() != ROLES.keys() or any(normalize_color(color) != color for color in colors.values()):
        return None
    words = [*data["spinner"], *data["verbs"], *data["faces"], *data["tool_icons"].values()]
    if not all(isinstance(word, str) and word.isprintable() for word in words):
        return None
    tuples = {name: tuple(data[name]) for name, value in example.items() if isinstance(value, tuple)}
    return Skin(**{**data, **tuples})


def _parameters(style: Style, colors: ColorSystem | None) -> str:
    """Return the numbers between `ESC [` and `m`. `Style.render` would cache the colour depth of its first
    call.
    """
    codes = ["1"] if style.bold else []
    if colors is not None:
        codes += style.color.downgrade(colors).get_ansi_codes() if style.color else ()
        codes += style.bgcolor.downgrade(colors).get_ansi_codes(foreground=False) if style.bgcolor else ()
    return ";".join(codes)
