"""Advice in error messages, so that a model's next try fits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.files.similarity import closest_windows

_MAX_LINES = 15
_MAX_LINE_CHARS = 200
_WORTH_SHOWING = 0.3
_LISTED = 8

DISPLAY_LINE = re.compile(r"\s*(\d+)\|")
"""The start of a line as `read_file` shows it."""


def closest_sections(lines: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The parts of a file that resemble `wanted` most, as numbered lines; at most three."""
    return [
        numbered(lines, section.window[0], min(section.window[1], section.window[0] + _MAX_LINES))
        for section in closest_windows(lines, wanted)
        if section.likeness >= _WORTH_SHOWING
    ]


def numbered(lines: Sequence[str], first: int, stop: int) -> str:
    """Lines `first` to `stop` (from 0) as `read_file` shows them."""
    return "\n".join(
        f"{number}|{line[:_MAX_LINE_CHARS]}" for number, line in enumerate(lines[first:stop], first + 1)
    )


def places(firsts: Sequence[int]) -> str:
    """Line numbers (given from 0) for a sentence: `lines 3, 17 and 40`."""
    shown = [str(first + 1) for first in firsts[:_LISTED]]
    if len(firsts) > _LISTED:
        return f"lines {', '.join(shown)} and {len(firsts) - _LISTED} more"
    return f"lines {', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else f"line {shown[0]}"


def is_read_display(text: str) -> bool:
    """Whether `text` is what `read_file` shows: two or more lines, all numbered in rising order."""
    numbers: list[int] = []
    for line in text.removesuffix("\n").split("\n"):
        match = DISPLAY_LINE.match(line)
        if match is None or len(match[1]) > 9:
            return False
        numbers.append(int(match[1]))
    return len(numbers) > 1 and all(number == numbers[0] + index for index, number in enumerate(numbers))
