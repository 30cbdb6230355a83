"""What a search is limited to, as conditions on nodes, and which nodes lie on a branch."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.store.nodes import storable
from agent.store.text import fold

# The last name of a path: what is left behind the part that ends with its last slash.
_NAME = "substr(workspace, length(rtrim(workspace, replace(workspace, '/', ''))) + 1)"
_BODY = "coalesce(nodes.body, nodes.content)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What hits are limited to. Times are seconds since the epoch; empty means everything."""

    roles: tuple[str, ...] = ()
    session: str | None = None
    since: float | None = None
    until: float | None = None
    tool: str | None = None
    """Only results of the tool of exactly this name."""
    session_begins: str = ""
    """Only sessions whose id begins like this."""
    tool_begins: str = ""
    """Only results of tools whose name begins like this, and messages that call one."""
    project: str = ""
    """Only sessions in folders with this in their name; with a slash in it, in their path."""
    branch: str = ""
    """Only messages on a branch whose name begins like this, what it has in common with others included."""
    without: tuple[str, ...] = ()
    """Only messages in which none of these occurs."""

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return self != Filters()


def conditions_of(filters: Filters) -> tuple[list[str], list[Any]]:
    """SQL conditions on `nodes`, and their values. The branch narrows sessions only: see `BranchPaths`."""
    conditions: list[str] = []
    values: list[Any] = []

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(storable(each) if isinstance(each, str) else each for each in given)

    if filters.roles:
        add(f"nodes.kind IN ({', '.join('?' * len(filters.roles))})", *filters.roles)
    if filters.session is not None:
        add("nodes.session = ?", filters.session)
    if filters.session_begins:
        add("nodes.session LIKE ? ESCAPE '\\'", _literal(filters.session_begins) + "%")
    if filters.since is not None:
        add("nodes.created >= ?", filters.since)
    if filters.until is not None:
        add("nodes.created <= ?", filters.until)
    if filters.tool is not None:
        add("json_extract(nodes.data, '$.tool') = ?", filters.tool)
    if filters.tool_begins:
        add(_TOOL_BEGINS, *[_literal(filters.tool_begins) + "%"] * 2)
    if filters.project:
        name = "workspace" if "/" in filters.project else _NAME
        add(
            f"nodes.session IN (SELECT id FROM sessions WHERE {name} LIKE ? ESCAPE '\\')",
            _part(filters.project),
        )
    if filters.branch:
        add(
            "nodes.session IN (SELECT session FROM heads WHERE name LIKE ? ESCAPE '\\')",
            _literal(filters.branch) + "%",
        )
    for word in filters.without:
        for each in spellings(fold(word)):
            add(f"{_BODY} NOT LIKE ? ESCAPE '\\'", _part(each))
    return conditions, values


_TOOL_BEGINS = (
    "CASE nodes.kind WHEN 'tool' THEN json_extract(nodes.data, '$.tool') LIKE ? ESCAPE '\\' "
    "WHEN 'assistant' THEN EXISTS (SELECT 1 FROM json_each(nodes.data, '$.calls') AS asked "
    "WHERE asked.type = 'object' AND json_extract(asked.value, '$.name') LIKE ? ESCAPE '\\') "
    "ELSE 0 END"
)


def like(word: str) -> tuple[str, list[str]]:
    """The condition that a folded word occurs in a node's text, and its values."""
    ways = spellings(word)
    conditions = [f"{_BODY} LIKE ? ESCAPE '\\'"] * len(ways)
    return f"({' OR '.join(conditions)})", [_part(way) for way in ways]


def spellings(word: str) -> tuple[str, ...]:
    """The word in the cases it is likely to be written in: SQL compares only ASCII without regard to case."""
    if word.isascii():
        return (word,)
    return tuple(dict.fromkeys((word, word.lower(), word.upper(), word.strip().capitalize())))


def _literal(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


def _part(text: str) -> str:
    return f"%{_literal(text)}%"


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
            (storable(_literal(self.begins)) + "%", session),
        ).fetchall()
        (count,) = connection.execute("SELECT count(*) FROM nodes WHERE session = ?", (session,)).fetchone()
        if any(depth == count for _, depth, fits in heads if fits):
            # As long as the session has nodes: nothing ever forked.
            return None
        found: set[int] = set()
        for node, _, fits in heads:
            if fits and node is not None:
                found |= _lineage(connection, node)
        return frozenset(found)


def _lineage(connection: sqlite3.Connection, node: int) -> set[int]:
    """The ids from the root to a node."""
    rows = connection.execute(
        "WITH RECURSIVE line (node, up) AS ("
        "  SELECT id, parent FROM nodes WHERE id = ?"
        "  UNION ALL"
        "  SELECT nodes.id, nodes.parent FROM line JOIN nodes ON nodes.id = line.up"
        ") SELECT node FROM line",
        (node,),
    )
    return {each for (each,) in rows}
