"""`hermes --reader`: the plain prompt for screen readers.

Text is only appended, states are words, choices are numbered, and each turn ends with one sentence. Lines are
read while a turn runs: they answer an open question, else they steer the turn.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent.core.home import Home
from agent.errors import ConfigError, HermesError
from agent.events import Event, ToolFinished, TurnEnded
from app.cli.console import Console
from app.cli.frame import open_store, say
from app.cli.lines import spell_out
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.api.session import SessionClient

HELP = """Commands: /undo, /redo, /compact, /context: as in the application.
/resume: choose another session of this folder. /model NAME: continue with another model.
/set KEY VALUE: change a setting. /init: draft AGENTS.md.
/stop: stop the running turn, as ctrl+c does. /help: this text. /quit: leave."""
_LISTED = 20


class Reopening(NamedTuple):
    """What to continue with: a session, and another model for it if one was named."""

    session: str
    model: str | None = None


class ReadingConsole(Console):
    """A console that reads lines at any time and numbers all choices."""

    numbers = True

    def __init__(self) -> None:
        super().__init__()
        self.spare: Callable[[str], None] | None = None
        """Takes a line that nobody waits for; without it, the line waits."""
        self._lines: deque[str | None] = deque()
        self._waiting: asyncio.Future[str | None] | None = None
        loop = asyncio.get_running_loop()

        def take() -> None:
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(self._hear, line.strip())
            loop.call_soon_threadsafe(self._hear, None)

        threading.Thread(target=take, daemon=True, name="lines").start()

    async def read(self, prompt: str) -> str | None:
        """Read one line; return None at the end of input."""
        prompt = f"{spell_out(prompt.strip())} "
        print(prompt, end="", file=sys.stderr, flush=True)
        if self._lines:
            return self._lines.popleft()
        self._waiting, self.prompt = asyncio.get_running_loop().create_future(), prompt
        try:
            return await self._waiting
        finally:
            self.prompt = ""

    def say(self, text: str) -> None:
        """Write lines on stderr, with states in words."""
        say(spell_out(text), sys.stderr)

    def _hear(self, line: str | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(line)
        elif line and self.spare is not None:
            self.spare(line)
        else:
            self._lines.append(line)


class TurnSentence:
    """Counts the calls of a turn, for the sentence at its end."""

    def __init__(self) -> None:
        self._calls: list[str] = []

    def hear(self, event: Event) -> str:
        """Return the sentence when the turn of the main agent ends; else an empty text."""
        if event.agent == "main" and isinstance(event, ToolFinished):
            self._calls.append(event.outcome)
        if event.agent != "main" or not isinstance(event, TurnEnded):
            return ""
        wrong = [
            f"{self._calls.count(each)} {each}"
            for each in ("failed", "denied")
            if each in self._calls and each != event.outcome
        ]
        calls = f" after {plural(len(self._calls), 'call')}" if self._calls else ""
        self._calls.clear()
        among = f", {' and '.join(wrong)}" if wrong else ""
        return f"The turn ended: {event.outcome}{calls}{among}."


async def run_command(text: str, client: SessionClient, console: ReadingConsole) -> str | Reopening | None:
    """Carry out a command of the reader; return its answer, None if `text` is no such command.

    Raises `HermesError`.
    """
    from app.editor.commands import COMMANDS

    name, _, words = text.removeprefix("/").partition(" ")
    if not text.startswith("/"):
        return None
    if name == "help":
        return HELP
    if name == "stop":
        return "There is no turn to stop."
    if name == "set":
        return await asyncio.to_thread(_change, words)
    if name == "model":
        model = words.strip()
        return Reopening(client.id, model) if model else f"The model is {client.model}."
    if name == "resume":
        return await _choose_session(console, client.workspace)
    command = COMMANDS.get(name)
    if command is None or command.asks:
        return None
    return await command.act(client, words)


def _change(words: str) -> str:
    from agent.api.known_names import change_setting

    key, _, value = words.strip().partition(" ")
    if not key or not value.strip():
        raise ConfigError("Write it as /set KEY VALUE, such as /set display.skin paper.")
    change_setting(Home.locate(), key, value.strip())
    return f"{key} is {value.strip()} from the next session on."


async def _choose_session(console: ReadingConsole, workspace: Path) -> Reopening:
    store = await open_store(Home.locate())
    try:
        found = await store.list_sessions(_LISTED, workspace=str(workspace))
    finally:
        await store.close()
    for number, each in enumerate(found, 1):
        console.say(f"  {number}. {each.title or each.id}")
    text = await console.read("Number of the session, empty leaves:") or ""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(found):
        return Reopening(found[int(text) - 1].id)
    raise HermesError("No session was chosen; this one continues.")
