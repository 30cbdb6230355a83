"""Time zones: lookup by name, this machine's zone, and the instants at which offsets change.

Aware datetimes with the same `ZoneInfo` are compared by local time, which is wrong for instants. Therefore
instants are always in UTC, and local times are naive.
"""

from __future__ import annotations

import difflib
import os
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from agent.errors import ConfigError

PROBE = timedelta(hours=6)
"""An interval shorter than that between any two offset changes of a zone."""
SECOND = timedelta(seconds=1)
LONGEST_NAME = 64
LOCALTIME = Path("/etc/localtime")
FOLDER = "zoneinfo/"


class ScheduleError(ConfigError):
    """Raised if a schedule, zone or time is invalid. The message is one sentence with the fix."""


@lru_cache(maxsize=1024)
def _find_zone(name: str) -> ZoneInfo | str:
    """Return the zone, or a sentence on why it does not exist.

    The result is cached, because suggestions take milliseconds.
    """
    if name and len(name) <= LONGEST_NAME and name.isascii() and name.isprintable():
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    # `local` zones and folders of the data are not names that hold on another machine.
    names = {each.lower(): each for each in _names()}
    close = difflib.get_close_matches(name.lower()[:LONGEST_NAME], names, 1, 0.7)
    mend = f"did you mean {names[close[0]]}?" if close else "give a name like Europe/Berlin or UTC."
    return f"There is no time zone {_short(name)!r}; {mend}"


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…"


def zone(name: str) -> ZoneInfo:
    """Return the zone with an IANA name. Raises `ScheduleError`, which suggests a similar name."""
    found = _find_zone(name)
    if isinstance(found, str):
        raise ScheduleError(found)
    return found


def machine_zone() -> str:
    """Return the IANA name of this machine's zone, from `TZ`, `/etc/localtime` or `/etc/timezone`, or UTC."""
    given = os.environ.get("TZ", "").removeprefix(":")
    candidates = [given.rpartition(FOLDER)[2]]
    try:
        candidates.append(str(LOCALTIME.resolve()).rpartition(FOLDER)[2])
        candidates.append(Path("/etc/timezone").read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        pass
    if "TZ" in os.environ and not given:
        # POSIX: an empty value means UTC.
        return "UTC"
    names = (name.removeprefix("posix/").removeprefix("right/") for name in candidates)
    return next((name for name in names if name and isinstance(_find_zone(name), ZoneInfo)), "UTC")


def offset_at(where: ZoneInfo, instant: datetime) -> timedelta:
    """Return the offset of local time from UTC at an instant (aware, UTC)."""
    offset = instant.astimezone(where).utcoffset()
    assert offset is not None
    return offset


def wall(where: ZoneInfo, instant: datetime) -> datetime:
    """Return the local time of an instant, as a naive datetime."""
    return instant.astimezone(where).replace(tzinfo=None, fold=0)


@lru_cache(maxsize=8192)
def changes(where: ZoneInfo, begin: datetime, end: datetime) -> tuple[datetime, ...]:
    """Return the instants after `begin` and up to `end` (UTC) at which the offset changes, in order."""
    found: list[datetime] = []
    before, offset = begin, offset_at(where, begin)
    while before < end and where.key != "UTC":
        after = min(before + PROBE, end)
        new = offset_at(where, after)
        if new != offset:
            found.append(_change_between(where, before, after, offset))
        before, offset = after, new
    return tuple(found)


def _change_between(where: ZoneInfo, before: datetime, after: datetime, offset: timedelta) -> datetime:
    """Return the first second after `before` at which `offset` no longer applies."""
    while after - before > SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if middle <= before:
            break
        if offset_at(where, middle) == offset:
            before = middle
        else:
            after = middle
    return after


def first_instant(where: ZoneInfo, local: datetime) -> datetime:
    """Return the instant of a local time (naive).

    If the local time occurs twice, the first one counts; if it is skipped, the first minute after the gap.
    Raises `OverflowError` at the end of the calendar.
    """
    aware = local.replace(tzinfo=where, fold=0)
    instant = aware.astimezone(UTC)
    if wall(where, instant) == local:
        return instant
    offset = aware.utcoffset()
    assert offset is not None
    change = _change_between(where, local.replace(tzinfo=where, fold=1).astimezone(UTC), instant, offset)
    seconds = wall(where, change).second
    return change + timedelta(seconds=-seconds % 60)
