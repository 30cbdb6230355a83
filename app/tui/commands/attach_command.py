"""The command that attaches an image to the message being written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _attach(app: AppContext, path: str) -> None:
    from app.tui.conversation.attachments import named_files

    files = await asyncio.to_thread(named_files, path, app.message_sender.workspace)
    app.session.prompt.insert_files(files)


COMMAND = AppCommand(
    id="prompt.attach",
    group="Turn",
    name="Attach an image",
    description="Send a png, jpeg, gif or webp with the message, like one dropped on the prompt.",
    action=_attach,
    slash="attach",
    argument_hint="<path>",
)
