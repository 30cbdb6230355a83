"""Schedules as they are written: `30m`, `every 2h`, five fields of cron, an ISO time. Pure.

What was meant is kept, never only an instant: an expression together with the name of a zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from agent.automation.schedule.cron_fields import CronFields, parse_cron
from agent.automation.schedule.durations import looks_like_duration, parse_duration, say_duration
from agent.automation.schedule.plain_words import SingleTime, in_fields, in_numbers, single_time
from agent.automation.schedule.zones import ScheduleError, first_instant, zone

Kind = Literal["once", "interval", "cron"]
LONGEST = 200
"""Characters of a schedule."""
SHORTEST_INTERVAL = timedelta(minutes=1)
FORMS = (
    "write 30m, every 2h, every weekday at 9, tomorrow at 9am, five cron fields such as 0 9 * * 1-5, "
    "or a time such as 2030-01-31T09:00"
)
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?))?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?(?:\[([A-Za-z0-9_+/-]+)\])?",
    re.ASCII | re.IGNORECASE,
)
_DATE_LIKE = re.compile(
    r"[-+]?[0-9]{4,5}-[0-9]|[0-9]{8}(?:t|$)|[0-9]{1,4}([./])[0-9]{1,2}\1[0-9]|[0-9]{1,2}:[0-9]", re.ASCII
)
_EVERY_UNIT = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Schedule:
    """What was meant. Exactly one of `delay`, `at`, `local`, `every`, `cron` and `single` is given."""

    text: str
    """As it was written, without odd spaces."""
    zone: str
    kind: Kind
    delay: timedelta | None = None
    """Once, so long after it was asked."""
    at: datetime | None = None
    """Once, at an instant (UTC)."""
    local: datetime | None = None
    """Once, at a wall time (naive) of the zone."""
    every: timedelta | None = None
    cron: CronFields | None = None
    single: SingleTime | None = None
    """Once, at a time of the clock that counts from when it was asked."""

    def explained(self) -> str:
        """The schedule in words: `Every 2 hours`, `At 09:00`, `Once, 30 minutes from now`."""
        if self.every is not None:
            return f"Every {say_duration(self.every)}"
        if self.delay is not None:
            return f"Once, after {say_duration(self.delay)}"
        if self.cron is not None:
            return self.cron.explained()
        if self.single is not None:
            return self._single_words(self.single)
        at = self.at.astimezone(zone(self.zone)) if self.at is not None else self.local
        assert at is not None
        return f"Once, on {at.isoformat(' ', 'minutes')}"

    def _single_words(self, single: SingleTime) -> str:
        clock = f"{single.hour:02}:{single.minute:02}"
        if single.days is None:
            return f"Once, at the next {parse_cron(single.fields).explained()[3:].removesuffix(' every day')}"
        day = ("today", "tomorrow", "the day after tomorrow")[single.days]
        return f"Once, {day} at {clock}"

    def instant(self) -> datetime:
        """When a schedule with a given time is due, in UTC. Raises `ScheduleError` beyond the calendar."""
        if self.at is not None:
            return self.at
        assert self.local is not None
        try:
            return first_instant(zone(self.zone), self.local)
        except (OverflowError, ValueError):
            raise ScheduleError(f"{self.text!r} lies beyond the calendar; {FORMS}.") from None


def parse_schedule(text: str, zone_name: str) -> Schedule:
    """Read a schedule for a zone. Raises `ScheduleError`: one sentence with cause and mend."""
    zone(zone_name)
    if len(text) > LONGEST:
        raise ScheduleError(f"A schedule of {len(text)} characters is too long; {FORMS}.")
    odd = next(
        (each for each in text if not each.isascii() or not (each.isprintable() or each in "\t\n\r")), None
    )
    if odd is not None:
        raise ScheduleError(f"The schedule contains the character {odd!a}; {FORMS}.")
    words = " ".join(text.split())
    if not words:
        raise ScheduleError(f"The schedule is empty; {FORMS}.")
    found = Schedule(text=words, zone=zone_name, kind="once")
    lower = words.lower()
    if fields := in_fields(lower):
        return replace(found, kind="cron", cron=parse_cron(fields))
    if lower == "every" or lower.startswith("every "):
        return replace(found, kind="interval", every=_interval(lower[5:].strip()))
    if match := _ISO.fullmatch(words):
        return _at(found, match)
    if (single := single_time(lower)) is not None:
        return replace(found, single=single)
    if (
        lower.startswith("in ")
        or in_numbers(lower) != lower
        or (lower.count(" ") != 4 and looks_like_duration(lower))
    ):
        return replace(found, delay=_delay(lower))
    if _DATE_LIKE.match(lower) and len(words.split()) < 4:
        raise ScheduleError(
            f"{words[:40]!r} is no ISO time; "
            "write 2030-01-31T09:00, with an offset such as +02:00 or Z if you like."
        )
    if " " not in words and not words.startswith("@"):
        raise ScheduleError(f"{words[:40]!r} is no schedule; {FORMS}.")
    return replace(found, kind="cron", cron=parse_cron(words))


def _delay(lower: str) -> timedelta:
    return parse_duration(in_numbers(lower.removeprefix("in ")))


def _interval(lower: str) -> timedelta:
    if not lower:
        raise ScheduleError("`every` needs a duration; write every 2h.")
    if _EVERY_UNIT.fullmatch(lower):
        # "every hour" is "every 1 hour".
        lower = f"1 {lower}"
    try:
        every = parse_duration(in_numbers(lower))
    except ScheduleError as error:
        raise ScheduleError(
            f"{str(error)[:-1]}, or five cron fields such as 0 9 * * 1-5 for times of the day."
        ) from None
    if every < SHORTEST_INTERVAL:
        raise ScheduleError(
            f"'every {lower[:40]}' is too often; the shortest interval is {say_duration(SHORTEST_INTERVAL)}."
        )
    return every


def _at(found: Schedule, match: re.Match[str]) -> Schedule:
    day, clock, offset, named = match.groups()
    if named:
        zone(named)
        found = replace(found, zone=named)
    try:
        read = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(offset or '').upper()}")
        if read.tzinfo is None:
            return replace(found, local=read)
        at = read.astimezone(UTC)
        # The offset of the zone is added to show it.
        at.astimezone(zone(found.zone))
    except (ValueError, OverflowError) as error:
        reason = str(error) if "must be in" in str(error) or "out of range" in str(error) else "no such time"
        raise ScheduleError(
            f"{found.text[:40]!r} is no time of the calendar ({reason}); write one like 2030-01-31T09:00."
        ) from None
    return replace(found, at=at)


def parse_moment(text: str, zone_name: str) -> datetime:
    """Read an ISO time as an instant in UTC; without an offset it is wall time of the zone.

    Raises `ScheduleError`.
    """
    words = " ".join(text.split())
    match = _ISO.fullmatch(words) if words.isascii() else None
    if match is None:
        raise ScheduleError(
            f"{text[:40]!a} is no ISO time; write one like 2030-01-31T09:00 or 2030-01-31T09:00Z."
        )
    found = _at(Schedule(text=words, zone=zone_name, kind="once"), match)
    if found.at is not None:
        return found.at
    assert found.local is not None
    try:
        # Within a gap wall time runs on as before it.
        return found.local.replace(tzinfo=zone(found.zone)).astimezone(UTC)
    except (OverflowError, ValueError):
        raise ScheduleError(f"{text[:40]!r} lies beyond the calendar; write a later year.") from None
