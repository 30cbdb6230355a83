"""Filters of a search, as conditions on nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.core.store.branches import beginning, literal
from agent.core.store.node_text import fold
from agent.core.store.nodes import storable

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
    """SQL conditions on `nodes`, and their values.

    The branch only narrows the sessions: what lies on it tells `agent.core.store.branches`.
    """
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
        add("nodes.session LIKE ? ESCAPE '\\'", beginning(filters.session_begins))
    if filters.since is not None:
        add("nodes.created >= ?", filters.since)
    if filters.until is not None:
        add("nodes.created <= ?", filters.until)
    if filters.tool is not None:
        add("json_extract(nodes.data, '$.tool') = ?", filters.tool)
    if filters.tool_begins:
        add(_TOOL_BEGINS, *[beginning(filters.tool_begins)] * 2)
    if filters.project:
        name = "workspace" if "/" in filters.project else _NAME
        add(
            f"nodes.session IN (SELECT id FROM sessions WHERE {name} LIKE ? ESCAPE '\\')",
            _part(filters.project),
        )
    if filters.branch:
        add(
            "nodes.session IN (SELECT session FROM heads WHERE name LIKE ? ESCAPE '\\')",
            beginning(filters.branch),
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


def _part(text: str) -> str:
    return f"%{literal(text)}%"
