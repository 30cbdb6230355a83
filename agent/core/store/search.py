"""Search over everything that was ever said, in steps too short to keep a writer waiting.

First the newest hits are collected, newest first, at most `MAX_HITS`; then only
those are ranked. Ranking all hits of a common word would take seconds at a
million messages. Whole words come from one index; parts of words, the word that
is still being typed, code and scripts without blanks from a trigram index; one
or two characters, which no index holds, from reading the newest messages.

Both indexes are read window by window over node ids. A window grows while its
step is quick and shrinks when it is slow, so each step holds the lock for a few
milliseconds only, on the one connection that also writes.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from agent.core.store import node_tree, ranking, session_list
from agent.core.store.branches import BranchPaths
from agent.core.store.connection import Database
from agent.core.store.filters import Filters, conditions_of, like
from agent.core.store.lineage import Lineages
from agent.core.store.node_text import readable
from agent.core.store.nodes import Node, Session, storable
from agent.core.store.query import Query, parse

MAX_HITS = 500
"""Newest hits that are counted and ranked."""

PATIENCE = 0.005
"""Seconds that may go into older messages once the newest were searched: right for search while typing."""

_FIRST_WINDOW = 20_000
"""Node ids that are searched whatever it takes."""

_FIRST_SCAN = 4_000
"""The same where no index helps."""

_LARGEST_WINDOW = 250_000
"""A window that was quick may be followed by a slow one, so none grows beyond this."""

_QUICK, _SLOW = 0.001, 0.004
"""Seconds of a step below which the next window is larger, and above which it is smaller."""

_MESSAGES = ("user", "assistant", "tool")
Order = Literal["rank", "newest"]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A node that matches. `snippet` is its text around the match, on one line."""

    node: int
    session: str
    title: str
    kind: str
    created: float
    snippet: str
    workspace: str
    tool: str
    """The tool a result came from; empty for the rest."""
    source: str = "messages"
    """What kind of thing was found: `messages`, or the name of another source of recall."""
    ways: tuple[str, ...] = ()
    """How it was found, such as `words`, `nearby`, `date`, `meaning`; see `agent.knowledge.recall.recall`."""
    text: str = ""
    """The beginning of what is no message, without secrets: it stands nowhere else."""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """One page of hits. `complete` is False if patience ended before the oldest message was reached."""

    total: int
    """Up to `MAX_HITS`."""
    hits: tuple[SearchHit, ...]
    complete: bool
    note: str = ""
    """What a person has to know of how it was searched, in a sentence."""


async def search(
    database: Database,
    text: str,
    filters: Filters,
    *,
    limit: int,
    offset: int,
    order: Order,
    patience: float,
    secrets: Mapping[str, str] | None = None,
    lineages: Lineages | None = None,
) -> SearchHits:
    """The page of hits for what a person typed. Raises `StoreError`, never for what was typed.

    `lineages` are the paths that searches before this one came to know.
    """
    query = parse(text)
    ids, complete = await matching(
        database, query, filters, order=order, patience=patience, lineages=lineages
    )
    start = session_list.bounded(offset)
    wanted = ids[start : start + session_list.bounded(limit)]
    if not ids:
        return SearchHits(0, (), complete)
    return SearchHits(len(ids), await hits_of(database, query, wanted, secrets), complete)


async def matching(
    database: Database,
    query: Query,
    filters: Filters,
    *,
    order: Order,
    patience: float,
    lineages: Lineages | None = None,
) -> tuple[list[int], bool]:
    """At most `MAX_HITS` nodes that hold all that is asked for, and whether the search was complete."""
    paths = BranchPaths(filters.branch, lineages or Lineages()) if filters.branch else None
    found, complete = await _collect(database, query, filters, paths, patience)
    if order == "newest" or not found:
        return sorted(found, reverse=True), complete
    return await database.read(lambda connection: ranking.ranked(connection, query, found)), complete


async def hits_of(
    database: Database, query: Query, nodes: Sequence[int], secrets: Mapping[str, str] | None = None
) -> tuple[SearchHit, ...]:
    """What is shown of these nodes, in their order; those whose session is gone are left out."""
    return await database.read(lambda connection: tuple(_hits(connection, query, nodes, secrets or {})))


class _Step(NamedTuple):
    """One way of looking through all messages."""

    table: str
    """`words`, `trigrams`, or empty: reading the messages themselves."""
    match: str | None
    """What the index is asked for."""
    contained: tuple[str, ...]
    """Folded terms that are looked for in the messages themselves."""
    whole: bool
    """Whether what it finds holds whole words."""
    is_last_resort: bool = False
    """Whether it counts only where nothing else found anything."""


def _steps(query: Query, filters: Filters) -> Iterator[_Step]:
    """The ways to look, the most exact first.

    The index over words knows no symbols: `C++` is a lone `c` to it. So it comes first for
    plain words, and for other terms only with the symbols looked for beside it, or in the end.
    """
    if not query.terms:
        if filters:
            yield _Step("", None, (), True)
        return
    by_parts = query.trigrams is not None
    if query.words is not None and (query.is_plain or not by_parts):
        yield _Step("words", query.words, () if query.is_plain else query.terms, True)
    if by_parts:
        yield _Step("trigrams", query.trigrams, query.short, False)
    else:
        yield _Step("", None, query.short, False)
    if query.words is not None and not query.is_plain:
        yield _Step("words", query.words, (), False, is_last_resort=True)


async def _collect(
    database: Database, query: Query, filters: Filters, paths: BranchPaths | None, patience: float
) -> tuple[dict[int, bool], bool]:
    """The newest hits, and whether each one holds whole words; and whether the search was complete."""
    found: dict[int, bool] = {}
    complete = True
    give_up = time.monotonic() + patience
    for step in _steps(query, filters):
        if len(found) >= MAX_HITS or (found and step.is_last_resort):
            break
        ids, reached = await _windows(database, step, filters, paths, give_up)
        for node in ids:
            found.setdefault(node, step.whole)
        complete = complete and reached
    newest = sorted(found, reverse=True)[:MAX_HITS]
    return {node: found[node] for node in newest}, complete


async def _windows(
    database: Database, step: _Step, filters: Filters, paths: BranchPaths | None, give_up: float
) -> tuple[list[int], bool]:
    """Matching ids, newest first, and whether the search got to the end (of ids or of `MAX_HITS`)."""
    statement, values = _statement(step, filters)
    window = _FIRST_WINDOW if step.table else _FIRST_SCAN
    low, high = await database.read(lambda connection: _range(connection, filters.session))
    first = True
    ids: list[int] = []
    while high > low and len(ids) < MAX_HITS:
        if not first and time.monotonic() >= give_up:
            return ids, False
        bottom, room = max(low, high - window), MAX_HITS - len(ids)
        seconds, rows = await database.read(partial(_timed, statement, [*values, bottom, high, room]))
        found = [node for (node,) in rows]
        ids += found if paths is None else await held(database, paths, found)
        if seconds < _QUICK:
            window = min(window * 4, _LARGEST_WINDOW)
        elif seconds > _SLOW:
            window = max(window // 2, 1_000)
        # A window that gave all it was asked for may hold more.
        high, first = (found[-1] - 1 if len(found) == room else bottom), False
    return ids, True


async def held(database: Database, paths: BranchPaths, found: list[int]) -> list[int]:
    """Those that lie on a branch that is asked for."""
    held = None if found else []
    while held is None:
        held = await database.read(partial(paths.held, nodes=found))
    return held


def _timed(statement: str, values: list[Any], connection: sqlite3.Connection) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    rows = connection.execute(statement, values).fetchall()
    return time.perf_counter() - start, rows


def _range(connection: sqlite3.Connection, session: str | None) -> tuple[int, int]:
    """The ids to search: above the first, up to the second."""
    where, values = ("", ()) if session is None else (" WHERE session = ?", (storable(session),))
    # Two statements: SQLite answers min or max from an index, but not both at once.
    (low,) = connection.execute(f"SELECT min(id) FROM nodes{where}", values).fetchone()
    (high,) = connection.execute(f"SELECT max(id) FROM nodes{where}", values).fetchone()
    return (0, 0) if low is None else (low - 1, high)


def _statement(step: _Step, filters: Filters) -> tuple[str, list[Any]]:
    """SQL that finds ids in a window, and its values; window and limit are still to be added."""
    conditions, values = conditions_of(filters)
    index = step.table
    if index:
        conditions.insert(0, f"{index} MATCH ?")
        values.insert(0, step.match)
    source, key = (index, f"{index}.rowid") if index else ("nodes", "nodes.id")
    for term in step.contained:
        condition, patterns = like(term)
        conditions.append(condition)
        values += patterns
    if not index:
        conditions.append("nodes.body IS NOT ''")
    elif len(conditions) > 1:
        # CROSS JOIN keeps SQLite from turning the loop around.
        source += f" CROSS JOIN nodes ON nodes.id = {key}"
    where = " AND ".join([*conditions, f"{key} > ?", f"{key} <= ?"])
    return f"SELECT {key} FROM {source} WHERE {where} ORDER BY {key} DESC LIMIT ?", values


def _hits(
    connection: sqlite3.Connection, query: Query, ids: Sequence[int], secrets: Mapping[str, str]
) -> Iterator[SearchHit]:
    for node, title, workspace in _with_sessions(connection, ids):
        text = readable(node.kind, node.content, node.data)
        yield SearchHit(
            node.id,
            node.session,
            title,
            node.kind,
            node.created,
            ranking.snippet(text, query, secrets),
            workspace,
            str(node.data.get("tool") or ""),
        )


def _with_sessions(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[Node, str, str]]:
    """The nodes in the order given, each with title and folder of its session.

    A session that is just being deleted has none left to show.
    """
    rows = connection.execute(
        "SELECT nodes.id, nodes.session, nodes.parent, kind, nodes.created, content, data, "
        "title, workspace FROM nodes JOIN sessions ON sessions.id = nodes.session "
        "WHERE nodes.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    found = {row[0]: row for row in rows}
    for node in ids:
        if node in found:
            *fields, title, workspace = found[node]
            yield node_tree.load(tuple(fields)), title, workspace


def around(connection: sqlite3.Connection, node: int, window: int) -> list[Node]:
    """The node with up to `window` messages of people, model and tools on either side of it.

    Afterwards means along the newest branch. Empty if there is no such node.
    """
    window = session_list.bounded(window)
    # System, notice and compaction nodes lie between messages, so look a little further than asked.
    reach = 2 * window + 8
    before = node_tree.lineage(connection, node, reach + 1)
    if not before or before[-1].id != node:
        return []
    after = node_tree.offspring(connection, node, reach)
    said_before = [each for each in before[:-1] if each.kind in _MESSAGES]
    said_after = [each for each in after if each.kind in _MESSAGES]
    return [*said_before[max(0, len(said_before) - window) :], before[-1], *said_after[:window]]


def around_hit(connection: sqlite3.Connection, hit: SearchHit, window: int) -> tuple[Session, list[Node]]:
    """The session of a hit, and the messages around it. Raises `NoSession`."""
    return session_list.get(connection, hit.session), around(connection, hit.node, window)
