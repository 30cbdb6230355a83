"""Which messages lie on which branch."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.store import tree
from agent.store.nodes import storable


def head_with(connection: sqlite3.Connection, session: str, node: int) -> str | None:
    """The branch a node lies on, of several the one used last; None: of a path that no branch names.

    Raises `StoreError` if there is no such session.
    """
    for head in tree.heads(connection, session):
        if head.node is not None and node <= head.node and node in ancestors(connection, head.node, node):
            return head.name
    return None


def leaf_below(connection: sqlite3.Connection, node: int) -> int:
    """The last node after one; where the path forks, along the newest branch."""
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
    """The ids on the path to a node, itself included, as far back as the id `oldest`."""
    rows = connection.execute(
        "WITH RECURSIVE line (node, up) AS ("
        "  SELECT id, parent FROM nodes WHERE id = :node"
        "  UNION ALL"
        "  SELECT nodes.id, nodes.parent FROM line JOIN nodes ON nodes.id = line.up WHERE line.up >= :oldest"
        ") SELECT node FROM line",
        {"node": node, "oldest": oldest},
    )
    return {each for (each,) in rows}


@dataclass(slots=True)
class BranchPaths:
    """Which nodes lie on branches whose name begins with `begins`, session by session."""

    begins: str
    _known: dict[str, frozenset[int] | None] = field(default_factory=dict)
    """Nodes on such a branch; None: all of the session."""

    def held(self, connection: sqlite3.Connection, nodes: Sequence[int]) -> list[int]:
        """Those of `nodes` that lie on such a branch, in the order given."""
        rows = connection.execute(
            "SELECT id, session FROM nodes WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(nodes),)
        )
        sessions: Mapping[int, str] = dict(rows)
        return [node for node in nodes if node in sessions and self._holds(connection, sessions[node], node)]

    def _holds(self, connection: sqlite3.Connection, session: str, node: int) -> bool:
        if session not in self._known:
            self._known[session] = self._path(connection, session)
        path = self._known[session]
        return path is None or node in path

    def _path(self, connection: sqlite3.Connection, session: str) -> frozenset[int] | None:
        heads = connection.execute(
            "SELECT heads.node, coalesce(nodes.depth, 0), heads.name LIKE ? ESCAPE '\\' "
            "FROM heads LEFT JOIN nodes ON nodes.id = heads.node WHERE heads.session = ?",
            (beginning(self.begins), session),
        ).fetchall()
        (count,) = connection.execute("SELECT count(*) FROM nodes WHERE session = ?", (session,)).fetchone()
        if any(depth == count for _, depth, fits in heads if fits):
            # As long as the session has nodes: nothing ever forked.
            return None
        found: set[int] = set()
        for node, _, fits in heads:
            if fits and node is not None:
                found |= ancestors(connection, node)
        return frozenset(found)


def beginning(text: str) -> str:
    """The LIKE pattern (escaped by a backslash) of what begins with `text`."""
    return literal(text) + "%"


def literal(text: str) -> str:
    """`text` within a LIKE pattern."""
    return re.sub(r"([\\%_])", r"\\\1", storable(text))
