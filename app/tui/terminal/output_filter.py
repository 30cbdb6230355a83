"""The terminal itself: the last filter before it, and what the program says to it beside drawing."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter

from tools.text.safe_text import inert, steers
from tools.text.words import one_line


class ControlFilter(LineFilter):
    """Keeps characters that steer a terminal out of everything that is drawn.

    Text is cleaned where it comes in; this is the last line of defence, for text
    that found a way around. A row is as wide behind the filter as it was counted
    before it: control characters count as no cell, so nothing stands in their place.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same line; the very same list when there was nothing to take out."""
        if all(segment.control is None and is_plain(segment.text) for segment in segments):
            return segments
        return [
            segment if is_plain(segment.text) else Segment(harmless(segment.text), segment.style)
            for segment in segments
            if segment.control is None
        ]


def harmless(text: str) -> str:
    """`text` without what steers a terminal, as wide as it was counted to be."""
    width, plain = cell_len(text), inert(text)
    fitted = set_cell_size(plain, width)
    if cell_len(fitted) != width:  # a joiner at an end swallows the blank beside it
        fitted = set_cell_size(plain.replace("\u200d", ""), width)
    return fitted


@lru_cache(maxsize=4096)
def is_plain(text: str) -> bool:
    """Whether nothing in the text steers a terminal, turns the direction of writing, or hides."""
    return not steers(text)


def notification(text: str) -> str:
    """The bytes that make a terminal notify a person: OSC 9, then the bell for those that know no better."""
    line = one_line(text)[:200]
    if line[:1].isdigit():
        # Some terminals take a number here for one of their own orders: progress, folder, macro.
        line = f"hermes: {line}"
    return f"\x1b]9;{line}\x1b\\\a"


class TerminalAttention:
    """Calls a person back who looks elsewhere.

    Only a terminal that reports focus can say so; without a report the person
    counts as present, and nothing rings.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.away = False
        """Whether the terminal said that it lost the focus."""
        self.enabled = True
        """Whether the person wants to be called."""

    def call(self, text: str) -> bool:
        """Notify, if the person is away and wants to know; tells whether it did."""
        calls = self.away and self.enabled
        if calls:
            self._write(notification(text))
        return calls


def speaking(driver: type[Driver], hear: Callable[[Callable[[str], None]], None]) -> type[Driver]:
    """`driver`, which hands its `write` to `hear` when it begins: for bytes that are no part of a picture."""

    class SpeakingDriver(driver):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            hear(self.write)

    return SpeakingDriver
