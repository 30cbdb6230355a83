"""Layout arithmetic for conversation and panes, in terminal cells. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from widgets.painting.filtered_rows import FilteredRows, KeptRow

Mode = Literal["wide", "bar", "bare"]
"""`wide`: panes in a side column; `bar`: their summary in one line; `bare`: the conversation only."""

COLUMN_FROM = 100
"""The screen width from which there is a side column."""
BAR_FROM = 60
SIDE_LEAST, MAIN_LEAST = 24, 60
"""The minimum width of the side column and of the conversation, wherever the divider is moved."""
NARROWEST, WIDEST, GROWS_FROM = 40, 64, 120
"""Cells of the side column unless the user moved the divider; it grows on screens above `GROWS_FROM`."""
BY_ITSELF = 0
"""The wished width if the user did not move the divider."""
FLEXIBLE_LEAST = 6
"""Lines that a flexible pane gets in turn with the others, before it takes the rest."""


def mode_for(width: int) -> Mode:
    """Return how panes are shown on a screen of `width` cells."""
    if width >= COLUMN_FROM:
        return "wide"
    return "bar" if width >= BAR_FROM else "bare"


def side_width(wished: int, width: int) -> int:
    """Return the side column's cells on a screen of `width`, as close to `wished` as possible."""
    if wished == BY_ITSELF:
        wished = min(max(NARROWEST + (width - GROWS_FROM) * 3 // 10, NARROWEST), WIDEST)
    return max(min(wished, width - MAIN_LEAST - 1), SIDE_LEAST)


class Arrangement(NamedTuple):
    """The user's layout choices."""

    width: int = BY_ITSELF
    """The wished width of the side column in cells."""
    folded: frozenset[str] = frozenset()
    """Labels of the panes that show only their title."""

    def with_state(self, state: Mapping[str, Any]) -> Arrangement:
        """Return the arrangement with the values of `state`. Invalid values are ignored."""
        width, folded = state.get("width"), state.get("folded")
        if not isinstance(width, int) or isinstance(width, bool) or width <= 0:
            width = self.width
        if not isinstance(folded, (list, tuple)):
            return self._replace(width=width)
        return Arrangement(width, frozenset(label for label in folded if isinstance(label, str)))


class PaneWant(NamedTuple):
    """The space one pane wants: lines of content, and whether it takes the remaining lines."""

    lines: int
    flexible: bool = False
    folded: bool = False


def share(height: int, wants: Sequence[PaneWant]) -> list[int]:
    """Return the lines of each pane, including its title row, with one rule between shown panes.

    Panes grow evenly up to the lines they want; flexible panes take the rest. If even the titles do not fit,
    panes from the end get nothing.
    """
    heights = [0] * len(wants)
    room = height
    for index in range(len(wants)):
        cost = 1 if index == 0 else 2
        if room < cost:
            break
        heights[index] = 1
        room -= cost
    opened = [i for i, want in enumerate(wants) if heights[i] and not want.folded]
    limits = {i: FLEXIBLE_LEAST if wants[i].flexible else 1 + max(wants[i].lines, 1) for i in opened}
    room = _grow(heights, limits, room)
    flexible = [i for i in opened if wants[i].flexible]
    _grow(heights, dict.fromkeys(flexible, height), room)
    return heights


def _grow(heights: list[int], limits: dict[int, int], room: int) -> int:
    """Give each index one line in turn up to its limit; return the remaining lines."""
    growing = list(limits)
    while room > 0 and growing:
        growing = [index for index in growing if heights[index] < limits[index]]
        for index in growing[:room]:
            heights[index] += 1
        room -= min(len(growing), room)
    return room


def jump_keys(names: Sequence[str]) -> dict[str, str]:
    """Return a key for each name: its first free letter, else any free letter or digit, if there is one."""
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        letters = [c for c in name.casefold() if "a" <= c <= "z"] + list(
            "abcdefghijklmnopqrstuvwxyz123456789"
        )
        key = next((letter for letter in letters if letter not in taken), "")
        if key:
            taken.add(key)
            keys[name] = key
    return keys


class EmptyBench(KeptRow):
    """An empty workbench without keys, shown during startup."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "EmptyBench { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._filtered = FilteredRows(self)

    def shown_rows(self, crop: Region) -> list[Strip]:
        return self._filtered.filter(self._rows()[crop.y : crop.bottom], crop.x, crop.right)

    def _rows(self) -> list[Strip]:
        """Return all rows; equal rows are one object."""
        (width, height), style = self.size, self.palette.style
        rule, ground = style("rule"), style("text")
        top = bottom = Strip([Segment("─" * width, rule)], width)
        middle = Strip([Segment(" " * width, ground)], width)
        return [top, *[middle] * (height - 2), bottom][:height]
