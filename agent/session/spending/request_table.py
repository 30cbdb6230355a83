"""Requests as rows of the store, and sums of them."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from agent.core.store.nodes import storable
from tools.text.words import one_line

State = Literal["open", "counted", "assumed"]
Grouping = Literal["day", "model", "project", "agent"]
GROUPINGS: tuple[Grouping, ...] = ("day", "model", "project", "agent")

MAIN, SIDE, SENT = "main", "side", "agent:"
"""Values of `agent`: the session's agent, the side model of the smart mode, a subagent (as a prefix)."""

LARGEST = 2**40
"""The largest accepted count, so that sums stay whole numbers that SQLite can hold."""

AHEAD = 2
"""The number of days after today that count as today, in case the clock ran ahead and was then corrected."""

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The payer of a request. `session` is the session itself, even for requests of its subagents."""

    session: str
    project: str
    agent: str
    model: str


@dataclass(frozen=True, slots=True)
class RequestAmount:
    """Tokens and US dollars of a request; `cached` is part of `input`. A `cost` of None means that the price
    is unknown.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class RequestSum:
    """The sum of requests of one model with the same `key`, which were all counted or not, and all priced or
    not.
    """

    key: str
    model: str
    counted: bool
    requests: int
    input: int
    cached: int
    output: int
    cost: float | None


def agent_name(name: str) -> str:
    """Return the stored form of a subagent's name, which a model may have chosen: one short line."""
    return SENT + one_line(name)[:LONGEST_NAME]


def local_day(moment: float) -> str:
    """Return the date of a moment (seconds since the epoch) in the computer's time zone, as `YYYY-MM-DD`."""
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def days_from(day: str, count: int) -> str:
    """Return the date `count` days after the date `day`."""
    return (date.fromisoformat(day) + timedelta(days=count)).isoformat()


def add(
    connection: sqlite3.Connection,
    payer: Payer,
    amount: RequestAmount,
    state: State,
    created: float,
    process: int,
) -> int:
    """Insert a request; return its id."""
    cursor = connection.execute(
        "INSERT INTO requests (created, day, process, session, project, agent, model, state, "
        "input, cached, output, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            created,
            local_day(created),
            process,
            *(storable(text) for text in (payer.session, payer.project, payer.agent, payer.model)),
            state,
            *_counts(amount),
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def close(connection: sqlite3.Connection, request: int, amount: RequestAmount | None) -> None:
    """Record the usage of an open request; None means that it is unknown, so its maximum is kept."""
    if amount is None:
        connection.execute("UPDATE requests SET state = 'assumed' WHERE id = ?", (request,))
        return
    connection.execute(
        "UPDATE requests SET state = 'counted', input = ?, cached = ?, output = ?, cost = ? WHERE id = ?",
        (*_counts(amount), request),
    )


def drop(connection: sqlite3.Connection, request: int) -> None:
    """Delete a request that was never processed."""
    connection.execute("DELETE FROM requests WHERE id = ?", (request,))


def _counts(amount: RequestAmount) -> tuple[int, int, int, float | None]:
    taken = _bound_count(amount.input)
    return taken, min(_bound_count(amount.cached), taken), _bound_count(amount.output), amount.cost


def _bound_count(count: int) -> int:
    return min(max(count, 0), LARGEST)


def sums(
    connection: sqlite3.Connection,
    by: Grouping | None,
    *,
    since: str = "",
    until: str = "",
    session: str = "",
) -> list[RequestSum]:
    """Return sums of requests by `by`, model and state; only those of the days and session, if given."""
    wanted = {"day >= ?": since, "day <= ?": until, "session = ?": session}
    given = {condition: value for condition, value in wanted.items() if value}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    assert by is None or by in GROUPINGS
    rows = connection.execute(
        f"SELECT {by or repr('')}, model, state = 'counted', count(*), sum(input), sum(cached), sum(output), "
        f"sum(cost), cost IS NULL FROM requests {where} GROUP BY 1, 2, 3, 9",
        tuple(given.values()),
    )
    return [RequestSum(key, model, bool(sure), *counts) for key, model, sure, *counts, _ in rows]


def under_way(connection: sqlite3.Connection, since: float, session: str = "") -> bool:
    """Return whether requests begun at `since` or later are still open, and their process is running."""
    rows = connection.execute(
        "SELECT DISTINCT process FROM requests WHERE state = 'open' AND created >= ? AND session = ?"
        if session
        else "SELECT DISTINCT process FROM requests WHERE state = 'open' AND created >= ?",
        (since, session) if session else (since,),
    )
    return any(_lives(process) for (process,) in rows.fetchall())


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # The request belongs to another process, but it exists.
        return True
    return True


def today_of(now: float) -> tuple[str, str]:
    """Return the first and the last day that count as today.

    The last one is in the future, because the clock may have been set back since a request was recorded.
    """
    today = local_day(now)
    return today, days_from(today, AHEAD)


LAST = 100
"""The number of most recently ended agents that are considered."""

WORKED = frozenset({"completed", "failed", "budget"})
"""Outcomes of agents that had time to work; agents with other outcomes were stopped early."""

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
    """Return the tokens used by each of the agents that ended last. `ended` is the kind of their final node.

    Left out are agents that only answered a question, were stopped early, or whose usage is unknown.
    """
    taken = (_token_count(data) for (data,) in connection.execute(_ENDS, (ended, LAST)) if data is not None)
    return [tokens for tokens in taken if tokens > 0]


def _token_count(data: str) -> int:
    """Return the tokens in an agent's final node; 0 if it gives none, or the agent was stopped early."""
    told = json.loads(data)
    usage = told.get("usage")
    if told.get("outcome") not in WORKED or not isinstance(usage, dict):
        return 0
    counts = [usage.get(name) for name in ("input", "output", "assumed")]
    return min(sum(max(count, 0) for count in counts if isinstance(count, int)), LARGEST)
