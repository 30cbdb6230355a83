"""Tells which nodes lie on the path to a node: remembered in a few numbers, never walked twice.

What is written is never changed, so the path to a node stays what it is. Most of a path is
all that its session has between two nodes; of such a stretch the two ends are enough.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

STRETCH = 2_000
"""Nodes that are walked in one go: a few milliseconds."""

KEPT = 64
"""Paths that are remembered."""


class Stretch(NamedTuple):
    """A part of a path, from its oldest node to its newest."""

    oldest: int
    newest: int
    only: array[int] | None
    """The nodes of it, in order; None: all that the session has in between."""

    def holds(self, node: int) -> bool:
        """Whether a node between the two ends is part of it."""
        if self.only is None:
            return True
        at = bisect_left(self.only, node)
        return at < len(self.only) and self.only[at] == node


@dataclass(slots=True)
class Lineage:
    """The path to a node of a session, from there back as far as it was walked."""

    session: str
    node: int
    """Where the path ends."""
    next: int | None
    """The node from which the walk goes on; None: it got to the root."""
    upto: int
    """How many nodes the session has from its first to `next`, that included."""
    stretches: list[Stretch] = field(default_factory=list)
    """The newest first."""

    def reaches(self, node: int) -> bool:
        """Whether the walk got as far back as to a node."""
        return self.next is None or node > self.next

    def holds(self, node: int) -> bool:
        """Whether a node of the session lies on the path. Only for one that the walk got to."""
        at = bisect_left(self.stretches, -node, key=lambda stretch: -stretch.newest)
        # The first that does not end behind the node; the one before it is where the node may be.
        for stretch in self.stretches[max(at - 1, 0) : at + 1]:
            if stretch.oldest <= node <= stretch.newest:
                return stretch.holds(node)
        return False


class Lineages:
    """The paths of a store that were asked for last. For one thread, on one connection."""

    def __init__(self) -> None:
        self._known: dict[int, Lineage] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """Of a session, a node and how many nodes there are up to that."""

    def of(self, connection: sqlite3.Connection, session: str, node: int) -> Lineage:
        """The path to a node, which may have to be walked with `walk` first."""
        found = self._known.pop(node, None)
        if found is None:
            found = Lineage(session, node, node, self._count(connection, session, node))
        # The one used last is dropped last.
        self._known[node] = found
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return found

    def walk(self, connection: sqlite3.Connection, path: Lineage) -> None:
        """Go a stretch further back on a path that did not get to the root yet."""
        top = path.next
        assert top is not None
        (depth,) = connection.execute("SELECT depth FROM nodes WHERE id = ?", (top,)).fetchone()
        if depth == path.upto:
            # As long as the session has nodes: up to here nothing ever forked.
            path.stretches.append(Stretch(0, top, None))
            path.next = None
            return
        rows = connection.execute(
            "WITH RECURSIVE line (node, up) AS ("
            "  SELECT id, parent FROM nodes WHERE id = :node"
            "  UNION ALL"
            "  SELECT nodes.id, nodes.parent FROM line JOIN nodes ON nodes.id = line.up LIMIT :count"
            ") SELECT node, up FROM line",
            {"node": top, "count": STRETCH},
        ).fetchall()
        ids = [node for node, _ in rows]
        earlier = self._earlier(path, ids)
        if earlier is not None:
            ids = ids[: ids.index(earlier.node)]
        if ids:
            between = _between(connection, path.session, ids[-1] - 1, top)
            only = None if between == len(ids) else array("q", reversed(ids))
            path.stretches.append(Stretch(ids[-1], top, only))
        if earlier is not None:
            path.stretches += earlier.stretches
            path.next, path.upto = earlier.next, earlier.upto
            return
        up = rows[-1][1]
        if up is not None:
            path.upto -= _between(connection, path.session, up, top)
        path.next = up

    def _earlier(self, path: Lineage, ids: list[int]) -> Lineage | None:
        """A path known already that this one goes on from, the longest."""
        found = (self._known[node] for node in ids if node in self._known)
        return next((each for each in found if each is not path), None)

    def _count(self, connection: sqlite3.Connection, session: str, node: int) -> int:
        """Nodes of a session from its first up to one of them. Counted once; then what is new or beyond."""
        (first,) = connection.execute("SELECT min(id) FROM nodes WHERE session = ?", (session,)).fetchone()
        (depth,) = connection.execute("SELECT depth FROM nodes WHERE id = ?", (node,)).fetchone()
        if first is not None and node - first + 1 == depth:
            # Ids rise along a path, so one as long as there are ids leaves none of them out.
            return depth
        last, count = self._counted.get(session, (0, 0))
        if node >= last:
            count += _between(connection, session, last, node)
            self._counted[session] = (node, count)
            return count
        return count - _between(connection, session, node, last)


def _between(connection: sqlite3.Connection, session: str, after: int, upto: int) -> int:
    """Nodes of a session behind one id, up to another."""
    (count,) = connection.execute(
        "SELECT count(*) FROM nodes WHERE session = ? AND id > ? AND id <= ?", (session, after, upto)
    ).fetchone()
    return count
