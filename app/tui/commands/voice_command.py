"""The command that reads answers aloud while they are written."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.events import AssistantMessageAdded, Event, TextAdded, TurnEnded, TurnStarted
from app.tui.commands.registry import AppCommand
from tools.senses.spoken import SentenceStream

if TYPE_CHECKING:
    from agent.integrations.senses.speaking import ReadingAloud
    from app.tui.app_context import AppContext


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


async def _voice(app: AppContext, wanted: str) -> None:
    """Switch reading aloud on or off; without a word, toggle it."""
    known = next((each for each in app.bridge.listeners if isinstance(each, AnswersAloud)), None)
    wanted = wanted.strip().lower() or ("on" if known is None else "off")
    if wanted not in ("on", "off"):
        app.complain("/voice takes on or off.")
        return
    if wanted == "off":
        if known is not None:
            app.bridge.listeners.remove(known)
            await known.reading.close()
        app.say("Answers are no longer read aloud.")
        return
    if known is not None:
        app.say("Answers are read aloud already; /voice off ends that.")
        return
    plays, problem = await asyncio.to_thread(_ready, app)
    if problem:
        raise HermesError(problem)
    from agent.integrations.senses.speaking import ReadingAloud

    reading = ReadingAloud(plays, os.environ.get("PATH", ""), app.complain)
    app.bridge.listeners.subscribe(AnswersAloud(reading), *AnswersAloud.HEARD)
    app.say("Answers are read aloud; /voice off ends that.")


def _ready(app: AppContext) -> tuple[tuple[str, ...], str]:
    """Return the command that plays sound, or the reason why nothing can be read. Reads the settings."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.integrations.senses.speaking import missing, player

    environ = dict(os.environ)
    own = load(Home.locate(environ), environ, app.message_sender.workspace).settings.speech.player
    if problem := missing(own, environ):
        return (), problem
    return player(own, environ.get("PATH", "")), ""


COMMAND = AppCommand(
    id="session.voice",
    group="Conversation",
    name="Read answers aloud",
    description="Read answers aloud on this machine while they are written, code left out; again: no longer.",
    action=_voice,
    slash="voice",
    argument_hint="[on|off]",
)
