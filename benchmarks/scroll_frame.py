"""CPU of a scroll by one line on a real terminal: the transcript, Textual's RichLog, Markdown widgets.

Each runs in a process of its own with the same conversation, scrolls a line every 50 ms and tells its CPU
per line; frames count only if as much was painted as their rows at least must have. The target is 4 ms.

    python benchmarks/scroll_frame.py [--frames 100] [--messages 1000] [--widgets 40]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.markdown import Markdown as RichMarkdown
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, RichLog

from benchmarks.markdown_stream import section
from tests.support import command
from tests.support.terminal import Terminal
from widgets.transcript.parts import AnswerItem
from widgets.transcript.view import Transcript

KINDS = ("transcript", "richlog", "markdown")
PAUSE = 0.05
LEAST = 200
"""Bytes a frame of this conversation paints at least."""


class Scroller(App[float]):
    """Shows a conversation in one kind of widget, scrolls up by lines, and exits with the CPU of a line."""

    def __init__(self, kind: str, frames: int, messages: int) -> None:
        super().__init__()
        self.kind, self.frames, self.messages = kind, frames, messages
        self.body: Widget = {"transcript": Transcript, "richlog": RichLog, "markdown": VerticalScroll}[kind]()

    def compose(self) -> ComposeResult:
        yield self.body

    def on_ready(self) -> None:
        self.run_worker(self.measure)

    async def measure(self) -> None:
        await self.fill()
        await asyncio.sleep(2.0)
        for _ in range(10):
            await self.step()
        start = time.process_time()
        for _ in range(self.frames):
            await self.step()
        spent = time.process_time() - start
        start = time.process_time()
        await asyncio.sleep(self.frames * PAUSE)
        self.exit((spent - (time.process_time() - start)) / self.frames)

    async def fill(self) -> None:
        body = self.body
        if isinstance(body, Transcript):
            body.load([AnswerItem(section(number), number) for number in range(self.messages)])
        elif isinstance(body, RichLog):
            for number in range(self.messages):
                body.write(RichMarkdown(section(number)))
        else:
            await body.mount_all(Markdown(section(number)) for number in range(self.messages))
        body.scroll_end(animate=False)

    async def step(self) -> None:
        if isinstance(self.body, Transcript):
            self.body.navigator.scroll(-1)
        else:
            self.body.scroll_relative(y=-1, animate=False)
        await asyncio.sleep(PAUSE)


def run(kind: str, frames: int, messages: int) -> tuple[float, float]:
    """Seconds of CPU of a frame, and bytes painted for it."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name) / "result"
        script = str(Path(__file__).resolve())
        options = [
            "--kind",
            kind,
            "--frames",
            str(frames),
            "--messages",
            str(messages),
            "--into",
            str(result),
        ]
        env = command.environment(Path(name) / "home")
        with Terminal([sys.executable, script, *options], env, Path(name)) as terminal:
            terminal.drain()
            painted = len(terminal.painted) / frames
        return float(json.loads(result.read_text())), painted


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--widgets", type=int, default=40, help="messages of the case with Markdown widgets")
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kind:
        args.into.write_text(json.dumps(Scroller(args.kind, args.frames, args.messages).run()))
        return
    ours = 0.0
    for kind in KINDS:
        count = args.widgets if kind == "markdown" else args.messages
        spent, painted = run(kind, args.frames, count)
        if painted < LEAST:
            raise SystemExit(f"{kind}: only {painted:.0f} bytes a line were painted; that measures nothing.")
        ours = ours or spent
        print(
            f"{kind:10}  {count:6,} messages  {spent * 1e3:6.2f} ms CPU a line  "
            f"{painted:7,.0f} bytes painted a line  {spent / ours:5.1f} x"
        )


if __name__ == "__main__":
    main()
