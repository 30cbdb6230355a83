"""Pasting an image of the clipboard into the message that is being written."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Protocol

from app.commands.command_kind import AppCommand

if TYPE_CHECKING:
    from app.conversation.session_screen import SessionScreenPort
    from app.ports import NoticePort, SendingPort

    class PastePorts(NoticePort, SendingPort, SessionScreenPort, Protocol):
        """What pasting asks of the application."""


async def _paste(app: PastePorts, _nothing: str) -> None:
    from agent.api.home import Home
    from app.conversation.attachments import look
    from app.conversation.clipboard_images import NoImageError, clipboard_image, keep
    from tools.results import ToolError

    environ = dict(os.environ)
    try:
        data = await clipboard_image(environ, sys.platform)
        path = await asyncio.to_thread(keep, data, Home.locate(environ).scratch / "pasted")
    except (NoImageError, ToolError) as error:
        app.complain(str(error))
        return
    files = await asyncio.to_thread(look, [[str(path)]], app.message_sender.workspace)
    app.session.prompt.insert_files(files or ())


COMMAND = AppCommand(
    id="prompt.paste_image",
    group="Turn",
    name="Paste an image",
    description="Send the image of the clipboard with the message; text is pasted by the terminal's own key.",
    action=_paste,
    keys=("ctrl+v",),
    slash="paste",
)
