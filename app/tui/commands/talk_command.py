"""The command for dictation: records until it is called again, transcribes, and inserts the text at the
cursor.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from agent.integrations.senses.hearing import Recording
    from app.tui.app_context import AppContext


_under_way: WeakKeyDictionary[object, asyncio.Event] = WeakKeyDictionary()
"""By application: an event that ends its recording when set."""


async def _talk(app: AppContext, _nothing: str) -> None:
    """Start or end the recording. The transcript is put into the prompt; nothing is sent."""
    if (running := _under_way.get(app)) is not None:
        running.set()
        return
    enough = _under_way[app] = asyncio.Event()
    try:
        text = await _dictate(app, enough)
    finally:
        del _under_way[app]
    if text:
        app.session.prompt.insert(text)
    else:
        app.say("No words were heard.")


async def _dictate(app: AppContext, enough: asyncio.Event) -> str:
    from agent.core.home import Home
    from agent.session.wiring.outside_services import begin_dictation

    environ = dict(os.environ)
    workspace = app.message_sender.workspace
    dictation = await asyncio.to_thread(begin_dictation, Home.locate(environ), environ, workspace)
    try:
        sound = await _record(app, dictation.recording, enough)
        app.say("Writing down what you said …")
        return await dictation.transcribe(sound)
    finally:
        await dictation.aclose()


async def _record(app: AppContext, recording: Recording, enough: asyncio.Event) -> bytes:
    """Return the sound recorded until the person stops, or the recorder ends."""
    await recording.start()
    try:
        key = app.keys.label("prompt.talk") or "/talk"
        app.say(f"Recording: speak, then {key} again.", timeout=3_600)
        ends = [asyncio.ensure_future(enough.wait()), asyncio.ensure_future(recording.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
        return await recording.finish()
    finally:
        app.clear_notifications()


COMMAND = AppCommand(
    id="prompt.talk",
    group="Turn",
    name="Speak to the prompt",
    description="Record what you say; again: end it and put it into the prompt as text. Nothing is sent.",
    action=_talk,
    keys=("alt+v",),
    slash="talk",
)
