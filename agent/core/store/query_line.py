"""A line typed into a search field: words to look for, and filters such as `role:user` among them.

Any text is a valid line. What looks like a filter and is none is searched as text,
and `notes` says so; nothing that is typed is lost and nothing is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from agent.core.store.filters import Filters

ROLES = ("user", "assistant", "tool", "notice")
_SAID_AS = {**{role: role for role in ROLES}, "you": "user", "model": "assistant"}
"""What roles may be called: their names, and those results are shown with."""

FILTERS = ("role", "tool", "after", "before", "project", "branch", "session")
"""The names of filters, in the order in which they are offered."""

MAX_CHARS = 1_000
"""Characters of a line that are read, as in `agent.core.store.query`."""

_TOKEN = re.compile(
    r'(?P<minus>-)?(?:(?P<name>[^\W\d_]{2,20}):)?(?:"(?P<quoted>[^"]*)(?:"|$)|(?P<plain>\S*))'
)
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,5})([hdw])")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_EARLIEST, _LATEST = 1970, 9998
_SHORT = 3
"""Letters a word needs to be left out by a minus: `-rf` and `-v` are options of commands."""


class Chip(NamedTuple):
    """A filter in force, as it is shown."""

    name: str
    """One of `FILTERS`, or `not`."""
    value: str


@dataclass(frozen=True, slots=True)
class QueryLine:
    """What a line asks for."""

    text: str = ""
    """The words and phrases, as `agent.core.store.query.parse` takes them."""
    filters: Filters = field(default_factory=Filters)
    chips: tuple[Chip, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about filters that cannot be used as they were written."""

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.text or self.filters)


def parse_line(line: str, now: float) -> QueryLine:
    """What a line asks for; `now` is in seconds since the epoch. Days are local. Pure."""
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
                found = _noted(found, f"{name}: is no filter and is searched as text.")
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
    # Addresses, `std::vector` and times are text of every day; so is a word with a colon behind it.
    return bool(match["name"] and value and value[0].isalnum() and not match["minus"])


def _noted(found: QueryLine, note: str) -> QueryLine:
    return found if note in found.notes else replace(found, notes=(*found.notes, note))


def _with(found: QueryLine, name: str, value: str, **filters: object) -> QueryLine:
    """The line with a filter more; the same filter twice means the later one."""
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
        return _noted(found, f"role: takes {', '.join(ROLES[:-1])} or {ROLES[-1]}.")
    roles = list(dict.fromkeys(roles))
    return _with(found, "role", ", ".join(roles), roles=tuple(roles))


def _beginning(name: str, where: str, example: str) -> Callable[[QueryLine, str, float], QueryLine]:
    def read(found: QueryLine, value: str, _now: float) -> QueryLine:
        if not value:
            return _noted(found, f"{name}: takes {example}.")
        return _with(found, name, value, **{where: value})

    return read


def _after(found: QueryLine, value: str, now: float) -> QueryLine:
    if (span := _span(value, now)) is None:
        return _noted(found, f"after: takes {_TIMES}.")
    return _with(found, "after", value, since=span[0])


def _before(found: QueryLine, value: str, now: float) -> QueryLine:
    if (span := _span(value, now)) is None:
        return _noted(found, f"before: takes {_TIMES}.")
    # A moment that is not in it any more: what is stored is exact to the microsecond.
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
    """First moment of a day, month or year and of the one after it; of an age, that moment. None: neither."""
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
