"""The tree of a session as a list of any length; only visible rows are drawn."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from widgets.palette import Palette
from widgets.rows.row_list import ReadingRows
from widgets.timeline.layout import (
    FILTERS,
    Drawing,
    Filter,
    NodeRow,
    NodeTree,
    TimelineFilter,
    build_tree,
    lay_out,
    matches,
)
from widgets.timeline.paint import MOST_STEPS, PaintContext, draw_row, steps_of


class Landmark(IntEnum):
    """A mark on the minimap; the highest number wins in a shared cell."""

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
"""The glyph of each landmark, with its role."""


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
    """Return the cell in a column of `height` cells that shows a line, if there are `count` lines."""
    if count <= height:
        return line
    row = line * height // count
    # Cells begin at whole lines, so the line may be in the next cell.
    return row + 1 if (row + 1) * count // height <= line else row


def line_at(row: int, count: int, height: int) -> int:
    """Return the first of `count` lines that a cell of a column of `height` cells shows, at most the last."""
    return min(row if count <= height else row * count // height, max(count - 1, 0))


class Minimap(Widget):
    """An overview of the tree; blank while all rows are visible."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Minimap { width: 1; height: 1fr; }"

    class Jumped(Message):
        """A request to show this line."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette = Palette(Skin())
        self._lines: list[Landmark] = []
        self._cells: list[Landmark] = []
        self._height = 0
        self._cursor: int | None = None

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def show(self, lines: list[Landmark]) -> None:
        """Show the landmarks of all lines."""
        self._lines, self._height = lines, 0
        self.refresh()

    def set_cursor(self, line: int | None) -> None:
        """Set the line of the cursor."""
        if line != self._cursor:
            self._cursor = line
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if len(self._lines) > self.size.height:
            self.post_message(self.Jumped(line_at(event.y, len(self._lines), self.size.height)))

    def render_line(self, y: int) -> Strip:
        height, count = self.size.height, len(self._lines)
        if self._height != height:
            self._cells, self._height = reduce_landmarks(self._lines, height), height
        if count <= height or y >= len(self._cells):
            return Strip.blank(self.size.width, self.palette.style("text"))
        mark = self._cells[y]
        if self._cursor is not None and row_of(self._cursor, count, height) == y:
            mark = Landmark.CURSOR
        glyph, role = GLYPHS[mark]
        return Strip([Segment(glyph, self.palette.style(role))]).adjust_cell_length(
            self.size.width, self.palette.style("text")
        )


NOTHING = "Nothing was said yet. What is said and done grows here as a tree: go back to any point of it."
NO_ROW = "No message passes this filter; s shows others."
AT_ONCE = 400
"""The maximum number of nodes laid out on the event loop, in 4 ms; more are laid out in a thread."""


class Timeline(ReadingRows):
    """A list of nodes with cursor, folds, filters and search, independent of their source."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold or unfold a turn", show=False, id="timeline.fold"),
        Binding("z", "fold_all", "Fold or unfold all turns", show=False, id="timeline.fold_all"),
        Binding("Z", "close", "Close or open a side branch", show=False, id="timeline.close"),
        Binding("s,f", "next_filter(1)", "Next filter", show=False, id="timeline.filter"),
        Binding("F", "next_filter(-1)", "Previous filter", show=False, id="timeline.filter_back"),
        Binding("slash", "filter", "Search", show=False, id="timeline.search"),
    ]

    class Pointed(Message):
        """The cursor moved to another node."""

        def __init__(self, row: NodeRow | None) -> None:
            super().__init__()
            self.row = row

    class Counted(Message):
        """A request for the line counts of visible steps; answer with `set_line_counts`."""

        def __init__(self, steps: frozenset[int]) -> None:
            super().__init__()
            self.steps = steps

    class Changed(Message):
        """The shown rows changed."""

    class Searching(Message):
        """A request to enter a search text."""

    def __init__(
        self, minimap: Minimap, now: Callable[[], float] = time.time, *, id: str | None = None
    ) -> None:
        super().__init__(self._row, search_text=self._copy_text, empty=NOTHING, id=id)
        self.drawing: Drawing = lay_out(build_tree(()))
        self.compared: int | None = None
        """The id of the node from which a comparison begins."""
        self.found: list[int] = []
        """Nodes that the search found, by index, from top to bottom."""
        self._minimap = minimap
        self._now = now
        self._counts: dict[int, tuple[int, int]] = {}
        self._uncounted: set[int] = set()
        self._around: PaintContext | None = None
        self._told: int | None = -1

    # Methods for the owner

    @property
    def nodes(self) -> NodeTree:
        """The whole tree, including hidden nodes."""
        return self.drawing.tree

    @property
    def timeline_filter(self) -> TimelineFilter:
        """The folds, filter and search."""
        return self.drawing.timeline_filter

    @property
    def selected_node(self) -> NodeRow | None:
        """The node under the cursor; None if there is none."""
        at = self.index
        return None if at is None else self.nodes.rows[at]

    @property
    def index(self) -> int | None:
        """The index in the tree of the node under the cursor; None if there is none."""
        number = self.cursor
        return None if number is None else self.drawing.lines[number].node

    def show_drawing(self, drawing: Drawing, at: int | None = None) -> None:
        """Show another drawing. The cursor moves to the node with the id `at`, or keeps its node.

        If neither exists, the cursor moves to the end of the current branch.
        """
        here = self.selected_node
        top = self._line_on_screen() if at is None else None
        if at is None and here is not None:
            at = here.id
        self.drawing = drawing
        self.found = matches(drawing.tree, drawing.timeline_filter.needle)
        self.empty = NO_ROW if drawing.tree.rows else NOTHING
        self.reset(len(drawing.lines))
        self._place(self._target(at), top)
        self._minimap.show(landmarks(drawing))
        self.cursor_moved()
        self.post_message(self.Changed())

    def set_line_counts(self, counts: Mapping[int, tuple[int, int]]) -> None:
        """Set the added and removed lines of steps: the answer to `Counted`, with all steps it named."""
        self._counts.update(counts)
        self.repaint()

    def change_filter(self, timeline_filter: TimelineFilter, at: int | None = None) -> None:
        """Change the filter, with the cursor on the node `at` or unchanged."""
        self.run_worker(partial(self._apply_filter_change, timeline_filter, at), group="look", exclusive=True)

    def compare_from(self, node: int | None) -> None:
        """Mark the start node of a comparison."""
        self.compared = node
        self.repaint()

    def search(self, needle: str) -> None:
        """Highlight nodes that contain these words and go to the next one."""
        self.run_worker(partial(self._search_for, needle), group="look", exclusive=True)

    # Keys

    def action_fold(self) -> None:
        at = self.index
        if at is None:
            return
        row = self.nodes.rows[at]
        if row.id in self.timeline_filter.closed:
            self.change_filter(replace(self.timeline_filter, closed=self.timeline_filter.closed - {row.id}))
        elif self.timeline_filter.filter in ("all", "branch"):
            leader = self.nodes.rows[self.nodes.leader[at]].id
            self.change_filter(
                replace(self.timeline_filter, turned=self.timeline_filter.turned ^ {leader}), leader
            )

    def action_fold_all(self) -> None:
        at = self.index
        leader = None if at is None else self.nodes.rows[self.nodes.leader[at]].id
        self.change_filter(
            replace(self.timeline_filter, unfolded=not self.timeline_filter.unfolded, turned=frozenset()),
            leader,
        )

    def action_close(self) -> None:
        at = self.index
        if at is None:
            return
        start = self.nodes.segment[at]
        if self.nodes.parent[start] < 0:
            self.notify("This is where the conversation began; side branches can be closed.", markup=False)
            return
        first = self.nodes.rows[start].id
        self.change_filter(replace(self.timeline_filter, closed=self.timeline_filter.closed ^ {first}), first)

    def action_next_filter(self, step: int) -> None:
        names: list[Filter] = [name for name in FILTERS if name != "matches" or self.timeline_filter.needle]
        at = names.index(self.timeline_filter.filter) if self.timeline_filter.filter in names else 0
        self.change_filter(replace(self.timeline_filter, filter=names[(at + step) % len(names)]))

    def action_filter(self) -> None:
        self.post_message(self.Searching())

    def action_find(self, direction: int) -> None:
        at = self.index
        if at is None or not self.found:
            return
        rank = self.nodes.rank
        ahead = [node for node in self.found if (rank[node] - rank[at]) * direction > 0]
        reachable = [node for node in ahead or self.found if self.drawing.shown_as[node] >= 0]
        if reachable:
            self.reveal(reachable[0 if direction > 0 else -1])

    def reveal(self, node: int) -> None:
        """Move the cursor to a node by index; a folded turn around it is opened."""
        number = self.drawing.shown_as[node]
        row = self.nodes.rows[node]
        if number >= 0 and self.drawing.lines[number].node == node:
            self.move_to(number)
        else:
            leader = self.nodes.leader[node]
            closed = {
                id for id in self.timeline_filter.closed if not self.nodes.below(self.nodes.index(id), node)
            }
            opened = self.timeline_filter.unfolded is not (
                self.nodes.rows[leader].id in self.timeline_filter.turned
            )
            turned = (
                self.timeline_filter.turned
                if opened
                else self.timeline_filter.turned ^ {self.nodes.rows[leader].id}
            )
            self.change_filter(replace(self.timeline_filter, turned=turned, closed=frozenset(closed)), row.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: never clearing a filter, so that esc goes to the screen."""
        return False if action == "clear_filter" else super().check_action(action, parameters)

    # Overridden methods of the list

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self._minimap.set_cursor(self.cursor)
        row = self.selected_node
        told = None if row is None else row.id
        if self._told != told:
            self._told = told
            self.post_message(self.Pointed(row))

    def repaint(self) -> None:
        self._around = None
        super().repaint()

    def _height_of(self, row: int) -> int:
        """Return 1: every node is one line, so positions are known without drawing."""
        return 1

    def _row(self, number: int, width: int) -> list[Text]:
        if self._around is None:
            words = "|".join(map(re.escape, self.timeline_filter.needle.split()))
            self._around = PaintContext(
                self.ink,
                self._now(),
                self._counts,
                self.compared,
                re.compile(words, re.IGNORECASE) if words else None,
                self.palette.style("text", "match"),
            )
        steps = steps_of(self.nodes, self.drawing.lines[number])
        if len(steps) <= MOST_STEPS and any(step not in self._counts for step in steps):
            if not self._uncounted:
                self.call_after_refresh(self._ask)
            self._uncounted.update(step for step in steps if step not in self._counts)
        return [draw_row(self.drawing, number, width, self._around)]

    def _ask(self) -> None:
        steps, self._uncounted = frozenset(self._uncounted), set()
        if steps:
            self.post_message(self.Counted(steps))

    def _copy_text(self, number: int) -> str:
        return self.nodes.rows[self.drawing.lines[number].node].text

    # Laying out

    async def _apply_filter_change(self, timeline_filter: TimelineFilter, at: int | None) -> None:
        tree = self.nodes
        if len(tree.rows) <= AT_ONCE:
            drawing = lay_out(tree, timeline_filter)
        else:
            drawing = await asyncio.to_thread(lay_out, tree, timeline_filter)
        if self.nodes is tree:
            self.show_drawing(drawing, at)

    async def _search_for(self, needle: str) -> None:
        tree = self.nodes
        found = await asyncio.to_thread(matches, tree, needle)
        if self.nodes is not tree:
            return
        self.drawing = replace(self.drawing, timeline_filter=replace(self.timeline_filter, needle=needle))
        self.found = found
        at = self.index
        ahead = [node for node in found if at is not None and tree.rank[node] >= tree.rank[at]]
        numbers = [self.drawing.shown_as[node] for node in ahead or found]
        number = next((number for number in numbers if number >= 0), -1)
        if self.timeline_filter.filter == "matches":
            self.change_filter(self.timeline_filter)
        elif number >= 0:
            self.move_to(number)
        self.repaint()
        self.post_message(self.Changed())

    def _target(self, node: int | None) -> int:
        """Return the cursor's line; for a missing or hidden node, the end of the current branch."""
        for number in (self.drawing.line_of(node), self._end_line()):
            if number >= 0:
                return number
        return max(len(self.drawing.lines) - 1, 0)

    def _end_line(self) -> int:
        head = self.nodes.head
        return self.drawing.shown_as[head] if head >= 0 else -1

    def _line_on_screen(self) -> int | None:
        """Return the cursor's distance from the top of the window; None if it is not visible."""
        layout = self._view.layout()
        return next((y for y, (number, _) in enumerate(layout) if number == self.cursor), None)

    def _place(self, number: int, top: int | None) -> None:
        """Move the cursor to a line, shown `top` lines below the top of the window or in its middle."""
        height = self._view.height
        above = height // 2 if top is None else top
        self._view.move_to(0)
        self._view.move_to(number - above + height - 1)
        self._view.move_to(number)
