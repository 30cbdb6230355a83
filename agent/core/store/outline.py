"""The whole tree of a session in light rows: what a drawing of it needs, and no message in full."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from agent.core.store.node_text import first_line

ROWS = 2_000
"""Rows read in one go: a few milliseconds."""

_TEXT = 400
"""Characters of a message that are looked at for its first line."""


class OutlineRow(NamedTuple):
    """One node of the tree. A named tuple: ten thousand of them are made while somebody waits."""

    id: int
    parent: int | None
    kind: str
    created: float
    """Seconds since the epoch."""
    text: str
    """The first line that says anything, cleaned and shortened."""
    step: int | None
    """The position on the line of file steps, where the node says one."""
    tool: str
    """The tool a result came from; empty for the rest."""
    outcome: str
    """How a call ended, or the state of a message that was cut off; empty for the rest."""
    origin: str
    """How a user message came in."""
    tokens: int | None
    """Tokens the model wrote in this message, where its provider said so."""
    calls: int
    """Calls a message of the model asks for."""


# SQLite parses the JSON of a row once, however many fields are taken out of it.
_FIELDS = ("step", "tool", "outcome", "state", "origin", "usage.output")
_QUERY = (
    f"SELECT id, parent, kind, created, substr(content, 1, {_TEXT}), "
    + "".join(f"json_extract(data, '$.{name}'), " for name in _FIELDS)
    + "json_array_length(data, '$.calls') "
    "FROM nodes WHERE session = ? AND id > ? ORDER BY id LIMIT ?"
)


def outline(connection: sqlite3.Connection, session: str, after: int, count: int = ROWS) -> list[OutlineRow]:
    """The next rows of a session in the order they were written, whatever their branch."""
    rows = connection.execute(_QUERY, (session, after, count))
    return [_row(*row) for row in rows]


def without_inner(rows: Iterable[OutlineRow]) -> list[OutlineRow]:
    """The rows without the calls of scripts; what hangs below one hangs below what it hangs below. Pure."""
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
) -> OutlineRow:
    ended = outcome or (state if state != "complete" else "")
    return OutlineRow(
        node,
        parent,
        kind,
        created,
        first_line(content),
        step if isinstance(step, int) else None,
        str(tool or ""),
        str(ended or ""),
        str(origin or ""),
        tokens if isinstance(tokens, int) else None,
        calls or 0,
    )
