"""A drawing reduced to one column: forks, marks, file changes and the cursor. Pure."""

from __future__ import annotations

from enum import IntEnum

from widgets.timeline.layout import Drawing


class Landmark(IntEnum):
    """A mark of the minimap; the highest number wins in a shared cell."""

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
    """Return the landmark of each line."""
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
    """Reduce the landmarks of all lines to at most `height` cells."""
    count = len(found)
    if count <= height:
        return found
    return [max(found[row * count // height : (row + 1) * count // height]) for row in range(height)]


def row_of(line: int, count: int, height: int) -> int:
    """Return the cell of a line, of `count` lines, in a column of `height` cells."""
    if count <= height:
        return line
    row = line * height // count
    # Cells begin at whole lines, so the line may be in the next cell.
    return row + 1 if (row + 1) * count // height <= line else row


def line_at(row: int, count: int, height: int) -> int:
    """Return the first line of a cell; the last line for a cell below the column."""
    return min(row if count <= height else row * count // height, max(count - 1, 0))
