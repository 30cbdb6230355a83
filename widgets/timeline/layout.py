"""The shown rows of a tree and their connecting lines. Pure, linear in the number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from widgets.timeline.node_tree import NodeTree

Filter = Literal["all", "turns", "files", "branch", "marks", "matches"]
FILTERS: dict[Filter, str] = {
    "all": "everything",
    "turns": "your messages",
    "files": "file changes",
    "branch": "this branch",
    "marks": "labels and bookmarks",
    "matches": "what was found",
}
"""The filters in the order in which a person steps through them, and what each lets through."""

RAILS = 24
"""Lanes to the left of a row whose lines are known; further ones are not drawn."""


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """The person's filter. Nodes are named by their ids, which stay valid when the tree grows."""

    filter: Filter = "all"
    needle: str = ""
    """Words that are searched for."""
    unfolded: bool = False
    """Whether turns are unfolded unless they are among `turned`."""
    turned: frozenset[int] = frozenset()
    """Messages whose turn is not as `unfolded` says."""
    closed: frozenset[int] = frozenset()
    """First nodes of side branches of which only that node is shown."""


class DrawnLine(NamedTuple):
    """A row ready to be drawn."""

    node: int
    """Index in the tree."""
    lane: int
    rails: int
    """Bits: which of the `RAILS` lanes left of this one continue below; the lowest is the farthest left."""
    joins: bool
    """Whether the lane begins here, at a fork of the lane left of it."""
    fold: Literal["", "folded", "open", "closed"]
    """State of the turn that folds under it; `closed` is a side branch of which nothing else is shown."""

    def goes_on(self, lane: int) -> bool:
        """Return whether another lane, left of this row's, has more rows below."""
        first = max(self.lane - RAILS, 0)
        return lane >= first and bool(self.rails >> (lane - first) & 1)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """The shown rows of a tree, from top to bottom."""

    tree: NodeTree
    look: TimelineFilter
    lines: list[DrawnLine]
    shown_as: list[int]
    """For each node the number of its line, or of the line of the nearest ancestor that has one; -1: none."""
    carried: dict[int, list[int]] = field(default_factory=dict)
    """Nodes with a tag or the end of a branch, by the number of the line they are shown on."""

    def line_of(self, node: int | None) -> int:
        """Return the line number of the node with this id; -1 if it is not shown."""
        at = self.tree.index(node)
        return self.shown_as[at] if at >= 0 else -1


EMPTY = TimelineFilter()


def lay_out(tree: NodeTree, look: TimelineFilter = EMPTY) -> Drawing:
    """Return the rows that `look` accepts, each with its lane and connecting lines."""
    shown_as, above, lanes = _place_nodes(tree, look)
    lines: list[DrawnLine] = [None] * len(above)  # type: ignore[list-item]
    going = 0
    for number in range(len(above) - 1, -1, -1):
        at, over, fold = above[number]
        lane = lanes[number]
        rails = going & ((1 << lane) - 1)
        joins = over >= 0 and lanes[over] < lane
        # A row without a parent has no line upwards.
        going = rails | 1 << (lane - joins) if over >= 0 else rails
        if lane > RAILS:
            rails >>= lane - RAILS
        lines[number] = DrawnLine(at, lane, rails, joins, fold)
    return Drawing(tree, look, lines, shown_as, _carry_tags(tree, look, shown_as, lines))


Fold = Literal["", "folded", "open", "closed"]


def _place_nodes(
    tree: NodeTree, look: TimelineFilter
) -> tuple[list[int], list[tuple[int, int, Fold]], list[int]]:
    """Return each node's line; each line's node, ancestor line and fold; and the lanes."""
    parent, segment = tree.parent, tree.segment
    shows = _shows(tree, look)
    closed = {at for at in map(tree.index, look.closed) if at >= 0} if _folds(look) else set()
    shown_as = [-1] * len(parent)
    above: list[tuple[int, int, Fold]] = []
    lanes: list[int] = []
    skip_to = 0
    for rank, at in enumerate(tree.order):
        up = parent[at]
        over = shown_as[up] if up >= 0 else -1
        fold = None if rank < skip_to else shows(at)
        if fold is None:
            shown_as[at] = over
            continue
        if at in closed:
            fold, skip_to = "closed", rank + tree.size[at]
        shown_as[at] = len(above)
        above.append((at, over, fold))
        if over < 0:
            lanes.append(0)
        elif segment[above[over][0]] == segment[at]:
            lanes.append(lanes[over])
        else:
            lanes.append(lanes[over] + 1)
    return shown_as, above, lanes


def _folds(look: TimelineFilter) -> bool:
    """Return whether turns and branches fold. Other filters select rows anywhere."""
    return look.filter in ("all", "branch")


def _shows(tree: NodeTree, look: TimelineFilter) -> Callable[[int], Fold | None]:
    """Return a function that gives a node's fold, None if the node is hidden."""
    picked: Collection[int]
    match look.filter:
        case "turns":
            rows = tree.rows
            picked = {at for at in set(tree.leader) if rows[at].kind == "user"}
        case "files":
            picked = tree.steps
        case "marks":
            picked = {*tree.tags, *tree.tips}
        case "matches":
            picked = set(matches(tree, look.needle))
        case _:
            return _folding(tree, look)
    return lambda at: "" if at in picked else None


def _folding(tree: NodeTree, look: TimelineFilter) -> Callable[[int], Fold | None]:
    turned = {tree.index(node) for node in look.turned}
    leader, folded, unfolded = tree.leader, tree.folded, look.unfolded
    allowed = tree.on_path if look.filter == "branch" else bytearray(b"\1") * len(leader)

    def shows(at: int) -> Fold | None:
        if not allowed[at]:
            return None
        first = leader[at]
        opened = unfolded is not (first in turned)
        if first == at:
            return ("open" if opened else "folded") if folded[at] else ""
        return "" if opened else None

    return shows


def _carry_tags(
    tree: NodeTree, look: TimelineFilter, shown_as: list[int], lines: list[DrawnLine]
) -> dict[int, list[int]]:
    """Return the tagged nodes per line: a folded turn or closed branch carries those inside it.

    With a filter that selects rows, each row carries only its node.
    """
    carried: dict[int, list[int]] = {}
    for at in sorted({*tree.tags, *tree.tips}):
        number = shown_as[at]
        if number < 0:
            continue
        line = lines[number]
        inside = line.fold in ("folded", "closed") and _folds(look)
        if line.node == at or (inside and (line.fold == "closed" or tree.leader[at] == line.node)):
            carried.setdefault(number, []).append(at)
    return carried


def matches(tree: NodeTree, needle: str) -> list[int]:
    """Return the nodes that contain all words of `needle`, ignoring case, in drawing order."""
    words = needle.casefold().split()
    if not words:
        return []
    found = []
    for at in tree.order:
        text = tree.words(at).casefold()
        if all(word in text for word in words):
            found.append(at)
    return found
