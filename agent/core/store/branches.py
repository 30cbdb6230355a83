"""Tells which messages lie on which branch."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence

from agent.core.store import node_tree
from agent.core.store.lineage import Lineage, Lineages
from agent.core.store.nodes import storable

PATIENCE = 0.004
"""Seconds for which paths are walked in one go, while a writer may be waiting."""


def head_with(connection: sqlite3.Connection, session: str, node: int) -> str | None:
    """The branch a node lies on, of several the one used last; None: of a path that no branch names.

    Raises `StoreError` if there is no such session.
    """
    for head in node_tree.heads(connection, session):
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


class BranchPaths:
    """Which nodes lie on branches whose name begins with `begins`, in one search."""

    def __init__(self, begins: str, lineages: Lineages) -> None:
        self._begins = begins
        self._lineages = lineages
        self._paths: dict[str, list[Lineage]] = {}
        """Of each session, the paths of such branches."""

    def held(
        self, connection: sqlite3.Connection, nodes: Sequence[int], *, patience: float = PATIENCE
    ) -> list[int] | None:
        """Those of `nodes` that lie on such a branch, in the order given.

        None where that cannot be told within `patience` (seconds): ask again, and it goes on from there.
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
    """The LIKE pattern (escaped by a backslash) of what begins with `text`."""
    return literal(text) + "%"


def literal(text: str) -> str:
    """`text` within a LIKE pattern."""
    return re.sub(r"([\\%_])", r"\\\1", storable(text))
