"""Draws every screen, in sizes and skins, with content, empty and with an error, on contact sheets.

    python -m tests.pictures build/pictures --size 200x60 --skin paper --state empty --only Sessions

Nothing is compared: these sheets are there to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from textual.pilot import Pilot

from app.tui.screens import dialog as dialogs
from tests.pictures.raster import contact_sheet, draw_screen
from tests.pictures.scenes import STATES, acts, kinds_of, world_of
from tests.support import story
from tests.support.staged import Staged, drawn, scene

SIZES = {"80x24": (3, 4), "120x40": (2, 3), "200x60": (1, 2)}
"""Columns and rows of a sheet, by the size of the terminal."""
SKINS = ("night", "paper", "contrast-light")


async def draw(state: str, size: str, skin: str, only: str) -> list[tuple[str, Image.Image]]:
    """Return the pictures of all screens in one state, size and skin, with their names."""
    width, height = map(int, size.split("x"))
    found: list[tuple[str, Image.Image]] = []
    for name, opened in kinds_of(state).items():
        if only not in name:
            continue
        app = Staged(skin)
        with tempfile.TemporaryDirectory() as folder:
            async with world_of(state, Path(folder)) as made, app.run_test(size=(width, height)) as pilot:

                async def show(app: Staged, pilot: Pilot[Any]) -> None:
                    app.hear([story.opened(), *story.asked(), *story.looked(), story.used()])
                    await drawn(pilot)
                    app.push_screen(await opened.make(made, app))  # noqa: B023
                    await pilot.pause(0.3)

                await scene(show)(pilot)
                found.append((f"{name} {state} {size} {skin}", draw_screen(app)))
    for name, act in acts().items() if state == "content" else ():
        if only not in name:
            continue
        app = Staged(skin)
        async with app.run_test(size=(width, height)) as pilot:
            await scene(act)(pilot)
            found.append((f"{name} {size} {skin}", draw_screen(app)))
    return found


def main() -> None:
    """Draw what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, action="append")
    parser.add_argument("--skin", action="append")
    parser.add_argument("--state", choices=STATES, action="append")
    parser.add_argument("--only", default="", metavar="TEXT", help="names that contain this")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    dialogs.ARMING_DELAY = 0.01
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"COLORTERM": "truecolor", "HOME": home, "HERMES_HOME": f"{home}/.hermes"}
        os.environ.pop("NO_COLOR", None)
        for size in args.size or SIZES:
            columns, rows = SIZES[size]
            for skin in args.skin or SKINS:
                for state in args.state or STATES:
                    pictures = asyncio.run(draw(state, size, skin, args.only))
                    for first in range(0, len(pictures), columns * rows):
                        file = args.folder / f"{size}-{skin}-{state}-{first:02}.png"
                        contact_sheet(pictures[first : first + columns * rows], columns).save(file)
                        print(file)


if __name__ == "__main__":
    main()
