"""Images and links of a conversation: reading them, and showing them in this terminal."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from app.tui.conversation.attachments import KEPT_IMAGE

if TYPE_CHECKING:
    from app.tui.app_context import AppContext
    from tools.senses.pictures import Form, Thumbnail
    from widgets.pictures.shelf import Load


def show_images(app: AppContext, wanted: str) -> None:
    """Draw the images of the session's conversation according to the setting and the terminal's abilities."""
    from app.tui.terminal.answers import sixel_cell
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
        pictures.renew()
        transcript.redraw()


def picture_loader(workspace: Callable[[], Path]) -> Load:
    """Return a function that reads images of the home, and files relative to the workspace; None if
    unreadable.
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
    """Return the bytes of an image; empty if it is not a file or too large. Never waits for a pipe."""
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
