"""CPU of drawing streamed markdown: our blocks against Textual's `Markdown` widget, in the same run.

Both take the same answer in the same pieces, one piece a frame. Ours cuts it into
blocks, draws each once when it closes and the open one with each piece; it makes
rows and no widget, so the ratio says what parsing and drawing save, not what a
whole screen costs. Prints milliseconds of CPU per 1,000 tokens, the ratio, and for
a long answer the CPU of its second half against its first, which is 1 if it is flat.

    python -m benchmarks.markdown_stream [--tokens 1000] [--long 20000] [--rounds 3] [--width 80]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from time import process_time

from textual.app import App, ComposeResult
from textual.widgets import Markdown

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.blocks import Splitter
from widgets.transcript.code import FenceRenderer
from widgets.transcript.markdown import render

FRAME_TOKENS = 33
"""Tokens that come in between two frames: 1,000 a second at 30 frames a second."""
TOKEN_CHARS = 4
SECTION = """\
## Rounding of amounts

The totals are off because `money.round()` formats with **two digits** for every currency, also for those
that have *none*. See [the table of digits](https://example.org/digits) and the callers in `api/views.py`.

1. Reproduce it with a failing test
2. Use `Decimal` and the digits of the currency
   - the yen has none
   - the dinar has three

```python
def round_amount(amount: Decimal, currency: str) -> Decimal:
    exponent = Decimal(1).scaleb(-DIGITS[currency])  # 0.01 for the euro
    return amount.quantize(exponent, ROUND_HALF_EVEN)
```

| Currency | Digits | Note |
|:---------|-------:|------|
| JPY      |      0 | none |
| EUR      |      2 | cent |

> Money is never a float.

"""


def answer(tokens: int) -> list[str]:
    """An answer of that many tokens, in the pieces of its frames."""
    size = FRAME_TOKENS * TOKEN_CHARS
    text = (SECTION * (tokens * TOKEN_CHARS // len(SECTION) + 1))[: tokens * TOKEN_CHARS]
    return [text[at : at + size] for at in range(0, len(text), size)]


class Drawing:
    """What a view of the stream does with each piece."""

    def __init__(self, width: int) -> None:
        self._palette = Palette(Skin())
        self._width = width
        self._splitter = Splitter()
        self._fence: FenceRenderer | None = None
        self._lines = 0

    def feed(self, piece: str) -> int:
        """Draw what the piece changes. Returns the number of rows drawn."""
        closed = self._splitter.feed(piece)
        rows = sum(len(render(block, self._width, self._palette)) for block in closed)
        tail = self._splitter.tail()
        if closed or tail is None or tail.kind != "fence":
            self._fence, self._lines = None, 0
        if tail is None:
            return rows
        if tail.kind != "fence":
            return rows + len(render(tail, self._width, self._palette))
        if self._fence is None:
            self._fence = FenceRenderer(tail.info, self._palette, self._width)
        lines = self._splitter.open_code(self._lines)
        self._lines += len(lines)
        return rows + len(self._fence.feed_lines(lines))


def ours(pieces: list[str], width: int) -> list[float]:
    """Seconds of CPU of each piece."""
    drawing = Drawing(width)
    spent: list[float] = []
    for piece in pieces:
        start = process_time()
        drawing.feed(piece)
        spent.append(process_time() - start)
    return spent


class Host(App[None]):
    """Nothing but the widget."""

    def compose(self) -> ComposeResult:
        yield Markdown()


async def theirs(pieces: list[str], width: int) -> float:
    """Seconds of CPU for the whole answer."""
    app = Host()
    async with app.run_test(size=(width, 24)) as pilot:
        widget = app.query_one(Markdown)
        await pilot.pause()
        start = process_time()
        for piece in pieces:
            await widget.append(piece)
        await pilot.pause()
        return process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000)
    parser.add_argument("--long", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, default=80)
    options = parser.parse_args()
    short, long = answer(options.tokens), answer(options.long)
    ours(short, options.width)  # lexers and parser are loaded once
    per_thousand = 1_000_000 / options.tokens
    mine, others, growth = [], [], []
    for _ in range(options.rounds):
        mine.append(sum(ours(short, options.width)) * per_thousand)
        others.append(asyncio.run(theirs(short, options.width)) * per_thousand)
        spent = ours(long, options.width)
        half = len(spent) // 2
        growth.append(sum(spent[half : 2 * half]) / sum(spent[:half]))
    median = statistics.median
    print(f"ours     {median(mine):8.1f} ms CPU per 1,000 tokens")
    print(f"Markdown {median(others):8.1f} ms CPU per 1,000 tokens")
    print(f"ratio    {median(others) / median(mine):8.1f}")
    print(f"second half / first half of {options.long:,} tokens: {median(growth):.2f}")


if __name__ == "__main__":
    main()
