"""Reading an image from the clipboard, with the programs of Wayland, X11 and macOS."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError
from tools.kit.children import kill_child, start_child

if TYPE_CHECKING:
    from tools.senses.pictures import FitPicture

SECONDS = 5.0
"""Time limit of a program."""
LARGEST = 50_000_000
_DAY = 86_400
_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")


class NoImageError(HermesError):
    """The clipboard holds no image. The text says what to do instead."""


def readers(environ: Mapping[str, str], platform: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield command pairs: one lists the clipboard's types, the other prints the one named by `{type}`."""
    if environ.get("WAYLAND_DISPLAY"):
        yield ("wl-paste", "--list-types"), ("wl-paste", "--no-newline", "--type", "{type}")
    if environ.get("DISPLAY"):
        into = ("xclip", "-selection", "clipboard", "-o", "-t")
        yield (*into, "TARGETS"), (*into, "{type}")
    if platform == "darwin":
        yield (), ("pngpaste", "-")


async def clipboard_image(environ: Mapping[str, str], platform: str) -> bytes:
    """Return the bytes of the image in the clipboard. Raises `NoImageError`."""
    lacking: list[str] = []
    for listing, printing in readers(environ, platform):
        program = shutil.which(printing[0], path=environ.get("PATH"))
        if program is None:
            lacking.append(printing[0])
            continue
        kind = "image/png"
        if listing:
            held = (
                (await _command_output((program, *listing[1:]), environ)).decode("utf-8", "replace").split()
            )
            kind = next((each for each in _TYPES if each in held), "")
        data = await _command_output(
            (program, *(kind if part == "{type}" else part for part in printing[1:])), environ
        )
        if kind and data:
            return data
    raise NoImageError(_words(environ, lacking))


def _words(environ: Mapping[str, str], lacking: list[str]) -> str:
    if lacking:
        return f"The clipboard cannot be read: install {lacking[0]}, or drop the image on the prompt."
    if environ.get("SSH_CONNECTION") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return (
            "The clipboard is on your own machine: copy the image here (scp) and drop or name its path, "
            "or connect with ssh -X."
        )
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or lacking):
        where = " of tmux" if environ.get("TMUX") else ""
        return (
            f"No desktop is known here{where}, so there is no clipboard with images; drop one or use /attach."
        )
    return "There is no image in the clipboard; text is pasted by your terminal's own key."


async def _command_output(command: tuple[str, ...], environ: Mapping[str, str]) -> bytes:
    """Return the output of a program; empty if it fails, takes long or prints too much."""
    try:
        # In a new process session: such programs would otherwise read from our terminal.
        process = await start_child(command, env=environ, private=True)
    except OSError:
        return b""
    held = bytearray()
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            while piece := await process.stdout.read(1 << 16):
                held += piece
                if len(held) > LARGEST:
                    return b""
            return bytes(held) if await process.wait() == 0 else b""
    except TimeoutError:
        return b""
    finally:
        await kill_child(process)


async def keep(data: bytes, folder: Path) -> Path:
    """Save the image as a file that can be attached, resized to be sent; remove older ones. Raises
    `ToolError`.
    """
    from tools.senses.reading_apart import fit_apart

    return await asyncio.to_thread(_save_picture, await fit_apart(data), folder)


def _save_picture(picture: FitPicture, folder: Path) -> Path:
    from agent.core.home import private_folder

    private_folder(folder)
    yesterday = time.time() - _DAY
    for old in folder.iterdir():
        with suppress(OSError):
            if old.stat().st_mtime < yesterday:
                old.unlink()
    ending = ".png" if picture.media_type == "image/png" else ".jpg"
    path = folder / f"pasted-{hashlib.sha256(picture.data).hexdigest()[:8]}{ending}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(picture.data)
    return path
