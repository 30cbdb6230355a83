"""Search over all messages, in steps too short to keep a writer waiting.

First the newest hits are collected, at most `MAX_HITS`; then only those are ranked. Ranking all hits of a
common word would take seconds at a million messages. Whole words come from one index. Parts of words, the
unfinished last word, code and scripts without spaces come from a trigram index. For one or two characters,
which are in neither index, the newest messages are read.

Both indexes are read window by window over node ids. A window grows while its step is quick and shrinks when
it is slow, so each step holds the lock for a few milliseconds only, on the one connection that also writes.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from agent.core.store import node_tree, session_list
from agent.core.store.branches import BranchPaths, Lineages
from agent.core.store.connection import Database
from agent.core.store.nodes import Node, Session, fold, readable, storable
from agent.core.store.query_line import Filters, Query, conditions_of, like, parse
from tools.text.redact import redact
from tools.text.words import one_line

MAX_HITS = 500
"""The number of newest hits that are counted and ranked."""

PATIENCE = 0.005
"""Seconds for searching older messages after the newest were searched: right for search while typing."""

_FIRST_WINDOW = 20_000
"""The number of node ids that are always searched, however long it takes."""

_FIRST_SCAN = 4_000
"""The same number for steps without an index."""

_LARGEST_WINDOW = 250_000
"""The limit on a window's node ids, because a quick window may be followed by a slow one."""

_QUICK, _SLOW = 0.001, 0.004
"""Seconds of a step below which the next window is larger, and above which it is smaller."""

_MESSAGES = ("user", "assistant", "tool")
Order = Literal["rank", "newest"]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match. `snippet` is its text around the match, on one line."""

    node: int
    session: str
    title: str
    kind: str
    created: float
    snippet: str
    workspace: str
    tool: str
    """The tool that produced a result; empty for other nodes."""
    source: str = "messages"
    """The source of the hit: `messages`, or the name of another source that recall searches."""
    ways: tuple[str, ...] = ()
    """The ways it was found, such as `words`, `nearby`, `date`; see `agent.knowledge.recall.recall`."""
    text: str = ""
    """The beginning of a hit that is not a message, without secrets; it is not stored elsewhere."""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """One page of hits. `complete` is False if the search stopped before the oldest message."""

    total: int
    """The number of hits found, at most `MAX_HITS`."""
    hits: tuple[SearchHit, ...]
    complete: bool
    note: str = ""
    """A sentence for the user about how the search was done; empty if there is nothing to add."""


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
    """Return a page of hits for a text that the user typed. Raises `StoreError`, but never because of the
    text.

    `lineages` is the cache of branch paths from earlier searches.
    """
    query = parse(text)
    ids, complete = await matching(
        database, query, filters, order=order, patience=patience, lineages=lineages
    )
    start = session_list.bound_count(offset)
    wanted = ids[start : start + session_list.bound_count(limit)]
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
    """Return at most `MAX_HITS` ids of matching nodes, in `order`, and whether the search was complete."""
    paths = BranchPaths(filters.branch, lineages or Lineages()) if filters.branch else None
    found, complete = await _collect(database, query, filters, paths, patience)
    if order == "newest" or not found:
        return sorted(found, reverse=True), complete
    return await database.read(lambda connection: rank_hits(connection, query, found)), complete


async def hits_of(
    database: Database, query: Query, nodes: Sequence[int], secrets: Mapping[str, str] | None = None
) -> tuple[SearchHit, ...]:
    """Return the hits for these nodes, in their order; nodes of deleted sessions are left out."""
    return await database.read(lambda connection: tuple(_hits(connection, query, nodes, secrets or {})))


class _Step(NamedTuple):
    """One method of searching all messages; a search uses several in turn."""

    table: str
    """The index that is used: `words`, `trigrams`, or empty to read the messages themselves."""
    match: str | None
    """The FTS5 expression for the index; None without one."""
    contained: tuple[str, ...]
    """Folded terms that are searched in the text of the messages."""
    whole: bool
    """True if its hits contain the terms as whole words."""
    is_last_resort: bool = False
    """True if it is used only when no earlier step found anything."""


def _steps(query: Query, filters: Filters) -> Iterator[_Step]:
    """Yield the search methods to use, the most exact first.

    The word index has no symbols: `C++` is a lone `c` in it. So it is used first for plain words. For other
    terms it is used only together with a check for the symbols, or as the last method.
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
    """Return the newest hits, and whether the search was complete.

    The value for each hit is True if it contains the terms as whole words.
    """
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
    """Return matching ids, newest first, and whether the search was complete.

    It is complete if all ids were searched or `MAX_HITS` were found before the time `give_up`.
    """
    statement, values = _statement(step, filters)
    window = _FIRST_WINDOW if step.table else _FIRST_SCAN
    low, high = await database.read(lambda connection: _range(connection, filters.session))
    first = True
    ids: list[int] = []
    while high > low and len(ids) < MAX_HITS:
        if not first and time.monotonic() >= give_up:
            return ids, False
        bottom, room = max(low, high - window), MAX_HITS - len(ids)
        seconds, rows = await database.read(partial(_time_query, statement, [*values, bottom, high, room]))
        found = [node for (node,) in rows]
        ids += found if paths is None else await on_branches(database, paths, found)
        if seconds < _QUICK:
            window = min(window * 4, _LARGEST_WINDOW)
        elif seconds > _SLOW:
            window = max(window // 2, 1_000)
        # A full window may contain more hits.
        high, first = (found[-1] - 1 if len(found) == room else bottom), False
    return ids, True


async def on_branches(database: Database, paths: BranchPaths, found: list[int]) -> list[int]:
    """Return those of the nodes that are on a requested branch."""
    held = None if found else []
    while held is None:
        held = await database.read(partial(paths.select_nodes, nodes=found))
    return held


def _time_query(statement: str, values: list[Any], connection: sqlite3.Connection) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    rows = connection.execute(statement, values).fetchall()
    return time.perf_counter() - start, rows


def _range(connection: sqlite3.Connection, session: str | None) -> tuple[int, int]:
    """Return the range of ids to search: the ids greater than the first number, up to the second."""
    where, values = ("", ()) if session is None else (" WHERE session = ?", (storable(session),))
    # Two statements: SQLite answers min or max from an index, but not both at once.
    (low,) = connection.execute(f"SELECT min(id) FROM nodes{where}", values).fetchone()
    (high,) = connection.execute(f"SELECT max(id) FROM nodes{where}", values).fetchone()
    return (0, 0) if low is None else (low - 1, high)


def _statement(step: _Step, filters: Filters) -> tuple[str, list[Any]]:
    """Return SQL that finds ids in a window, and its values. The caller appends the values for the window and
    the limit.
    """
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
            snippet(text, query, secrets),
            workspace,
            str(node.data.get("tool") or ""),
        )


def _with_sessions(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[Node, str, str]]:
    """Yield the nodes in the given order, each with title and folder of its session.

    Nodes of a session that is being deleted are left out.
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
    """Return a node with up to `window` messages of user, model and tools before and after it.

    At a fork, later messages are taken from the newest branch. Returns an empty list if the node does not
    exist.
    """
    window = session_list.bound_count(window)
    # System, notice and compaction nodes lie between messages, so read a little further.
    reach = 2 * window + 8
    before = node_tree.lineage(connection, node, reach + 1)
    if not before or before[-1].id != node:
        return []
    after = node_tree.offspring(connection, node, reach)
    said_before = [each for each in before[:-1] if each.kind in _MESSAGES]
    said_after = [each for each in after if each.kind in _MESSAGES]
    return [*said_before[max(0, len(said_before) - window) :], before[-1], *said_after[:window]]


def around_hit(connection: sqlite3.Connection, hit: SearchHit, window: int) -> tuple[Session, list[Node]]:
    """Return the session of a hit, and the messages around it. Raises `NoSession`."""
    return session_list.get(connection, hit.session), around(connection, hit.node, window)


Span = tuple[int, int]
"""A range of characters: the first index, and the index after the last one."""

MOST = 200
"""The number of positions that are returned for one text."""


def spans(text: str, query: Query) -> list[Span]:
    """Return the positions of all terms, in order and without overlaps, at most `MOST`.

    A term matches in any case and with or without accents. If it does not occur as typed, it is searched with
    any punctuation or spaces between its words.
    """
    folded, origin = _fold_text(text)
    found: list[Span] = []
    for term in query.terms:
        wanted = term.strip().lower()
        places = list(_places(folded, re.escape(wanted))) if wanted else []
        if not places and (words := re.findall(r"\w+", wanted)):
            places = list(_places(folded, r"[\W_]+".join(map(re.escape, words))))
        found += [(origin[start], origin[end - 1] + 1) if origin else (start, end) for start, end in places]
    return _apart(sorted(found))[:MOST]


def _places(text: str, pattern: str) -> Iterator[Span]:
    for count, match in enumerate(re.finditer(pattern, text)):
        if count >= MOST:
            return
        yield match.span()


def _fold_text(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and the original index of each of its characters.

    The list of indexes is empty if folding changes no positions.
    """
    if text.isascii():
        return text.lower(), []
    pieces: list[str] = []
    origin: list[int] = []
    for index, character in enumerate(text):
        piece = fold(character).lower()
        pieces.append(piece)
        origin += [index] * len(piece)
    return "".join(pieces), origin


def _apart(found: list[Span]) -> list[Span]:
    """Return the positions with overlapping and adjacent ones merged."""
    joined: list[Span] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


_K, _B, _USUAL = 1.2, 0.75, 400.0
"""BM25's weights for saturation and length, and a usual length of a message in characters."""

_READ = 4_000
"""The limit in characters on a text in which terms are counted; in a longer one, each counts once."""

_KIND = {"user": 1.3, "assistant": 1.1, "notice": 0.9, "tool": 0.8}
_WHOLE_WORD = 1.5
_TOGETHER = 1.4
_MONTH = 30 * 86_400.0

RANKED = 200
"""The number of newest hits that are ranked; older ones follow, newest first."""

SNIPPET = 160
"""The length of a snippet in characters."""

_LEAD = 50
"""The number of characters shown before the match."""

_MASKED = 400
"""The number of characters on either side of a snippet that are searched for secrets."""

_SEARCHED = 200_000


def rank_hits(connection: sqlite3.Connection, query: Query, found: Mapping[int, bool]) -> list[int]:
    """Return the ids of `found`, best first. A value in `found` is True if the hit contains whole words.

    The score is BM25 without its rarity factor, because all hits contain all terms. Newer hits, whole words,
    adjacent terms and the user's messages get a higher score.
    """
    newest = sorted(found, reverse=True)
    rows = connection.execute(
        "SELECT id, kind, created, size, CASE WHEN size <= ? THEN coalesce(body, content) ELSE '' END "
        "FROM nodes WHERE id IN (SELECT value FROM json_each(?))",
        (_READ, json.dumps(newest[:RANKED])),
    )
    now, terms = time.time(), [term.lower() for term in query.terms]
    together = " ".join(terms) if len(terms) > 1 else ""
    standing = None if query.is_plain else list(map(_standing, terms))
    scores: dict[int, float] = {}
    for node, kind, created, size, text in rows:
        text = text.lower()
        length = _K * (1 - _B + _B * size / _USUAL)
        relevance = 0.0
        for term in terms:
            count = text.count(term) or (0.3 if text else 1.0)
            relevance += count * (_K + 1) / (count + length)
        age = max(now - created, 0.0) / _MONTH
        is_whole = found[node] if standing is None else all(each.search(text) for each in standing)
        weight = _KIND.get(kind, 1.0) * (_WHOLE_WORD if is_whole else 1.0)
        weight *= _TOGETHER if together and together in text else 1.0
        scores[node] = relevance / max(len(terms), 1) * weight + 1 / (1 + age)
    return [*sorted(scores, key=lambda node: (-scores[node], -node)), *newest[RANKED:]]


def _standing(term: str) -> re.Pattern[str]:
    """Return a pattern that finds a term only where it is not part of a longer word: `#12` in `see #12.`, not
    in `#123`.
    """
    before = r"(?<!\w)" if term[:1].isalnum() else ""
    after = r"(?!\w)" if term[-1:].isalnum() else ""
    return re.compile(before + re.escape(term) + after)


def snippet(text: str, query: Query, secrets: Mapping[str, str] | None = None, width: int = SNIPPET) -> str:
    """Return the part of `text` around the first match, on one line, secrets masked, with `…` for cuts."""
    text = text[:_SEARCHED]
    at = _first_match(text, query)
    # Include whole words around the snippet: a cut-off token would not be recognised.
    first = max(text.rfind(" ", 0, max(0, at - _MASKED)), 0)
    last = text.find(" ", at + width + _MASKED)
    piece = text[first : last if last >= 0 else None]
    text = redact(piece, secrets)
    at = at - first if text == piece else _first_match(text, query)
    start = max(0, at - _LEAD)
    if start:
        # Begin with a whole word, if one begins before the match.
        blank = text.find(" ", start, at)
        start = blank + 1 if blank >= 0 else start
    piece = one_line(text[start : start + width])
    is_cut = last >= 0 or start + width < len(text)
    return ("…" if start or first else "") + piece + ("…" if is_cut else "")


def _first_match(text: str, query: Query) -> int:
    """Return the position of the first term found: as typed, as separate words, or folded; 0 if none is."""
    lowered = text.lower() if text.isascii() else ""
    for term in query.raw:
        if lowered and term.isascii():
            # Several times faster than an expression, and correct if no letter changes its length.
            if (at := lowered.find(term.lower())) >= 0:
                return at
            if term.isalnum():
                continue
        match = re.search(re.escape(term), text, re.IGNORECASE)
        if match is None and (parts := re.findall(r"\w+", term)):
            match = re.search(r"[\W_]+".join(map(re.escape, parts)), text, re.IGNORECASE)
        if match is not None:
            return match.start()
    return _first_folded(text, query)


def _first_folded(text: str, query: Query) -> int:
    """Return the approximate position of a match that only folding finds; 0 if there is none."""
    at = 0
    for line in text.splitlines(keepends=True):
        folded = fold(line).lower()
        if any(term.lower() in folded for term in query.terms):
            return at + min(_share(folded, query), len(line) - 1)
        at += len(line)
    return 0


def _share(folded: str, query: Query) -> int:
    # Folding hardly changes lengths outside scripts that `_first_match` finds anyway.
    return min(at for term in query.terms if (at := folded.find(term.lower())) >= 0)
