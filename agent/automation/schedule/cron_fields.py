"""Cron expressions of five fields: read by cronsim, explained when they are wrong, matched on wall time.

cronsim knows the syntax and what a day has to match. Its iteration is not used: asked from within the second
pass of a doubled hour it returns a time before the start, and it loses runs where a zone moves by half an
hour.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agent.automation.schedule.zones import ScheduleError

if TYPE_CHECKING:
    from cronsim import CronSim

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_WEEKDAYS)},
)
_ORDER = "minute hour day-of-month month day-of-week"
_NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
_COMMON_YEARS = (2001, 2002, 2003, 2009, 2010, 2005, 2006)
_LEAP_YEARS = (2000, 2004, 2008, 2012, 2016, 2020, 2024)
"""A year of each kind there is: leap or not, and the weekday it begins with."""


@dataclass(frozen=True)
class CronFields:
    """An expression of five fields. `text` has single spaces and capital letters."""

    text: str

    @cached_property
    def _simulated(self) -> CronSim:
        from cronsim import CronSim

        return CronSim(self.text, _NOON)

    @cached_property
    def fixed(self) -> bool:
        """Whether it means times of the day, not steps of the clock: no wildcard in minute or hour."""
        minute, hour, *_ = self.text.split()
        return not minute.startswith("*") and not hour.startswith("*")

    @cached_property
    def _times(self) -> tuple[time, ...]:
        minutes = sorted(self._simulated.minutes)
        return tuple(time(hour, minute) for hour in sorted(self._simulated.hours) for minute in minutes)

    def explained(self) -> str:
        """The expression in words."""
        return self._simulated.explain()

    def wall_times(self, first: datetime, last: datetime = datetime.max) -> Iterator[datetime]:
        """Its wall times (naive) in order, from the minute of `first` to `last`."""
        first = first.replace(second=0, microsecond=0)
        for day in self._days(first.date(), last.date()):
            for each in self._times:
                if first <= (found := datetime.combine(day, each)) <= last:
                    yield found

    def _days(self, day: date, last: date) -> Iterator[date]:
        months = self._simulated.months
        while day <= last:
            if day.month in months:
                if self._simulated.match_day(day):
                    yield day
                step = timedelta(days=1)
            else:
                step = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - day
            if date.max - day < step:
                return
            day += step

    def never_comes(self) -> bool:
        """Whether no day of any year matches."""
        simulated = self._simulated
        for year in _LEAP_YEARS + _COMMON_YEARS:
            for month in sorted(simulated.months):
                days = range(1, calendar.monthrange(year, month)[1] + 1)
                if any(simulated.match_day(date(year, month, day)) for day in days):
                    return False
        return True


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> CronFields:
    """Read an expression or a nickname. Raises `ScheduleError` that names the field and what to write."""
    from cronsim import CronSim, CronSimError

    words = text.split()
    if len(words) == 1 and text.startswith("@"):
        return CronFields(_of_nickname(text))
    if len(words) != len(FIELDS):
        raise ScheduleError(_wrong_number(words))
    fields = CronFields(" ".join(words).upper())
    try:
        CronSim(fields.text, _NOON)
    except (CronSimError, ValueError, AssertionError, KeyError) as error:
        raise ScheduleError(_complaint(fields.text.split(), str(error))) from None
    if fields.never_comes():
        raise ScheduleError(_never(words))
    return fields


def _of_nickname(text: str) -> str:
    found = NICKNAMES.get(text.lower())
    if found is None:
        what = (
            "runs at the start of a machine, which is no time" if text.lower() == "@reboot" else "is unknown"
        )
        raise ScheduleError(f"{text[:40]!r} {what}; there are {', '.join(NICKNAMES)}.")
    return found


def _wrong_number(words: list[str]) -> str:
    count = len(words)
    if count == 6:
        more = " (seconds and years are not supported)"
    elif count == 7:
        more = " (seconds and years are not supported; without them it has five)"
    else:
        more = ""
    return (
        f"A cron expression has five fields ({_ORDER}), this one has {count}{more}; "
        "write one like 0 9 * * 1-5, or 30m, every 2h, or an ISO time."
    )


def _never(words: list[str]) -> str:
    return (
        f"{' '.join(words)[:60]!r} never comes: no year has such a day; "
        "change its day of month, month or day of week."
    )


def _complaint(words: list[str], said: str) -> str:
    """The sentence about the first field that is wrong. Pure."""
    for index, word in enumerate(words):
        for term in word.split(","):
            if problem := _problem(index, term):
                return f"The {FIELDS[index]} field {word[:40]!r} is wrong: {problem}."
    if said == "Bad day-of-month":
        return _never(words)
    return f"{' '.join(words)[:60]!r} is no cron expression ({said}); write {_ORDER}, as in 0 9 * * 1-5."


def _problem(index: int, term: str) -> str:
    """What is wrong with one term of a list, empty where nothing is."""
    low, high = _LIMITS[index]
    if not term:
        return "a comma has nothing beside it; leave the comma out"
    if term == "?":
        return "'?' is not used here; write *"
    base, slash, step = term.partition("/")
    if slash and (not _digits(step) or not int(step)):
        return f"the step {step[:10]!r} must be a whole number from 1; write */15"
    if index == 2 and base in ("L", "LW"):
        return ""
    if index == 2 and re.fullmatch(r"[0-9]+W", base):
        return f"the nearest weekday {base!r} is not supported; write LW for the last weekday of the month"
    if index == 4 and not slash and ("#" in base or base.endswith("L")):
        return _weekday_of_month(base)
    if base == "*":
        return ""
    first, dash, last = base.partition("-")
    for value in (first, last) if dash else (first,):
        if value not in _NAMES[index] and (not _digits(value) or not low <= int(value) <= high):
            names = ("", "", "", " or JAN-DEC", " or SUN-SAT")[index]
            return f"{value[:20]!r} is not in {low}-{high}{names}"
    if dash and _number(index, last) < _number(index, first):
        return (
            f"the range {base[:20]} runs backwards; "
            f"write two ranges with a comma, as in {_two_ranges(index, first, last)}"
        )
    return ""


def _weekday_of_month(base: str) -> str:
    day, mark, nth = base.partition("#") if "#" in base else (base[:-1], "", "")
    if mark and nth not in ("1", "2", "3", "4", "5"):
        return f"{nth[:10]!r} must be 1 to 5; MON#1 is the first Monday of the month"
    if mark and day in _NAMES[4]:
        return ""
    if not mark and day in _NAMES[4]:
        return f"the last weekday is written with its number; write {_NAMES[4][day]}L"
    if not _digits(day) or int(day) > 7:
        return "a weekday is missing; 5L is the last Friday, MON#1 the first Monday of the month"
    return ""


def _two_ranges(index: int, first: str, last: str) -> str:
    low, high = _LIMITS[index]
    if index == 4:
        # Sunday is 0 and 7.
        return f"{_number(index, first)}-6,0-{_number(index, last)}"
    return f"{_number(index, first)}-{high},{low}-{_number(index, last)}"


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _number(index: int, value: str) -> int:
    return _NAMES[index].get(value, -1) if value in _NAMES[index] else int(value)
