"""A plain prompt loop over the same events, for a terminal without the full-screen application."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from agent.errors import ConfigError, HermesError
from agent.events import (
    Asked,
    AssistantMessageAdded,
    Event,
    Noticed,
    ReplyCut,
    RetryScheduled,
    TextAdded,
    TodosChanged,
    ToolFinished,
    TurnEnded,
)
from agent.model.providers import NoModelError
from agent.runtime import open_engine
from app.cli.console import Console
from app.cli.lines import call_line
from app.cli.options import options_of
from app.cli.output import say
from app.glance import Options
from tools.text import clean, printable

TODO_GLYPHS = {"pending": "○", "in_progress": "▶", "completed": "✓", "cancelled": "✗"}


def run(args: Options | argparse.Namespace) -> int:
    """Read messages until the end of input; returns the exit code."""
    return asyncio.run(_loop(args))


async def _loop(args: Options | argparse.Namespace) -> int:
    console = Console()
    model: str | None = None
    view = LoopView(console)
    while True:
        try:
            engine = await open_engine(options_of(args, attended=True, surface="plain", model=model), view)
            break
        except NoModelError as error:
            print(error)
            choice = await console.read("\nTry the scripted demo model now? [y/N] ")
            if (choice or "").lower() not in ("y", "yes"):
                return int(error.exit_code)
            model = "demo"
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, engine.interrupt)
    say(f"hermes · {engine.model} · {engine.session.record.workspace}")
    print("Type a message; ctrl+c stops a turn; ctrl+d or /quit leaves.\n")
    try:
        while (text := await console.read("❯ ")) is not None:
            if text in ("/quit", "/exit"):
                break
            if text:
                await engine.run(text)
    finally:
        with contextlib.suppress(ConfigError, HermesError):
            await engine.aclose()
    print()
    return 0


class LoopView:
    """Writes the stream to stdout as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False
        self._streamed = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Asked):
            self._end_line()
        if self._console.hear(event) or event.agent != "main":
            # What agents it sends do and say is not its own; their results are.
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
            case ToolFinished():
                self._line(call_line(event))
            case TodosChanged():
                for item in event.items:
                    self._line(f"  {TODO_GLYPHS[item.status]} {item.content}")
            case Noticed():
                self._line(f"┊ {event.text}")
            case RetryScheduled():
                self._line(f"┊ {event.reason} Trying again in {event.delay:.1f} s ({event.model}).")
            case ReplyCut():
                self._line(f"┊ The answer was cut off: {event.reason}")
            case TurnEnded():
                self._end_line()
                if event.error or event.outcome == "interrupted":
                    say(f"■ {event.error or 'Stopped.'}", sys.stderr)
                print()

    def _line(self, text: str) -> None:
        self._end_line()
        print(clean(text), flush=True)

    def _end_line(self) -> None:
        if self._open_line:
            print(flush=True)
            self._open_line = False
