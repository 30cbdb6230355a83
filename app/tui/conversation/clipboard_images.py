"""Reading an image from the clipboard with programs for Wayland, X11 and macOS, and showing stored images."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent.errors import HermesError
from app.tui.conversation.attachments import KEPT_IMAGE
from tools.kit.children import kill_child, start_child

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from tools.senses.pictures import FitPicture, Form, Thumbnail
    from widgets.pictures.shelf import Load

SECONDS = 5.0
"""The time limit in seconds for one program."""
LARGEST = 50_000_000
_DAY = 86_400
_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")


class NoImageError(HermesError):
    """Raised if the clipboard holds no image or cannot be read. The text says what to do instead."""


def readers(environ: Mapping[str, str], platform: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield command pairs: one lists the clipboard's types, if needed; the other prints that in `{type}`."""
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
    """Return the output of a program; empty if it fails, exceeds `SECONDS` or prints too much."""
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
    """Scale an image for sending, save it in `folder`, and remove old files there; return its path. Raises
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


def show_images(app: AppContext, wanted: str) -> None:
    """Set how the conversation draws images, from the setting `wanted` and the terminal, and link its file
    paths; redraw if the way of drawing changed.
    """
    from app.tui.terminal.terminals import sixel_cell
    from widgets.pictures.shelf import Graphics, graphics_of

    if not app.session.panes_mounted:
        return
    transcript = app.session.transcript
    pictures = transcript.pictures
    pictures.load = picture_loader(lambda: app.message_sender.workspace)
    if "INSIDE_EMACS" not in os.environ:  # its terminal prints addresses
        host = platform.node()
        transcript.link_files(lambda: f"file://{host}{quote(str(app.message_sender.workspace))}/")
    pictures.write, pictures.backlog = app.direct_write, lambda: app.backlog
    shown = graphics_of(wanted, os.environ, app.console.color_system)
    may_have_sixel = wanted == "auto" and shown is Graphics.BLOCKS and app.console.color_system == "truecolor"
    if (write := app.direct_write) is not None and (may_have_sixel or shown is Graphics.SIXEL):
        pictures.probe, app.drawn = (lambda: sixel_cell(write, app.answers)), pictures.sixels.with_graphics
    else:
        pictures.probe = None
    if shown is not pictures.graphics:
        pictures.graphics = shown
        pictures.reload_all()
        transcript.redraw()


def picture_loader(workspace: Callable[[], Path]) -> Load:
    """Return a function that loads a thumbnail of an image stored in the home, or of a file whose path is
    relative to the workspace; it returns None if the image is unreadable.
    """

    async def load(
        source: str, columns: int, rows: int, form: Form, cell: tuple[int, int]
    ) -> Thumbnail | None:
        import asyncio

        from tools.results import ToolError
        from tools.senses.reading_apart import thumbnail

        data = await asyncio.to_thread(_bytes, source, workspace())
        try:
            return await thumbnail(data, columns, rows, form, cell) if data else None
        except ToolError:
            return None  # the conversation shows its name

    return load


def _bytes(source: str, workspace: Path) -> bytes:
    """Return the bytes of an image; empty if it is unreadable or too large. Does not block on pipes."""
    from agent.core.home import Home
    from tools.senses.pictures import LARGEST_FILE

    try:
        if source.startswith(KEPT_IMAGE):
            path = Home.locate().attachments / source.removeprefix(KEPT_IMAGE)
        else:
            path = workspace / Path(source).expanduser()
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            return file.read() if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_FILE else b""
    except (OSError, ValueError, RuntimeError):
        return b""
