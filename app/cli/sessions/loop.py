"""A plain prompt loop over the event stream, for terminals without the full-screen application."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from agent.api.opening import open_session
from agent.api.project_notes import drafting_instruction
from agent.errors import ConfigError, HermesError
from agent.events import (
    Asked,
    AssistantMessageAdded,
    Event,
    ReplyCut,
    TextAdded,
    TodosChanged,
    ToolFinished,
    TurnEnded,
)
from agent.model.providers import NoModelError
from app.cli.console import Console
from app.cli.frame import say
from app.cli.lines import call_line
from app.cli.options import options_of
from app.tui.commands.registry import refuse_elsewhere
from app.tui.screens.models.first_model import begin_tour
from app.tui.startup.fast_args import FastOptions
from themes.states import glyph
from tools.text.safe_text import clean, printable


def run(args: FastOptions | argparse.Namespace) -> int:
    """Read messages until the end of input; returns the exit code."""
    return asyncio.run(_loop(args))


async def _loop(args: FastOptions | argparse.Namespace) -> int:
    console = Console()
    model: str | None = None
    view = LoopView(console)
    while True:
        try:
            client = await open_session(options_of(args, attended=True, surface="plain", model=model), view)
            break
        except NoModelError as error:
            print(error)
            choice = await console.read("\nTry the scripted demo model now? [y/N] ")
            if (choice or "").lower() not in ("y", "yes"):
                return int(error.exit_code)
            model = "demo"
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, client.interrupt)
    say(f"hermes · {client.model} · {client.workspace}")
    print("Type a message; ctrl+c stops a turn; ctrl+d or /quit leaves.\n")
    if args.demo or model is not None:
        begin_tour(client)
        await client.idle()
    try:
        while (text := await console.read("❯ ")) is not None:
            if text in ("/quit", "/exit"):
                break
            try:
                if text == "/init":
                    text = await asyncio.to_thread(drafting_instruction, client.workspace)
                if refused := refuse_elsewhere(text, "with --plain"):
                    say(refused, sys.stderr)
                elif text and await client.plugins.run_called(text) is None:
                    await client.run(text)
            except HermesError as error:
                say(str(error), sys.stderr)
    finally:
        with contextlib.suppress(ConfigError, HermesError):
            await client.aclose()
    print()
    return 0


class LoopView:
    """Writes the stream to stdout as it arrives."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line = False
        self._streamed = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Asked):
            self._end_line()
        if self._console.hear(event) or event.agent != "main":
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
            case ToolFinished():
                self._line(call_line(event))
            case TodosChanged():
                for item in event.items:
                    self._line(f"  {glyph(item.status)} {item.content}")
            case ReplyCut():
                self._line(f"┊ The answer was cut off: {event.reason}")
            case TurnEnded():
                self._end_line()
                if event.error or event.outcome == "interrupted":
                    say(f"{glyph('stopped')} {event.error or 'Stopped.'}", sys.stderr)
                print()
            case _ if said := event.notice():
                self._line(f"┊ {said[1]}")

    def _line(self, text: str) -> None:
        self._end_line()
        print(clean(text), flush=True)

    def _end_line(self) -> None:
        if self._open_line:
            print(flush=True)
            self._open_line = False
