"""The command that pastes an image of the clipboard into the message being written."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _paste(app: AppContext, _nothing: str) -> None:
    from agent.core.home import Home
    from app.tui.conversation.attachments import look
    from app.tui.conversation.clipboard_images import NoImageError, clipboard_image, keep
    from tools.results import ToolError

    environ = dict(os.environ)
    try:
        data = await _from_terminal(app) or await clipboard_image(environ, sys.platform)
        path = await keep(data, Home.locate(environ).scratch / "pasted")
    except (NoImageError, ToolError) as error:
        app.complain(str(error))
        return
    files = await asyncio.to_thread(look, [[str(path)]], app.message_sender.workspace)
    app.session.prompt.insert_files(files or ())


async def _from_terminal(app: AppContext) -> bytes | None:
    """Ask the terminal for its clipboard; return None if it does not offer that."""
    from app.tui.conversation.clipboard_images import LARGEST, NoImageError
    from app.tui.terminal.answers import ClipboardRefusedError, clipboard_of_terminal

    if app.direct_write is None:
        return None
    try:
        data = await clipboard_of_terminal(app.direct_write, app.answers, LARGEST)
    except ClipboardRefusedError as error:
        raise NoImageError(
            f"The terminal does not give access to its clipboard: {error}; drop the image on the prompt."
        ) from error
    if data == b"":
        raise NoImageError("There is no image in the clipboard; text is pasted by your terminal's own key.")
    return data


COMMAND = AppCommand(
    id="prompt.paste_image",
    group="Turn",
    name="Paste an image",
    description="Send the image of the clipboard with the message; text is pasted by the terminal's own key.",
    action=_paste,
    keys=("ctrl+v",),
    slash="paste",
)
