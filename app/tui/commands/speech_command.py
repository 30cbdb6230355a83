"""Commands for dictating into the prompt, and for reading answers aloud as they are written."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agent.errors import HermesError
from agent.events import AssistantMessageAdded, Event, TextAdded, TurnEnded, TurnStarted
from app.tui.commands.registry import read_commands
from tools.senses.spoken import SentenceStream

if TYPE_CHECKING:
    from agent.integrations.senses.hearing import Recording
    from agent.integrations.senses.speaking import ReadingAloud
    from app.tui.app_context import AppContext

_under_way: WeakKeyDictionary[object, asyncio.Event] = WeakKeyDictionary()
"""For each application that is recording, the event that ends its recording."""


async def talk(app: AppContext, _nothing: str) -> None:
    """Start or end the recording. The recognized text is inserted into the prompt; nothing is sent."""
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
        app.show_notice("No words were heard.")


async def _dictate(app: AppContext, enough: asyncio.Event) -> str:
    from agent.core.home import Home
    from agent.session.wiring.outside_services import begin_dictation

    environ = dict(os.environ)
    workspace = app.message_sender.workspace
    dictation = await asyncio.to_thread(begin_dictation, Home.locate(environ), environ, workspace)
    try:
        sound = await _record(app, dictation.recording, enough)
        app.show_notice("Writing down what you said …")
        return await dictation.transcribe(sound)
    finally:
        await dictation.aclose()


async def _record(app: AppContext, recording: Recording, enough: asyncio.Event) -> bytes:
    """Return the sound recorded until `enough` is set or the recorder ends."""
    await recording.start()
    try:
        key = app.keys.label("prompt.talk") or "/talk"
        app.show_notice(f"Recording: speak, then {key} again.", timeout=3_600)
        ends = [asyncio.ensure_future(enough.wait()), asyncio.ensure_future(recording.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
        return await recording.finish()
    finally:
        app.clear_notifications()


class AnswersAloud:
    """A listener of session events that speaks each sentence of the answer as soon as it is complete."""

    HEARD = (TurnStarted, TextAdded, AssistantMessageAdded, TurnEnded)

    def __init__(self, reading: ReadingAloud) -> None:
        self.reading = reading
        self._stream = SentenceStream()
        self._streamed = False

    def __call__(self, event: Event) -> None:
        if event.agent != "main":
            return
        match event:
            case TurnStarted():
                self.reading.hush()
                self._stream, self._streamed = SentenceStream(), False
            case TextAdded(text=text):
                self._streamed = True
                self.reading.read(self._stream.feed(text))
            case AssistantMessageAdded(text=text):
                if not self._streamed:
                    self.reading.read(self._stream.feed(text))
                self.reading.read(self._stream.end())
                self._streamed = False
            case TurnEnded(outcome="interrupted"):
                self.reading.hush()
            case _:
                pass


async def voice(app: AppContext, wanted: str) -> None:
    """Turn reading answers aloud on or off; without a word, toggle it. Raises `HermesError`."""
    known = next((each for each in app.bridge.listeners if isinstance(each, AnswersAloud)), None)
    wanted = wanted.strip().lower() or ("on" if known is None else "off")
    if wanted not in ("on", "off"):
        app.show_warning("/voice takes on or off.")
        return
    if wanted == "off":
        if known is not None:
            app.bridge.listeners.remove(known)
            await known.reading.close()
        app.show_notice("Answers are no longer read aloud.")
        return
    if known is not None:
        app.show_notice("Answers are read aloud already; /voice off ends that.")
        return
    plays, problem = await asyncio.to_thread(_ready, app)
    if problem:
        raise HermesError(problem)
    from agent.integrations.senses.speaking import ReadingAloud

    reading = ReadingAloud(plays, os.environ.get("PATH", ""), app.show_warning)
    app.bridge.listeners.subscribe(AnswersAloud(reading), *AnswersAloud.HEARD)
    app.show_notice("Answers are read aloud; /voice off ends that.")


def _ready(app: AppContext) -> tuple[tuple[str, ...], str]:
    """Return the command that plays sound, or an empty one and the problem. Reads the settings."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.integrations.senses.speaking import missing, player

    environ = dict(os.environ)
    own = load(Home.locate(environ), environ, app.message_sender.workspace).settings.speech.player
    if problem := missing(own, environ):
        return (), problem
    return player(own, environ.get("PATH", "")), ""


_TABLE = """\
Turn:
prompt.talk; Speak to the prompt; talk; alt+v; /talk
    Record what you say; again: end it and put it into the prompt as text. Nothing is sent.
Conversation:
session.voice; Read answers aloud; voice; ; /voice [on|off]
    Read answers aloud on this machine while they are written, code left out; again: no longer.
"""

COMMANDS = read_commands(_TABLE, talk, voice)
