"""Usage of ended agents of a home, to forecast that of others."""

from __future__ import annotations

import json
import sqlite3

from agent.session.spending.request_table import LARGEST

LAST = 100
"""Agents that are looked at, those that ended last."""

WORKED = frozenset({"completed", "failed", "budget"})
"""Ends of agents that had time to work; the others were stopped by somebody."""

_ENDS = """
SELECT (
    SELECT data FROM nodes
    WHERE session = sent.id AND kind = 'notice' AND json_extract(data, '$.kind') = ?
    ORDER BY id DESC LIMIT 1
)
FROM (SELECT id FROM sessions WHERE parent IS NOT NULL ORDER BY updated DESC LIMIT ?) AS sent
WHERE NOT EXISTS (
    SELECT 1 FROM nodes
    WHERE session = sent.id AND kind = 'notice' AND json_extract(data, '$.task.only_answers')
)
"""


def tokens_of_ended(connection: sqlite3.Connection, ended: str) -> list[int]:
    """Tokens that each of the last agents took. `ended` is the kind of the node at the end of their work.

    Those that only answered a question say nothing about others.
    """
    taken = (_taken(data) for (data,) in connection.execute(_ENDS, (ended, LAST)) if data is not None)
    return [tokens for tokens in taken if tokens > 0]


def _taken(data: str) -> int:
    """Tokens as the node of an end tells them; 0 where it does not, or the agent hardly worked."""
    told = json.loads(data)
    usage = told.get("usage")
    if told.get("outcome") not in WORKED or not isinstance(usage, dict):
        return 0
    counts = [usage.get(name) for name in ("input", "output", "assumed")]
    return min(sum(max(count, 0) for count in counts if isinstance(count, int)), LARGEST)
