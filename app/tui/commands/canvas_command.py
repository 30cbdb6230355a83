"""The command that opens the agent's canvas in the web browser."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from typing import TYPE_CHECKING

from agent.errors import HermesError
from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


async def _canvas(app: AppContext, name: str) -> None:
    from agent.core.home import Home
    from agent.core.store.stored_path import CANVAS, labelled
    from agent.knowledge.canvas.documents import CanvasDocuments
    from tools.services.canvases import canvases_of

    client = app.need_client()
    found = canvases_of(node.content for node in labelled(client.path, CANVAS))
    if not found:
        raise HermesError("Nothing is shown on a canvas in this conversation.")
    names = [each.name for each in found]
    if name and name not in names:
        raise HermesError(f"There is no canvas {name}; there are {', '.join(names)}.")
    canvas = found[names.index(name)] if name else found[-1]
    last = canvas.versions[-1]
    documents = CanvasDocuments(Home.locate().canvas)
    path = await asyncio.to_thread(documents.exported, client.id, last.sha256, last.title)
    if path is None:
        raise HermesError("What this canvas shows is no longer there.")
    # Without a graphical display, a text browser would take over the terminal.
    screen = sys.platform == "darwin" or any(os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY"))
    opened = screen and await asyncio.to_thread(webbrowser.open, path.as_uri())
    app.say(f"{last.title}: {'opened' if opened else 'open'} {path.as_uri()}", timeout=30)


COMMAND = AppCommand(
    id="session.canvas",
    group="Conversation",
    name="Open canvas",
    description="What the agent shows, in the web browser: the newest, or the one named.",
    action=_canvas,
    slash="canvas",
    argument_hint="[name]",
)
