"""A conversation whose older nodes are read from the store only when they are needed."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, overload

from agent.core.store.nodes import KINDS, Node
from agent.errors import StoreError

NEWEST = 1_000
"""The number of nodes at the end of a path that stay in memory; above twice as many, older ones go."""
ROOM = 4_000_000
"""The number of characters in them that stay in memory; the oldest are dropped above twice as many."""
PAGE = 100
"""The number of nodes that are read when a single one is needed: about a millisecond."""
BULK = 400
"""The number of nodes that are read at once when many are needed."""

TASKS, CANVAS = "todo", "canvas"
"""The labels of the results of these tools; the label of any other node is its kind."""
LABELS = (*sorted(KINDS), TASKS, CANVAS)
KEPT = ("system", "notice", "compaction", TASKS, CANVAS)
"""The labels of nodes that stay in memory, because the whole path is searched for them. They are few."""

Read = Callable[[Sequence[int]], Sequence[Node]]


def label_of(kind: str, tool: Any) -> str:
    """Return the label of a node; `tool` is the tool whose result it is, if any."""
    if kind != "tool":
        return kind
    return TASKS if str(tool).startswith("todo_") else CANVAS if tool == "canvas" else kind


class StoredPath(Sequence[Node]):
    """The nodes of a branch, from the root to its end.

    `read` returns the nodes with some ids, in any thread, even after the store was closed. Because nodes
    never change, a node that was dropped from memory is the same when it is read again. Raises `StoreError`
    for a node that can no longer be read.
    """

    def __init__(self, nodes: Iterable[Node], read: Read) -> None:
        self.ids = array("q")
        """The ids of all nodes, in order."""
        self._labels = bytearray()
        self._read = read
        self._end: tuple[int, list[Node]] = (0, [])
        """The index of the first node of the end that is in memory, and all nodes from there on."""
        self._size = 0
        self._kept: dict[int, Node] = {}
        """Older nodes in memory, by index."""
        self._page: tuple[int, Sequence[Node]] = (0, ())
        """The index of the first node of the page read last, and its nodes."""
        for node in nodes:
            self.append(node)

    def put_before(self, rows: Sequence[tuple[int, str, Any]]) -> None:
        """Add nodes at the beginning that are not in memory; `rows` holds id, kind and tool of each.

        `labelled` reads those of them that stay in memory.
        """
        first, end = self._end
        self.ids = array("q", [id for id, _, _ in rows]) + self.ids
        self._labels = bytearray(LABELS.index(label_of(kind, tool)) for _, kind, tool in rows) + self._labels
        self._end = (first + len(rows), end)

    def append(self, node: Node) -> None:
        """Add a stored node at the end."""
        self.ids.append(node.id)
        self._labels.append(LABELS.index(label_of(node.kind, node.data.get("tool"))))
        self._end[1].append(node)
        self._size += len(node.content)
        if len(self._end[1]) > 2 * NEWEST or self._size > 2 * ROOM:
            self._drop()

    @property
    def is_in_memory(self) -> bool:
        """True if all nodes are in memory."""
        return self._end[0] == 0

    def labelled(self, *labels: str) -> list[Node]:
        """Return all nodes with these labels, in order. Those that had to be read stay in memory."""
        found = self._places(labels)
        nodes = list(self._nodes(found))
        first = self._end[0]
        self._kept.update((at, node) for at, node in zip(found, nodes, strict=True) if at < first)
        return nodes

    def iterate(self, *labels: str, start: int = 0) -> Iterator[Node]:
        """Yield the nodes with these labels from index `start` on, without keeping those read in memory."""
        found = self._places(labels)
        return self._nodes(found[bisect_left(found, start) :])

    def _places(self, labels: Sequence[str]) -> list[int]:
        found: list[int] = []
        for code in map(LABELS.index, labels):
            at = self._labels.find(code)
            while at >= 0:
                found.append(at)
                at = self._labels.find(code, at + 1)
        found.sort()
        return found

    def _nodes(self, places: Sequence[int]) -> Iterator[Node]:
        """Yield the nodes at these indexes, which are in ascending order."""
        for begin in range(0, len(places), BULK):
            some = places[begin : begin + BULK]
            first, end = self._end
            missing = [at for at in some if at < first and at not in self._kept]
            read = dict(zip(missing, self._fetch([self.ids[at] for at in missing]), strict=True))
            for at in some:
                yield end[at - first] if at >= first else read.get(at) or self._kept[at]

    def _drop(self) -> None:
        """Remove the oldest nodes of the end from memory, except those with labels in `KEPT`."""
        first, end = self._end
        count, size = len(end), self._size
        while count > 1 and (count > NEWEST or size > ROOM):
            count -= 1
            size -= len(end[-count - 1].content)
        gone = len(end) - count
        codes = {LABELS.index(label) for label in KEPT}
        self._kept.update(
            (at, node) for at, node in enumerate(end[:gone], first) if self._labels[at] in codes
        )
        # Replaced as a whole: another thread may be reading.
        self._end, self._size = (first + gone, end[gone:]), size

    def _fetch(self, ids: Sequence[int]) -> Sequence[Node]:
        nodes = self._read(ids) if ids else ()
        if len(nodes) != len(ids):
            raise StoreError("Old messages of this conversation are no longer in the store.")
        return nodes

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | Sequence[Node]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if start == 0 and step == 1:
                return self._before(stop)
            return list(self._nodes(range(start, stop, step))) if step > 0 else list(self)[index]
        at = index + len(self.ids) if index < 0 else index
        if not 0 <= at < len(self.ids):
            raise IndexError(index)
        first, end = self._end
        if at >= first:
            return end[at - first]
        if (node := self._kept.get(at)) is not None:
            return node
        start, page = self._page
        if not start <= at < start + len(page):
            start = at - at % PAGE
            page = self._fetch(self.ids[start : start + PAGE])
            self._page = start, page
        return page[at - start]

    def _before(self, stop: int) -> StoredPath:
        """Return the path up to the index `stop`, which shares the nodes in memory."""
        path = StoredPath((), self._read)
        path.ids, path._labels, path._kept = self.ids[:stop], self._labels[:stop], self._kept.copy()
        first, end = self._end
        path._end = (first, end[: max(stop - first, 0)]) if stop > first else (stop, [])
        return path

    def __iter__(self) -> Iterator[Node]:
        return self._nodes(range(len(self)))


def position_of(path: Sequence[Node], id: int) -> int:
    """Return the index of the first node with this id or a higher one; ids increase along every path."""
    if isinstance(path, StoredPath):
        return bisect_left(path.ids, id)
    return bisect_left(path, id, key=attrgetter("id"))


def with_ids(path: Sequence[Node], ids: Iterable[int]) -> list[Node]:
    """Return the nodes of a path that have one of these ids, in the order of `ids`."""
    found = ((position_of(path, id), id) for id in ids)
    return [node for at, id in found if at < len(path) and (node := path[at]).id == id]


def labelled(path: Sequence[Node], *labels: str) -> list[Node]:
    """Return the nodes with these labels in any sequence of nodes, in order."""
    if isinstance(path, StoredPath):
        return path.labelled(*labels)
    return [node for node in path if label_of(node.kind, node.data.get("tool")) in labels]


def iterate(path: Sequence[Node], *labels: str, start: int = 0) -> Iterator[Node]:
    """Yield the nodes with these labels in any sequence of nodes, from the index `start` on."""
    if isinstance(path, StoredPath):
        return path.iterate(*labels, start=start)
    return (node for node in path[start:] if label_of(node.kind, node.data.get("tool")) in labels)
