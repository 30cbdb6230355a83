"""Skins of plugins: copied beside those of the person when the plugin is agreed to. They are data only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.integrations.plugins.files import OutsideError, read_part
from agent.integrations.plugins.problem import SkippedPart
from themes.loader import PLUGINS, list_skins
from tools.kit.files import write_atomically
from tools.text.words import brief


def place(home: Home, root: Path, skins: Sequence[str]) -> tuple[tuple[str, ...], tuple[SkippedPart, ...]]:
    """Copy skins, given from the root of the plugin on; those that were copied, and the others."""
    taken = {each.name for each in list_skins(home.skins)}
    placed: list[str] = []
    skipped: list[SkippedPart] = []
    for skin in skins:
        name = Path(skin).stem
        try:
            if name in taken:
                raise OutsideError("there is a skin of that name")
            content = read_part(root, skin)
            folder = private_folder(private_folder(home.skins) / PLUGINS)
            write_atomically(folder / f"{name}.yaml", content or b"", PRIVATE_FILE, follow_links=False)
        except (OutsideError, OSError, ConfigError) as error:
            skipped.append(SkippedPart(f"skin {brief(skin)}", str(error).rstrip(".")))
            continue
        taken.add(name)
        placed.append(skin)
    return tuple(placed), tuple(skipped)


def remove(home: Home, skins: Sequence[str]) -> None:
    """Take copies away again."""
    for skin in skins:
        path = home.skins / PLUGINS / f"{Path(skin).stem}.yaml"
        if os.path.lexists(path):
            path.unlink()
