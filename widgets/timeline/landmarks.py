"""The whole of a drawing in one column: where forks, marks, file changes and the cursor lie. Pure."""

from __future__ import annotations

from enum import IntEnum

from widgets.timeline.layout import Drawing


class Landmark(IntEnum):
    """What can be seen from afar; of several things in one place, the one with the highest number."""

    NOTHING = 0
    FILES = 1
    FORK = 2
    MARK = 3
    CURSOR = 4


GLYPHS: dict[Landmark, tuple[str, str]] = {
    Landmark.NOTHING: ("│", "rule"),
    Landmark.FILES: ("▪", "added"),
    Landmark.FORK: ("├", "keyword"),
    Landmark.MARK: ("★", "warning"),
    Landmark.CURSOR: ("◀", "accent"),
}
"""Each with its role."""


def landmarks(drawing: Drawing) -> list[Landmark]:
    """What there is on each line."""
    tree = drawing.tree
    found: list[Landmark] = []
    for line in drawing.lines:
        steps = tree.turn_steps if line.fold in ("folded", "closed") else tree.steps
        fork = Landmark.FORK if line.joins else Landmark.NOTHING
        found.append(fork or (Landmark.FILES if line.node in steps else Landmark.NOTHING))
    for number, nodes in drawing.carried.items():
        if any(node in tree.tags for node in nodes):
            found[number] = Landmark.MARK
    return found


def reduce_landmarks(found: list[Landmark], height: int) -> list[Landmark]:
    """The landmarks of all lines in a column of `height` cells; no longer than there are lines."""
    count = len(found)
    if count <= height:
        return found
    return [max(found[row * count // height : (row + 1) * count // height]) for row in range(height)]


def row_of(line: int, count: int, height: int) -> int:
    """The cell of a line of `count` in a column of `height` cells."""
    if count <= height:
        return line
    row = line * height // count
    # The cells are cut at whole lines, so the line may lie one further.
    return row + 1 if (row + 1) * count // height <= line else row


def line_at(row: int, count: int, height: int) -> int:
    """The first line of a cell; the last line for a cell below the column."""
    return min(row if count <= height else row * count // height, max(count - 1, 0))
