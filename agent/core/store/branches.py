"""Branches of a session: their last nodes (heads), the paths to these, and the outline of all nodes."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.core.store import node_tree
from agent.core.store.nodes import first_line, storable
from tools.kit.lazy_pattern import lazy_pattern

STRETCH = 2_000
"""The number of nodes that are read in one query: it takes a few milliseconds."""

KEPT = 64
"""The number of paths that are cached."""


class Stretch(NamedTuple):
    """A part of a path, given by its oldest and its newest node."""

    oldest: int
    newest: int
    only: array[int] | None
    """The ids of its nodes, in order; None: all nodes that the session has between the two ends."""

    def holds(self, node: int) -> bool:
        """Return whether the node, whose id is between the two ends, is part of the stretch."""
        if self.only is None:
            return True
        at = bisect_left(self.only, node)
        return at < len(self.only) and self.only[at] == node


@dataclass(slots=True)
class Lineage:
    """The path to a node of a session, as far back as it was read."""

    session: str
    node: int
    """The end of the path."""
    next: int | None
    """The node where reading continues; None if the path was read to its root."""
    upto: int
    """The number of the session's nodes from its first one to `next`, inclusive."""
    stretches: list[Stretch] = field(default_factory=list)
    """The parts of the path that were read, the newest first."""

    def reaches(self, node: int) -> bool:
        """Return whether the path was read back at least to a node."""
        return self.next is None or node > self.next

    def holds(self, node: int) -> bool:
        """Return whether a node of the session is on the path. Valid only for nodes within `reaches`."""
        at = bisect_left(self.stretches, -node, key=lambda stretch: -stretch.newest)
        # The first that does not end after the node; the node may be in the one before it.
        for stretch in self.stretches[max(at - 1, 0) : at + 1]:
            if stretch.oldest <= node <= stretch.newest:
                return stretch.holds(node)
        return False


class Lineages:
    """A cache of the last requested paths of a store. Use it in one thread, with one connection."""

    def __init__(self) -> None:
        self._known: dict[int, Lineage] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        """For each session, one node and the number of nodes up to it."""

    def of(self, connection: sqlite3.Connection, session: str, node: int) -> Lineage:
        """Return the path to a node, cached if possible. `walk` extends it as far back as needed."""
        found = self._known.pop(node, None)
        if found is None:
            found = Lineage(session, node, node, self._count(connection, session, node))
        # The most recently used one is dropped last.
        self._known[node] = found
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return found

    def walk(self, connection: sqlite3.Connection, path: Lineage) -> None:
        """Read the next older part of a path that has not been read to its root."""
        top = path.next
        assert top is not None
        (depth,) = connection.execute("SELECT depth FROM nodes WHERE id = ?", (top,)).fetchone()
        if depth == path.upto:
            # As many nodes as the session has: nothing has forked up to here.
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
        """Return the longest cached path that this path contains as its older part; None if there is none."""
        found = (self._known[node] for node in ids if node in self._known)
        return next((each for each in found if each is not path), None)

    def _count(self, connection: sqlite3.Connection, session: str, node: int) -> int:
        """Return the number of a session's nodes up to one of them.

        The number is cached, and only later nodes are counted.
        """
        (first,) = connection.execute("SELECT min(id) FROM nodes WHERE session = ?", (session,)).fetchone()
        (depth,) = connection.execute("SELECT depth FROM nodes WHERE id = ?", (node,)).fetchone()
        if first is not None and node - first + 1 == depth:
            # Ids rise along a path, so a path with as many nodes as ids omits none.
            return depth
        last, count = self._counted.get(session, (0, 0))
        if node >= last:
            count += _between(connection, session, last, node)
            self._counted[session] = (node, count)
            return count
        return count - _between(connection, session, node, last)


def _between(connection: sqlite3.Connection, session: str, after: int, upto: int) -> int:
    """Return the number of nodes of a session whose ids are greater than `after`, up to `upto`."""
    (count,) = connection.execute(
        "SELECT count(*) FROM nodes WHERE session = ? AND id > ? AND id <= ?", (session, after, upto)
    ).fetchone()
    return count


PATIENCE = 0.004
"""Seconds for which paths are read before a writer that may be waiting gets its turn."""


def head_with(connection: sqlite3.Connection, session: str, node: int) -> str | None:
    """Return the name of a branch with a node, the most recently used of several; None if there is none.

    Raises `StoreError` if the session does not exist.
    """
    for head in node_tree.heads(connection, session):
        if head.node is not None and node <= head.node and node in ancestors(connection, head.node, node):
            return head.name
    return None


def leaf_below(connection: sqlite3.Connection, node: int) -> int:
    """Return the last node reached from `node` by following its newest descendants."""
    rows = connection.execute(
        "WITH RECURSIVE line (node) AS ("
        "  SELECT ?"
        "  UNION ALL"
        "  SELECT (SELECT max(id) FROM nodes WHERE parent = line.node) FROM line WHERE line.node IS NOT NULL"
        ") SELECT max(node) FROM line",
        (node,),
    )
    return rows.fetchone()[0]


def ancestors(connection: sqlite3.Connection, node: int, oldest: int = 0) -> set[int]:
    """Return the ids of `node` and its ancestors, without those below the id `oldest`."""
    rows = connection.execute(
        "WITH RECURSIVE line (node, up) AS ("
        "  SELECT id, parent FROM nodes WHERE id = :node"
        "  UNION ALL"
        "  SELECT nodes.id, nodes.parent FROM line JOIN nodes ON nodes.id = line.up WHERE line.up >= :oldest"
        ") SELECT node FROM line",
        {"node": node, "oldest": oldest},
    )
    return {each for (each,) in rows}


class BranchPaths:
    """A filter for nodes on branches whose name begins with `begins`, for one search."""

    def __init__(self, begins: str, lineages: Lineages) -> None:
        self._begins = begins
        self._lineages = lineages
        self._paths: dict[str, list[Lineage]] = {}
        """The paths of such branches, by session."""

    def select_nodes(
        self, connection: sqlite3.Connection, nodes: Sequence[int], *, patience: float = PATIENCE
    ) -> list[int] | None:
        """Return those of `nodes` that are on such a branch, in the given order.

        Returns None if that takes longer than `patience` seconds; the next call then continues the work.
        """
        give_up = time.monotonic() + patience
        rows = connection.execute(
            "SELECT id, session FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(nodes),)
        )
        sessions: Mapping[int, str] = dict(rows)
        oldest: dict[str, int] = {}
        for node, session in sessions.items():
            oldest[session] = min(node, oldest.get(session, node))
        for session, node in oldest.items():
            for path in self._paths_of(connection, session):
                while not path.reaches(node):
                    self._lineages.walk(connection, path)
                    if time.monotonic() >= give_up:
                        return None
        return [
            node
            for node in nodes
            if node in sessions and any(path.holds(node) for path in self._paths[sessions[node]])
        ]

    def _paths_of(self, connection: sqlite3.Connection, session: str) -> list[Lineage]:
        if session not in self._paths:
            ends = connection.execute(
                "SELECT DISTINCT node FROM heads "
                "WHERE session = ? AND name LIKE ? ESCAPE '\\' AND node IS NOT NULL ORDER BY node",
                (session, beginning(self._begins)),
            ).fetchall()
            self._paths[session] = [self._lineages.of(connection, session, node) for (node,) in ends]
        return self._paths[session]


def beginning(text: str) -> str:
    """Return the LIKE pattern (with backslash as escape character) for texts that begin with `text`."""
    return literal(text) + "%"


def literal(text: str) -> str:
    """Return `text` escaped for a LIKE pattern, so that it matches only itself."""
    return re.sub(r"([\\%_])", r"\\\1", storable(text))


ROWS = 2_000
"""The number of rows read in one query: it takes a few milliseconds."""

_TEXT = 400
"""The number of a message's characters that are searched for its first line."""
_SHORT = 20_000
"""The largest data of a message, in characters, from which its calls are read for display."""


class OutlineRow(NamedTuple):
    """One node of the tree. It is a named tuple because ten thousand of them are created quickly."""

    id: int
    parent: int | None
    kind: str
    created: float
    """Seconds since the epoch."""
    text: str
    """The first non-empty line of the node's text, cleaned and shortened."""
    step: int | None
    """The step whose recorded file states belong to the node; None if it names none."""
    tool: str
    """The tool that produced a result; empty for other nodes."""
    outcome: str
    """The outcome of a call, `exit` if its program ended with a code other than zero, or the state of a
    message that was cut off; empty for other nodes.
    """
    origin: str
    """The source of a user message."""
    tokens: int | None
    """The tokens the model generated for this message, if its provider reported them."""
    calls: int
    """The number of tool calls that a model's message requests."""
    asked: str = ""
    """The id of a result's call, or the calls of a message as JSON if they are short."""


# SQLite parses the JSON of a row once, however many fields are read from it.
_FIELDS = ("step", "tool", "outcome", "state", "origin", "usage.output")
_QUERY = (
    "SELECT id, parent, kind, created, "
    f"substr(coalesce(json_extract(data, '$.shown'), content), 1, {_TEXT}), "
    + "".join(f"json_extract(data, '$.{name}'), " for name in _FIELDS)
    + f"json_array_length(data, '$.calls'), substr(content, -{_TEXT}), "
    f"CASE WHEN length(data) < {_SHORT} THEN json_extract(data, '$.call', '$.calls') END "
    "FROM nodes WHERE session = ? AND id > ? ORDER BY id LIMIT ?"
)


def outline(connection: sqlite3.Connection, session: str, after: int, count: int = ROWS) -> list[OutlineRow]:
    """Return up to `count` rows of a session after the node `after`, in writing order, from all branches."""
    rows = connection.execute(_QUERY, (session, after, count))
    return [_row(*row) for row in rows]


_CODE = lazy_pattern(r'(?<!\\)"exit_code": (-?[1-9]\d*)')


def ended_as(outcome: object, kind: str, content: str) -> str:
    """Return a node's outcome, from what is stored and the end of its text; `exit` for a failed program."""
    exits = kind == "tool" and outcome == "done" and _CODE.search(content, max(len(content) - _TEXT, 0))
    return "exit" if exits else str(outcome or "")


def without_inner(rows: Iterable[OutlineRow]) -> list[OutlineRow]:
    """Return the rows without tool calls made by scripts. Rows below a removed row get its parent."""
    above: dict[int, int | None] = {}
    kept: list[OutlineRow] = []
    for row in rows:
        parent = row.parent if row.parent is None else above.get(row.parent, row.parent)
        if row.kind == "inner":
            above[row.id] = parent
        else:
            kept.append(row if parent == row.parent else row._replace(parent=parent))
    return kept


def _row(
    node: int,
    parent: int | None,
    kind: str,
    created: float,
    content: str,
    step: object,
    tool: object,
    outcome: object,
    state: object,
    origin: object,
    tokens: object,
    calls: int | None,
    tail: str,
    asked: str | None,
) -> OutlineRow:
    ended = ended_as(outcome or (state if state != "complete" else ""), kind, tail)
    return OutlineRow(
        node,
        parent,
        kind,
        created,
        first_line(content),
        step if isinstance(step, int) else None,
        str(tool or ""),
        ended,
        str(origin or ""),
        tokens if isinstance(tokens, int) else None,
        calls or 0,
        asked or "",
    )
