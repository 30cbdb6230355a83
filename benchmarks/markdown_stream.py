"""CPU of showing streamed markdown on a real terminal: the transcript against Textual's `Markdown`.

Each runs in a process of its own and takes the same answer in the same pieces, one every 1/30 s. Textual's
widget takes them in two ways: through its `MarkdownStream`, which takes several pieces at once when it falls
behind and so shows them later, and each by `append`, which shows every piece as the transcript does. What
the process spends while nothing comes is taken off; a run counts only if as much was painted as the answer
is long, and its last words were. Beside it a long answer in the transcript: the CPU of its second half
against its first, which is 1 if nothing grows with the answer.

    python benchmarks/markdown_stream.py [--tokens 5000] [--long 20000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.driver import Driver
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Markdown

from app.tui.terminal.tty_output import driver_with_output, driver_with_writer
from tests.support import command
from tests.support.terminal import Terminal
from widgets.background import Background
from widgets.transcript.markdown import prepare
from widgets.transcript.view import Transcript

KINDS = ("transcript", "stream", "append")
FRAME = 1 / 30
FRAME_TOKENS = 33
"""Tokens that come in between two frames: 1,000 a second at 30 frames a second."""
TOKEN_CHARS = 4
LAST = "These-are-the-very-last-words."
FIRST_TOKENS = 500
"""Tokens of an answer before the one that is measured: what is read and compiled once counts for neither."""
IDLE = 2.0
"""Seconds over which the CPU without a stream is taken."""
SHOWN = 0.6
"""Share of an answer's characters that must be painted at least: the rest are its marks and its addresses."""
WORDS = ["amounts", "totals", "digits", "rates", "ledgers", "parsers", "queues", "caches", "tables", "tokens"]
CODES = ["JPY", "EUR", "KWD", "CHF", "BHD", "CLP", "ISK", "TND", "USD", "KRW"]
SECTION = """\
## {number}. Rounding of {thing}

The {other} of part {number} are off because `{thing}.round()` formats with **two digits** for every currency,
also for those that have *none*. See [the table of {thing}](https://example.org/{thing}/{number}) and the
callers in `api/{other}_{number}.py`.

1. Reproduce it with a failing test of {thing}
2. Use `Decimal` and the {other} of the currency
   - the yen has none
   - the dinar has three of {number}

```python
def round_{thing}_{number}(amount: Decimal, currency: str) -> Decimal:
    exponent = Decimal({number}).scaleb(-DIGITS[currency])  # {other}: 0.01 for the euro
    return amount.quantize(exponent, ROUND_HALF_EVEN)
```

| Currency | Digits | {thing} |
|:---------|-------:|------|
| {first}      |      {number} | none |
| {second}      |      2 | cent |

> Money is never a float, and {thing} number {number} is no {other}.

"""


def section(number: int) -> str:
    """A section of an answer; no two are alike, so that nothing drawn for one serves another."""
    thing, other = WORDS[number % len(WORDS)], WORDS[number // 7 % len(WORDS)]
    first, second = CODES[number % len(CODES)], CODES[number // 3 % len(CODES)]
    return SECTION.format(number=number, thing=thing, other=other, first=first, second=second)


class Spent(NamedTuple):
    """Seconds of CPU for the two halves of an answer, and seconds from its first piece to its end."""

    first: float
    second: float
    took: float

    @property
    def cpu(self) -> float:
        return self.first + self.second


def answer(tokens: int) -> list[str]:
    """An answer of about that many tokens, of whole sections, in the pieces of its frames."""
    size = FRAME_TOKENS * TOKEN_CHARS
    text = "".join(map(section, range(max(round(tokens * TOKEN_CHARS / len(section(0))), 1))))
    return [*(text[at : at + size] for at in range(0, len(text), size)), f"{LAST}\n\n"]


class Stage(Screen[None]):
    """A screen that draws itself as that of a session does, for either widget."""

    def __init__(self) -> None:
        super().__init__()
        self._ground = Background(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        return self._ground.rows(crop)


class Streamer(App[Spent]):
    """Shows an answer as it comes in, in one of the ways, and exits with what that took."""

    def __init__(self, kind: str, tokens: int) -> None:
        super().__init__()
        self.kind, self.pieces = kind, answer(tokens)
        self.transcript, self.markdown = Transcript(), Markdown()

    def get_default_screen(self) -> Screen[None]:
        return Stage()

    def get_driver_class(self) -> type[Driver]:
        def hear(write: Callable[[str], None]) -> None:
            self.transcript.direct.write = write

        return driver_with_writer(
            driver_with_output(super().get_driver_class(), self.exit, self.draw_anew), hear
        )

    def draw_anew(self) -> None:
        self.refresh()

    def compose(self) -> ComposeResult:
        if self.kind == "transcript":
            yield self.transcript
        else:
            with VerticalScroll() as body:
                yield self.markdown
            body.anchor()

    def on_ready(self) -> None:
        self.run_worker(self.measure)

    async def measure(self) -> None:
        await asyncio.sleep(1.0)
        prepare()  # for both alike: what is compiled is kept by its text
        await self.show(answer(FIRST_TOKENS))
        start = time.process_time()
        await asyncio.sleep(IDLE)
        idle = (time.process_time() - start) / IDLE
        began, half = time.monotonic(), len(self.pieces) // 2
        first = await self.show(self.pieces[:half])
        middle = time.monotonic()
        second = await self.show(self.pieces[half:])
        end = time.monotonic()
        self.exit(Spent(first - idle * (middle - began), second - idle * (end - middle), end - began))

    async def show(self, pieces: list[str]) -> float:
        """Seconds of CPU until these pieces are on the screen."""
        start, due = time.process_time(), time.monotonic()
        stream = Markdown.get_stream(self.markdown) if self.kind == "stream" else None
        for piece in pieces:
            if stream is not None:
                await stream.write(piece)
            elif self.kind == "append":
                await self.markdown.append(piece)
            else:
                self.transcript.add_text(piece)
            due += FRAME
            await asyncio.sleep(max(due - time.monotonic(), 0))
        if stream is not None:
            await stream.stop()
        await asyncio.sleep(3 * FRAME)
        return time.process_time() - start


def run(kind: str, tokens: int) -> Spent:
    """What an answer took, shown in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name) / "result"
        script = str(Path(__file__).resolve())
        options = ["--kind", kind, "--tokens", str(tokens), "--into", str(result)]
        env = command.environment(Path(name) / "home")
        with Terminal([sys.executable, script, *options], env, Path(name)) as terminal:
            terminal.drain()
        least = sum(map(len, answer(tokens))) * SHOWN
        if len(terminal.painted) < least or LAST.encode() not in terminal.painted:
            raise SystemExit(
                f"{kind}: only {len(terminal.painted):,} bytes were painted; that shows nothing."
            )
        return Spent(*json.loads(result.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--tokens", type=int, default=5_000)
    parser.add_argument("--long", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        options.into.write_text(json.dumps(Streamer(options.kind, options.tokens).run()))
        return
    median = statistics.median
    # Minutes each, and far beyond any doubt: once is enough.
    rounds = {"transcript": options.rounds, "stream": options.rounds, "append": 1}
    runs = {kind: [run(kind, options.tokens) for _ in range(rounds[kind])] for kind in KINDS}
    ours = median(spent.cpu for spent in runs["transcript"])
    for kind in KINDS:
        cpu, took = median(spent.cpu for spent in runs[kind]), median(spent.took for spent in runs[kind])
        print(
            f"{kind:10}  {options.tokens:,} tokens: {cpu:6.2f} s CPU over {took:5.1f} s, {cpu / ours:5.1f} x",
            flush=True,
        )
    if options.long:
        growth = [run("transcript", options.long) for _ in range(options.rounds)]
        share = median(spent.second / spent.first for spent in growth)
        cpu = median(spent.cpu for spent in growth)
        print(f"transcript  {options.long:,} tokens: {cpu:.2f} s CPU, second half / first half {share:.2f}")


if __name__ == "__main__":
    main()
