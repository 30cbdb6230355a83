"""The shown rows of a tree and their connecting lines. Pure, linear in the number of nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

OPENS_TURN = frozenset({"user", "system"})
"""Kinds of nodes under which the following nodes fold."""
ENGINE = "engine"
"""The origin of messages that Hermes wrote for the model; they belong to the turn in which they come."""


class NodeRow(Protocol):
    """The node fields that the timeline reads. Ids rise with time; a parent is older than its children."""

    @property
    def id(self) -> int: ...
    @property
    def parent(self) -> int | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def created(self) -> float: ...
    @property
    def text(self) -> str: ...
    @property
    def step(self) -> int | None: ...
    @property
    def tool(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def calls(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BranchTip:
    """The end of a branch. `node` is None while the branch has no message."""

    name: str
    node: int | None


@dataclass(frozen=True, slots=True)
class BranchTag:
    """A user's tag on a node."""

    node: int
    label: str = ""
    bookmarked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NodeTree:
    """Nodes of a session, identified by index in `rows`; -1 means none. Lists have an item per node."""

    rows: Sequence[NodeRow]
    parent: list[int]
    order: list[int]
    """The nodes in the order in which they are drawn, from top to bottom."""
    rank: list[int]
    """The position of each node in `order`."""
    size: list[int]
    """The number of nodes in each node's subtree. They are consecutive in `order`."""
    segment: list[int]
    """The first node of the lane that each node is drawn in: a root, or the start of a side branch."""
    leader: list[int]
    """The node that each node folds under: the user's message, or the start of a side branch."""
    folded: list[int]
    """The number of nodes that fold under each node."""
    calls: list[int]
    """The number of tool results among those nodes and the node itself."""
    steps: Mapping[int, Sequence[int]]
    """The steps of file changes that each node made."""
    turn_steps: Mapping[int, Sequence[int]]
    """The steps of all nodes that fold under a leader, and of itself."""
    paths: Mapping[int, Sequence[str]]
    """The files that each step touched."""
    labels: Mapping[int, str]
    """The action that made a step, such as `write src/app.py`, if it is known."""
    tips: Mapping[int, Sequence[str]]
    """The names of the branches that end at each node."""
    tags: Mapping[int, BranchTag]
    branch: str
    """The name of the branch in use."""
    head: int
    """The node at which that branch ends."""
    on_path: bytearray
    """Whether a node is part of the branch in use."""
    _places: Mapping[int, int]

    def index(self, node: int | None) -> int:
        """Return the index of a node by its id; -1 if there is none."""
        return -1 if node is None else self._places.get(node, -1)

    def files(self, steps: Iterable[int]) -> list[str]:
        """Return the files that these steps touched, each once, in order of the first change."""
        return list(dict.fromkeys(path for step in steps for path in self.paths.get(step, ())))

    def label(self, node: int) -> str:
        """Return the action of the call with this result; empty if no step records it."""
        said = (self.labels.get(step, "") for step in reversed(self.steps.get(node, ())))
        return next(filter(None, said), "")

    def below(self, node: int, other: int) -> bool:
        """Return whether `other` is `node` or one of its descendants."""
        return self.rank[node] <= self.rank[other] < self.rank[node] + self.size[node]

    def branches_through(self, node: int) -> list[str]:
        """Return the branches through `node`, those with the nearest end first."""
        ends = sorted(
            (self.rank[end], name)
            for end, names in self.tips.items()
            if self.below(node, end)
            for name in names
        )
        return [name for _, name in ends]

    def words(self, node: int) -> str:
        """Return the text that a search examines."""
        row, tag = self.rows[node], self.tags.get(node)
        text = f"{row.tool} {self.label(node)} {row.text}" if row.tool else row.text
        names = " ".join(self.tips.get(node, ()))
        return f"{text} {names} {tag.label if tag else ''}" if tag or names else text


def build_tree(
    rows: Sequence[NodeRow],
    tips: Sequence[BranchTip] = (),
    branch: str = "",
    tags: Iterable[BranchTag] = (),
    paths: Mapping[int, Sequence[str]] | None = None,
    labels: Mapping[int, str] | None = None,
) -> NodeTree:
    """Build the tree of these rows. `branch` is the current one.

    `paths` are the files of each step by number, and `labels` the actions of the steps.
    """
    paths = paths or {}
    ids = [row.id for row in rows]
    if any(one >= other for one, other in pairwise(ids)):
        rows = sorted({row.id: row for row in rows}.values(), key=lambda row: row.id)
        ids = [row.id for row in rows]
    places = {node: at for at, node in enumerate(ids)}
    parent = _parents(rows, ids, places)
    at_tips = {tip.name: _at(tip.node, ids, places) for tip in tips}
    head = at_tips.get(branch, -1)
    heir, on_path = _heirs(parent, head)
    order, rank, size = _order_nodes(parent, heir)
    segment, leader = _group_nodes(rows, parent, heir)
    folded, calls = [-1 if first == at else 0 for at, first in enumerate(leader)], [0] * len(rows)
    for at, first in enumerate(leader):
        folded[first] += 1
        if rows[at].kind == "tool":
            calls[first] += 1
    # A leader counted itself once; that is what it began below zero for.
    steps = _steps_by_node(rows, paths)
    turn_steps: dict[int, list[int]] = {}
    for at, made in steps.items():
        turn_steps.setdefault(leader[at], []).extend(made)
    ends: dict[int, list[str]] = {}
    for name, at in at_tips.items():
        if at >= 0:
            ends.setdefault(at, []).append(name)
    marked = {places[tag.node]: tag for tag in tags if tag.node in places}
    return NodeTree(
        rows=rows,
        parent=parent,
        order=order,
        rank=rank,
        size=size,
        segment=segment,
        leader=leader,
        folded=folded,
        calls=calls,
        steps=steps,
        turn_steps=turn_steps,
        paths=paths,
        labels=labels or {},
        tips=ends,
        tags=marked,
        branch=branch,
        head=head,
        on_path=on_path,
        _places=places,
    )


def _at(node: int | None, ids: list[int], places: Mapping[int, int]) -> int:
    """Return the index of a node, or of the last row before it if the node is left out."""
    if node is None:
        return -1
    found = places.get(node)
    return bisect_right(ids, node) - 1 if found is None else found


def _parents(rows: Sequence[NodeRow], ids: list[int], places: Mapping[int, int]) -> list[int]:
    found: list[int] = []
    for at, row in enumerate(rows):
        up = -1 if row.parent is None else places.get(row.parent, -2)
        if up == -2:
            up = _at(row.parent, ids, places)
        found.append(up if up < at else -1)
    return found


def _heirs(parent: list[int], head: int) -> tuple[list[int], bytearray]:
    """Return each node's child in its lane, and flags of the nodes on the current branch."""
    heir, newest = [-1] * len(parent), list(range(len(parent)))
    for at in range(len(parent) - 1, -1, -1):
        up = parent[at]
        if up >= 0 and newest[at] > newest[up]:
            newest[up] = newest[at]
            heir[up] = at
    on_path = bytearray(len(parent))
    while head >= 0:
        on_path[head] = 1
        if parent[head] >= 0:
            heir[parent[head]] = head
        head = parent[head]
    return heir, on_path


def _order_nodes(parent: list[int], heir: list[int]) -> tuple[list[int], list[int], list[int]]:
    sides: dict[int, list[int]] = {}
    for at in range(len(parent) - 1, -1, -1):
        up = parent[at]
        if up < 0 or heir[up] != at:
            sides.setdefault(up, []).append(at)
    order: list[int] = []
    rank = [0] * len(parent)
    stack = sides.get(-1, [])
    while stack:
        at = stack.pop()
        while at >= 0:
            rank[at] = len(order)
            order.append(at)
            if at in sides:
                if heir[at] >= 0:
                    stack.append(heir[at])
                stack += sides[at]
                break
            at = heir[at]
    size = [1] * len(parent)
    for at in range(len(parent) - 1, -1, -1):
        if parent[at] >= 0:
            size[parent[at]] += size[at]
    return order, rank, size


def _group_nodes(rows: Sequence[NodeRow], parent: list[int], heir: list[int]) -> tuple[list[int], list[int]]:
    segment, leader = list(range(len(rows))), list(range(len(rows)))
    for at, row in enumerate(rows):
        up = parent[at]
        if up >= 0 and heir[up] == at:
            segment[at] = segment[up]
            if row.kind not in OPENS_TURN or row.origin == ENGINE:
                leader[at] = leader[up]
    return segment, leader


def _steps_by_node(rows: Sequence[NodeRow], paths: Mapping[int, Sequence[str]]) -> dict[int, list[int]]:
    """Return the steps of each node: a step belongs to the first node written at its position or later.

    Changes first noticed with the user's next message are not counted as the agent's.
    """
    numbers = sorted(paths)
    made: dict[int, list[int]] = {}
    taken = 0
    for at, row in enumerate(rows):
        if row.step is None or taken == len(numbers) or row.step < numbers[taken]:
            continue
        upto = bisect_right(numbers, row.step)
        if row.kind not in OPENS_TURN:
            made[at] = numbers[taken:upto]
        taken = upto
    return made


Filter = Literal["all", "turns", "files", "branch", "marks", "matches"]
FILTERS: dict[Filter, str] = {
    "all": "everything",
    "turns": "your messages",
    "files": "file changes",
    "branch": "this branch",
    "marks": "labels and bookmarks",
    "matches": "what was found",
}
"""The filters in the order in which the user steps through them, and what each shows."""

RAILS = 24
"""The maximum number of lanes to the left of a row whose lines are known."""


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """The user's filter. Nodes are identified by their ids, which stay valid when the tree grows."""

    filter: Filter = "all"
    needle: str = ""
    """The words to search for."""
    unfolded: bool = False
    """Whether turns are unfolded unless they are among `turned`."""
    turned: frozenset[int] = frozenset()
    """Messages whose turn is folded or unfolded contrary to `unfolded`."""
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

    def continues(self, lane: int) -> bool:
        """Return whether another lane, left of this row's, has more rows below."""
        first = max(self.lane - RAILS, 0)
        return lane >= first and bool(self.rails >> (lane - first) & 1)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """The shown rows of a tree, from top to bottom."""

    tree: NodeTree
    timeline_filter: TimelineFilter
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


def lay_out(tree: NodeTree, timeline_filter: TimelineFilter = EMPTY) -> Drawing:
    """Return the rows that the filter accepts, each with its lane and connecting lines."""
    shown_as, above, lanes = _place_nodes(tree, timeline_filter)
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
    return Drawing(
        tree, timeline_filter, lines, shown_as, _carry_tags(tree, timeline_filter, shown_as, lines)
    )


Fold = Literal["", "folded", "open", "closed"]


def _place_nodes(
    tree: NodeTree, timeline_filter: TimelineFilter
) -> tuple[list[int], list[tuple[int, int, Fold]], list[int]]:
    """Return each node's line; each line's node, ancestor line and fold; and the lanes."""
    parent, segment = tree.parent, tree.segment
    shows = _shows(tree, timeline_filter)
    closed = (
        {at for at in map(tree.index, timeline_filter.closed) if at >= 0}
        if _folds(timeline_filter)
        else set()
    )
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


def _folds(timeline_filter: TimelineFilter) -> bool:
    """Return whether turns and branches fold. Other filters select rows anywhere."""
    return timeline_filter.filter in ("all", "branch")


def _shows(tree: NodeTree, timeline_filter: TimelineFilter) -> Callable[[int], Fold | None]:
    """Return a function that returns a node's fold state; None if the node is hidden."""
    picked: Collection[int]
    match timeline_filter.filter:
        case "turns":
            rows = tree.rows
            picked = {at for at in set(tree.leader) if rows[at].kind == "user"}
        case "files":
            picked = tree.steps
        case "marks":
            picked = {*tree.tags, *tree.tips}
        case "matches":
            picked = set(matches(tree, timeline_filter.needle))
        case _:
            return _folding(tree, timeline_filter)
    return lambda at: "" if at in picked else None


def _folding(tree: NodeTree, timeline_filter: TimelineFilter) -> Callable[[int], Fold | None]:
    turned = {tree.index(node) for node in timeline_filter.turned}
    leader, folded, unfolded = tree.leader, tree.folded, timeline_filter.unfolded
    allowed = tree.on_path if timeline_filter.filter == "branch" else bytearray(b"\1") * len(leader)

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
    tree: NodeTree, timeline_filter: TimelineFilter, shown_as: list[int], lines: list[DrawnLine]
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
        inside = line.fold in ("folded", "closed") and _folds(timeline_filter)
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
