"""A plain prompt loop over the event stream, for terminals without the full-screen application.

For screen readers (`hermes --reader`) text is only appended, states are words, choices are numbered, and each
turn ends with one sentence. Lines can be typed while a turn runs: they answer an open question; otherwise
they steer the turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent.api.opening import open_session
from agent.api.project_notes import drafting_instruction
from agent.core.home import Home
from agent.errors import ConfigError, HermesError
from agent.events import (
    Asked,
    AssistantMessageAdded,
    Event,
    ReplyCut,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from agent.model.providers import NoModelError
from app.cli.console import Console
from app.cli.frame import open_store, say
from app.cli.lines import call_line, spell_out
from app.cli.options import options_of
from app.tui.commands.registry import refuse_elsewhere
from app.tui.screens.models.first_model import begin_tour
from themes.states import glyph
from tools.command_name import as_called
from tools.text.safe_text import clean, printable
from tools.text.words import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from agent.api.session import SessionClient
    from agent.core.store.nodes import Node
    from app.tui.startup.fast_args import FastOptions

HELP = """Commands: /undo, /redo, /compact, /context: as in the application.
/resume: choose another session of this folder. /model NAME: continue with another model.
/set KEY VALUE: change a setting. /init: draft AGENTS.md.
/stop: stop the running turn, as ctrl+c does. /help: this text. /quit: leave."""
_LISTED = 20
ANNOUNCED_SECONDS = 2.0
"""Seconds after which a running call is announced; announcing short calls would repeat their results."""


class Reopening(NamedTuple):
    """The session to continue with after this one, and another model for it if one was named."""

    session: str
    model: str | None = None


class ReadingConsole(Console):
    """A console that reads input continuously, even when no question is open, and numbers all choices."""

    numbers = True

    def __init__(self) -> None:
        super().__init__()
        self.spare: Callable[[str], None] | None = None
        """Receives a line that no question waits for; if None, such a line is kept."""
        self._lines: deque[str | None] = deque()
        self._waiting: asyncio.Future[str | None] | None = None
        loop = asyncio.get_running_loop()

        def take() -> None:
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(self._receive_line, line.strip())
            loop.call_soon_threadsafe(self._receive_line, None)

        threading.Thread(target=take, daemon=True, name="lines").start()

    async def read(self, prompt: str) -> str | None:
        """Read one line, possibly typed before; return None at the end of input."""
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

    def _receive_line(self, line: str | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(line)
        elif line and self.spare is not None:
            self.spare(line)
        else:
            self._lines.append(line)


class TurnSentence:
    """A counter of a turn's calls, for the sentence at its end."""

    def __init__(self) -> None:
        self._calls: list[str] = []

    def handle(self, event: Event) -> str:
        """Return the sentence when the turn of the main agent ends; else ""."""
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
    """Run a slash command of the plain loop; return its answer, or what to reopen; None for other text.

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
    said = [f"{key} is {value.strip()} from the next session on."]
    change_setting(Home.locate(), key, value.strip(), said)
    return " ".join(said)


async def _choose_session(console: ReadingConsole, workspace: Path) -> Reopening:
    store = await open_store(Home.locate())
    try:
        found = await store.list_sessions(_LISTED, workspace=str(workspace), said=True)
    finally:
        await store.close()
    for number, each in enumerate(found, 1):
        console.say(f"  {number}. {each.title or each.id}")
    text = await console.read("Number of the session, empty leaves:") or ""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(found):
        return Reopening(found[int(text) - 1].id)
    raise HermesError("No session was chosen; this one continues.")


def run(args: FastOptions | argparse.Namespace) -> int:
    """Send messages from stdin until the end of input; return the exit code."""
    return asyncio.run(_loop(args))


async def _loop(args: FastOptions | argparse.Namespace) -> int:
    console = ReadingConsole() if args.reader else Console()
    code, more = await _session(args, console, None)
    while more is not None:
        code, more = await _session(args, console, more)
    return code


async def _session(
    args: FastOptions | argparse.Namespace, console: Console, more: Reopening | None
) -> tuple[int, Reopening | None]:
    """Run the loop in one session; return the exit code, and what to continue with. Raises `HermesError`."""
    model = more and more.model
    view = LoopView(console)
    while True:
        options = options_of(args, attended=True, surface="plain", model=model)
        if more is not None:
            options = replace(options, resume=more.session, resume_last=False)
        try:
            client = await open_session(options, view)
            break
        except HermesError as error:
            if more is not None and model is not None:
                say(str(error), sys.stderr)
                model = None
                continue
            if not isinstance(error, NoModelError):
                raise
            print(error)
            choice = await console.read("\nTry the scripted demo model now? [y/N] ")
            if (choice or "").lower() not in ("y", "yes"):
                return int(error.exit_code), None
            model = "demo"
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, client.interrupt)
    say(f"hermes · {client.model} · {client.workspace}")
    print("Type a message; ctrl+c stops a turn; ctrl+d or /quit leaves.\n")
    reader = console if isinstance(console, ReadingConsole) else None
    if reader is not None:
        print("A line that you type during a turn is told to the agent; /help lists commands.\n")
    if more is None or more.model is None:
        for line in _last_exchange(client.path, "❯ " if reader is None else "You said: "):
            say(f"{line}\n")
    if (args.demo or model is not None) and more is None:
        begin_tour(client)
        await client.idle()
    try:
        while (text := await console.read("❯ ")) is not None:
            if text in ("/quit", "/exit"):
                break
            try:
                said = None if reader is None else await run_command(text, client, reader)
                if isinstance(said, Reopening):
                    return 0, said
                if said is not None:
                    say(said)
                    continue
                if reader is not None:
                    reader.spare = partial(_steer, client, reader)
                if text == "/init":
                    text = await asyncio.to_thread(drafting_instruction, client.workspace)
                if refused := refuse_elsewhere(text, f"with --{'plain' if reader is None else 'reader'}"):
                    say(refused, sys.stderr)
                elif text and await client.plugins.run_called(text) is None:
                    await client.run(text)
            except HermesError as error:
                say(str(error), sys.stderr)
            finally:
                if reader is not None:
                    reader.spare = None
    finally:
        with contextlib.suppress(ConfigError, HermesError):
            await client.aclose()
    print()
    return 0, None


def _last_exchange(path: Sequence[Node], prompt: str) -> list[str]:
    """Return the last user message of a continued session and its answer, as lines to print."""
    answer = ""
    for node in reversed(path):
        if node.kind == "user" and node.data.get("origin") != "engine":
            return [f"{prompt}{clean(node.content)}", *filter(None, [clean(answer)])]
        answer = answer or (node.content if node.kind == "assistant" else "")
    return []


def _steer(client: SessionClient, console: Console, text: str) -> None:
    if text == "/stop":
        client.interrupt()
        return
    client.steer(text)
    console.say("┊ the agent is told with its next request")


class LoopView:
    """A view that writes the answer to stdout as it arrives, and other events to stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False
        self._streamed = False
        self._announced: dict[str, asyncio.TimerHandle] = {}
        """Timers that will announce running calls, by their ids."""
        self._turn = TurnSentence() if isinstance(console, ReadingConsole) else None

    def __call__(self, event: Event) -> None:
        ending = self._turn.handle(event) if self._turn is not None else ""
        if isinstance(event, Asked):
            self._end_line()
            self._announce_nothing()  # the question says what the call does
        if self._console.handle(event) or event.agent != "main":
            # Subagents' words and calls are left out; their results are shown.
            return
        match event:
            case TextAdded():
                print(printable(event.text), end="", flush=True)
                self._open_line = not event.text.endswith("\n")
                self._streamed = True
            case AssistantMessageAdded():
                if event.text and not self._streamed:
                    self._line(event.text)
                self._streamed = False
                self._end_line()
            case ToolStarted(parent=""):
                said = f"{glyph('working')} {event.display.activity()}"
                loop = asyncio.get_running_loop()
                self._announced[event.call] = loop.call_later(ANNOUNCED_SECONDS, self._line, said)
            case ToolFinished():
                if (announced := self._announced.pop(event.call, None)) is not None:
                    announced.cancel()
                self._line(call_line(event))
            case TodosChanged():
                for item in event.items:
                    self._line(f"  {glyph(item.status)} {item.content}")
            case ReplyCut():
                self._line("┊ The answer was cut off.")
            case TurnEnded():
                self._announce_nothing()
                self._end_line()
                if event.error or event.outcome == "interrupted":
                    self._console.say(f"{glyph(event.outcome)} {event.error or 'Stopped.'}")
                if ending:
                    print(ending)
                print()
            case _ if said := event.notice():
                self._line(as_called(f"┊ {said[1]}"))

    def _announce_nothing(self) -> None:
        for announced in self._announced.values():
            announced.cancel()
        self._announced.clear()

    def _line(self, text: str) -> None:
        self._end_line()
        if prompt := self._console.prompt:
            print()
        print(clean(spell_out(text) if self._turn is not None else text), flush=True)
        if prompt:
            # The cursor stays behind what is asked.
            print(prompt, end="", file=sys.stderr, flush=True)

    def _end_line(self) -> None:
        if self._open_line:
            print(flush=True)
            self._open_line = False
