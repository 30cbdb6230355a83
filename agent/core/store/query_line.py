"""Search queries as the user types them: parsing into words and filters, and into index expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agent.core.store.branches import beginning, literal
from agent.core.store.nodes import fold, storable
from tools.kit.lazy_pattern import lazy_pattern

# The last name of a path: the text after its last slash.
_NAME = "substr(workspace, length(rtrim(workspace, replace(workspace, '/', ''))) + 1)"
_BODY = "coalesce(nodes.body, nodes.content)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a search. Times are seconds since the epoch; empty and None mean no limit."""

    roles: tuple[str, ...] = ()
    session: str | None = None
    since: float | None = None
    until: float | None = None
    tool: str | None = None
    """The exact name of a tool, only whose results are found."""
    session_begins: str = ""
    """The beginning of the id of sessions that are searched."""
    tool_begins: str = ""
    """The beginning of a tool's name; only its results, and messages that call it, are found."""
    project: str = ""
    """A part of the name of a session's folder, or of its path if it contains a slash."""
    branch: str = ""
    """The beginning of a branch's name; messages that it shares with other branches are found too."""
    without: tuple[str, ...] = ()
    """Texts that a found message must not contain."""

    def __bool__(self) -> bool:
        """Return whether any filter is set."""
        return self != Filters()


def conditions_of(filters: Filters) -> tuple[list[str], list[Any]]:
    """Return SQL conditions on `nodes`, and their values.

    A branch filter only limits the sessions; `agent.core.store.branches` decides which nodes are on the
    branch.
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
    """Return the SQL condition that a folded word occurs in a node's text, and its values."""
    ways = spellings(word)
    conditions = [f"{_BODY} LIKE ? ESCAPE '\\'"] * len(ways)
    return f"({' OR '.join(conditions)})", [_part(way) for way in ways]


def spellings(word: str) -> tuple[str, ...]:
    """Return the word in lower, upper and other cases, because SQL ignores case only for ASCII."""
    if word.isascii():
        return (word,)
    return tuple(dict.fromkeys((word, word.lower(), word.upper(), word.strip().capitalize())))


def _part(text: str) -> str:
    return f"%{literal(text)}%"


ROLES = ("user", "assistant", "tool", "notice")
_SAID_AS = {**{role: role for role in ROLES}, "you": "user", "model": "assistant"}
"""Accepted names of roles: their own, and the labels in displayed results."""

FILTERS = ("role", "tool", "after", "before", "project", "branch", "session")
"""The names of filters, in the order in which they are offered."""

MAX_CHARS = 1_000
"""The number of characters of a query that are read."""

_TOKEN = lazy_pattern(
    r'(?P<minus>-)?(?:(?P<name>[^\W\d_]{2,20}):)?(?:"(?P<quoted>[^"]*)(?:"|$)|(?P<plain>\S*))'
)
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}
_AGO = lazy_pattern(r"(\d{1,5})([hdw])")
_DATE = lazy_pattern(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_EARLIEST, _LATEST = 1970, 9998
_SHORT = 3
"""The fewest letters of a word that a minus excludes: `-rf` and `-v` are options of commands."""


class Chip(NamedTuple):
    """One filter of a search line, in the form in which it is displayed."""

    name: str
    """One of `FILTERS`, or `not`."""
    value: str


@dataclass(frozen=True, slots=True)
class QueryLine:
    """The words and filters of a typed query, with `chips` as the filters for display."""

    text: str = ""
    """The words and phrases, as `parse` accepts them."""
    filters: Filters = field(default_factory=Filters)
    chips: tuple[Chip, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the user about filters that cannot be used as they were written."""

    def __bool__(self) -> bool:
        """Return whether the query has words or filters."""
        return bool(self.text or self.filters)


def parse_line(line: str, now: float) -> QueryLine:
    """Parse a typed query; `now` is in seconds since the epoch. Dates are in the local time zone."""
    parts: list[str] = []
    found = QueryLine()
    for match in _TOKEN.finditer(line[:MAX_CHARS]):
        token = match[0]
        if not token:
            continue
        name, value = (match["name"] or "").lower(), _value(match)
        if match["minus"] and not name and _can_be_left_out(match, value):
            found = _without(found, value)
        elif not match["minus"] and name in FILTERS:
            found = _READERS[name](found, value, now)
        else:
            if _looks_like_a_filter(match, value):
                found = _with_note(found, f"{name}: is not a filter and is searched as text.")
            parts.append(token + '"' if token.count('"') == 1 and match["quoted"] is not None else token)
    return replace(found, text=" ".join(part for part in parts if part.strip('"')))


def _value(match: re.Match[str]) -> str:
    quoted = match["quoted"]
    return " ".join((match["plain"] if quoted is None else quoted).split())


def _can_be_left_out(match: re.Match[str], value: str) -> bool:
    if match["quoted"] is not None:
        return bool(value)
    return len(value) >= _SHORT and value[0].isalnum()


def _looks_like_a_filter(match: re.Match[str], value: str) -> bool:
    # Addresses, `std::vector`, times and words before a colon are common text.
    return bool(match["name"] and value and value[0].isalnum() and not match["minus"])


def _with_note(found: QueryLine, note: str) -> QueryLine:
    return found if note in found.notes else replace(found, notes=(*found.notes, note))


def _with(found: QueryLine, name: str, value: str, **filters: object) -> QueryLine:
    """Return the query with one more filter; a repeated filter replaces the earlier one."""
    chips = tuple(chip for chip in found.chips if chip.name != name)
    changed = replace(found.filters, **filters)  # pyright: ignore[reportArgumentType]
    return replace(found, filters=changed, chips=(*chips, Chip(name, value)))


def _without(found: QueryLine, word: str) -> QueryLine:
    words = tuple(dict.fromkeys((*found.filters.without, word)))
    chips = tuple(dict.fromkeys((*found.chips, Chip("not", word))))
    return replace(found, filters=replace(found.filters, without=words), chips=chips)


def _role(found: QueryLine, value: str, _now: float) -> QueryLine:
    names = [name.lower() for name in value.split(",") if name.strip()]
    roles = [role for name in names for word, role in _SAID_AS.items() if word.startswith(name.strip())]
    if not names or len(roles) < len(names):
        return _with_note(found, f"role: takes {', '.join(ROLES[:-1])} or {ROLES[-1]}.")
    roles = list(dict.fromkeys(roles))
    return _with(found, "role", ", ".join(roles), roles=tuple(roles))


def _beginning(name: str, where: str, example: str) -> Callable[[QueryLine, str, float], QueryLine]:
    def read(found: QueryLine, value: str, _now: float) -> QueryLine:
        if not value:
            return _with_note(found, f"{name}: takes {example}.")
        return _with(found, name, value, **{where: value})

    return read


def _after(found: QueryLine, value: str, now: float) -> QueryLine:
    if (span := _span(value, now)) is None:
        return _with_note(found, f"after: takes {_TIMES}.")
    return _with(found, "after", value, since=span[0])


def _before(found: QueryLine, value: str, now: float) -> QueryLine:
    if (span := _span(value, now)) is None:
        return _with_note(found, f"before: takes {_TIMES}.")
    # The last moment within it: stored times are exact to the microsecond.
    return _with(found, "before", value, until=span[0] - 1e-6)


_TIMES = "a day such as 2026-10-01, a month, today, or an age such as 12h, 7d, 2w"

_READERS: dict[str, Callable[[QueryLine, str, float], QueryLine]] = {
    "role": _role,
    "tool": _beginning("tool", "tool_begins", "the name of a tool, or its beginning"),
    "after": _after,
    "before": _before,
    "project": _beginning("project", "project", "the name of a folder, or a part of it"),
    "branch": _beginning("branch", "branch", "the name of a branch, or its beginning"),
    "session": _beginning("session", "session_begins", "the id of a session, or its beginning"),
}


def _span(text: str, now: float) -> tuple[float, float] | None:
    """Return the start of a day, month or year, and the start of the next one, in seconds since the epoch.

    For an age such as `3d`, both are that moment. Returns None for any other text.
    """
    text = text.lower()
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        start = today if text == "today" else today - timedelta(days=1)
        return start.timestamp(), (start + timedelta(days=1)).timestamp()
    if ago := _AGO.fullmatch(text):
        moment = max(now - int(ago[1]) * _UNITS[ago[2]], 0.0)
        return moment, moment
    return _dates(text)


def _dates(text: str) -> tuple[float, float] | None:
    date = _DATE.fullmatch(text)
    if date is None or not _EARLIEST <= int(date[1]) <= _LATEST:
        return None
    year, month, day = int(date[1]), int(date[2] or 1), int(date[3] or 1)
    try:
        start = datetime(year, month, day)
        if date[3]:
            end = start + timedelta(days=1)
        elif date[2]:
            end = datetime(year + month // 12, month % 12 + 1, 1)
        else:
            end = datetime(year + 1, 1, 1)
        return start.timestamp(), end.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


MAX_TERMS = 32
_TERM = lazy_pattern(r'"(\s*[^"\s][^"]*)"|(\S+)')
"""A quoted phrase or a word. Quotes around nothing but spaces are searched for themselves."""
_GRAM = 3
"""The number of characters of a trigram; shorter texts are not in the trigram index."""
_BEGINNING = lazy_pattern(r"\A(\w+)\*\Z")


@dataclass(frozen=True, slots=True)
class Query:
    """One search. `terms` are folded. An index expression is None if that index cannot be used."""

    terms: tuple[str, ...]
    raw: tuple[str, ...]
    """The terms as they were typed, to show where they occur."""
    words: str | None
    """The FTS5 expression for the index of whole words."""
    trigrams: str | None
    """The FTS5 expression for the trigram index, with the terms that are long enough."""
    short: tuple[str, ...]
    """The terms that are too short for the trigram index."""
    is_plain: bool
    """True if the terms are only letters, digits and spaces, so that the word index is exact for them."""


def parse(text: str) -> Query:
    """Return the query for a text of words and quoted phrases; without any of them it finds nothing."""
    text = storable(text[:MAX_CHARS]).replace("\0", " ")
    raw = [quoted or _BEGINNING.sub(r"\1", plain) for quoted, plain in _TERM.findall(text)]
    raw = list(dict.fromkeys(term.strip() for term in raw if term.strip()))[:MAX_TERMS]
    terms = [fold(term) for term in raw]
    has_words = bool(terms) and all(any(map(str.isalnum, term)) for term in terms)
    long = [term for term in terms if len(term) >= _GRAM]
    return Query(
        tuple(terms),
        tuple(raw),
        " AND ".join(map(_phrase, terms)) if has_words else None,
        " AND ".join(map(_phrase, long)) if long else None,
        tuple(term for term in terms if len(term) < _GRAM),
        all(character.isalnum() or character.isspace() for term in terms for character in term),
    )


def _phrase(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
