"""Schedules of jobs as users write them: cron fields, durations, plain words."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from agent.automation.schedule.zones import ScheduleError, first_instant, zone
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import plural

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
"""Example years of every kind: leap year or not, beginning with each weekday."""


@dataclass(frozen=True)
class CronFields:
    """A cron expression with five fields. `text` is in upper case with single spaces."""

    text: str

    @cached_property
    def _simulation(self) -> CronSim:
        from cronsim import CronSim

        return CronSim(self.text, _NOON)

    @cached_property
    def has_fixed_times(self) -> bool:
        """True if the expression names times of day: neither minute nor hour begins with a wildcard."""
        minute, hour, *_ = self.text.split()
        return not minute.startswith("*") and not hour.startswith("*")

    @cached_property
    def _times(self) -> tuple[time, ...]:
        minutes = sorted(self._simulation.minutes)
        return tuple(time(hour, minute) for hour in sorted(self._simulation.hours) for minute in minutes)

    def explain(self) -> str:
        """Return the expression in words."""
        return self._simulation.explain()

    def wall_times(self, first: datetime, last: datetime = datetime.max) -> Iterator[datetime]:
        """Yield the matching local times (naive) in order, from the minute of `first` to `last`."""
        first = first.replace(second=0, microsecond=0)
        for day in self._days(first.date(), last.date()):
            for each in self._times:
                if first <= (found := datetime.combine(day, each)) <= last:
                    yield found

    def _days(self, day: date, last: date) -> Iterator[date]:
        months = self._simulation.months
        while day <= last:
            if day.month in months:
                if self._simulation.match_day(day):
                    yield day
                step = timedelta(days=1)
            else:
                step = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - day
            if date.max - day < step:
                return
            day += step

    def never_comes(self) -> bool:
        """Return whether the expression matches no day of any year."""
        simulated = self._simulation
        for year in _LEAP_YEARS + _COMMON_YEARS:
            for month in sorted(simulated.months):
                days = range(1, calendar.monthrange(year, month)[1] + 1)
                if any(simulated.match_day(date(year, month, day)) for day in days):
                    return False
        return True


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> CronFields:
    """Parse an expression or a nickname. Raises `ScheduleError`, which names the field and the fix."""
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
            "runs at the start of a machine, which is not a time"
            if text.lower() == "@reboot"
            else "is unknown"
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
    """Return a sentence about the first invalid field. Pure."""
    for index, word in enumerate(words):
        for term in word.split(","):
            if problem := _problem(index, term):
                return f"The {FIELDS[index]} field {word[:40]!r} is wrong: {problem}."
    if said == "Bad day-of-month":
        return _never(words)
    return f"{' '.join(words)[:60]!r} is not a cron expression ({said}); write {_ORDER}, as in 0 9 * * 1-5."


def _problem(index: int, term: str) -> str:
    """Return a clause on what is wrong with one term of a list; empty if it is valid."""
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


UNITS = {
    "s": ("second", 1),
    "m": ("minute", 60),
    "h": ("hour", 3600),
    "d": ("day", 86400),
    "w": ("week", 604800),
}
"""The name of a unit of time and its seconds, by letter."""
LONGEST_DURATION = timedelta(days=3660)
MOST_DIGITS = 12
FORM = "give a number and a unit: 30m, 2h, 1d (s, m, h, d, w)"

_WORDS = {
    **{letter: letter for letter in UNITS},
    **{name: letter for letter, (name, _) in UNITS.items()},
    **{f"{name}s": letter for letter, (name, _) in UNITS.items()},
    "sec": "s",
    "secs": "s",
    "min": "m",
    "mins": "m",
    "hr": "h",
    "hrs": "h",
}
_PIECE = lazy_pattern(r"([0-9]+) ?([a-z]+)", re.ASCII)
_WHOLE = lazy_pattern(r"(?:[0-9]+ ?[a-z]+ ?)+", re.ASCII)


def unit_seconds(word: str) -> int:
    """Return the length of a time unit in seconds, given its letter or name; 0 for an unknown unit."""
    return UNITS[_WORDS[word]][1] if word in _WORDS else 0


def looks_like_duration(text: str) -> bool:
    """Return whether the lower-case text is a number followed by words, such as a unit."""
    return re.fullmatch(r"[-+]?[0-9][0-9.,]* ?[a-z][a-z0-9 ]*", text, re.ASCII) is not None


def parse_duration(text: str) -> timedelta:
    """Parse a duration from lower-case text. Raises `ScheduleError` if it is invalid, 0 or too long."""
    if not _WHOLE.fullmatch(text):
        raise ScheduleError(f"{text[:40]!r} is not a duration; {FORM}.")
    total = 0
    for digits, word in _PIECE.findall(text):
        if word not in _WORDS:
            raise ScheduleError(f"{word[:20]!r} is not a unit of time; {FORM}.")
        if len(digits) > MOST_DIGITS:
            raise ScheduleError(f"{text[:40]!r} is too long; the most is {LONGEST_DURATION.days} days.")
        total += int(digits) * UNITS[_WORDS[word]][1]
        if total > LONGEST_DURATION.total_seconds():
            raise ScheduleError(f"{text[:40]!r} is too long; the most is {LONGEST_DURATION.days} days.")
    if not total:
        raise ScheduleError(f"{text[:40]!r} is not a time at all; give at least one second.")
    return timedelta(seconds=total)


def say_duration(duration: timedelta) -> str:
    """Return a duration in words: `2 hours`, `1 day 6 hours`."""
    left = int(duration.total_seconds())
    words: list[str] = []
    for letter in "wdhms":
        name, seconds = UNITS[letter]
        if letter == "w" and left % seconds:
            # 10 days are said as days.
            continue
        count, left = divmod(left, seconds)
        if count:
            words.append(plural(count, name))
    return " ".join(words) or "0 seconds"


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_NAMES: Mapping[str, str] = {
    **{name: name for name in _DAYS},
    **{f"{name}day": name[:3] for name in ("sun", "mon", "tues", "wednes", "thurs", "fri", "satur")},
    "tues": "tue",
    "weds": "wed",
    "thur": "thu",
    "thurs": "thu",
}
_DAY_SETS: Mapping[str, str] = {
    "day": "*",
    "weekday": "1-5",
    "workday": "1-5",
    "business day": "1-5",
    "working day": "1-5",
    "weekend": "6,0",
}
_ADVERBS: Mapping[str, str] = {
    "hourly": "@hourly",
    "daily": "@daily",
    "nightly": "@daily",
    "weekly": "@weekly",
    "monthly": "@monthly",
    "yearly": "@yearly",
    "annually": "@yearly",
}
_DAY_TIMES: Mapping[str, tuple[int, int]] = {
    "midnight": (0, 0),
    "morning": (9, 0),
    "noon": (12, 0),
    "midday": (12, 0),
    "afternoon": (15, 0),
    "evening": (18, 0),
    "night": (21, 0),
}
_NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_ORDINALS: Mapping[str, int] = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}

_TIME = r"(?:\d{1,2}(?::\d{2})? ?(?:am|pm)?|noon|midday|midnight)"
_TIMES = rf"{_TIME}(?:(?:,| and|, and) {_TIME})*"
_AT = rf"(?: ?(?:at|@)? (?P<times>{_TIMES})(?: o'clock)?)"
_DAY = r"[a-z]+?s?"
_DAY_LIST = rf"{_DAY}(?:(?:,|, and| and| &|/) ?{_DAY})*"
_REPEATED = lazy_pattern(
    rf"(?P<every>(?:every|each|on) )?"
    rf"(?P<days>(?:business |working )?{_DAY_LIST}|[a-z]+ ?(?:-|to|through) ?[a-z]+)"
    rf"(?: in the)?(?: (?P<part>morning|afternoon|evening|night)s?)?{_AT}?"
)
_MONTHLY = lazy_pattern(
    rf"(?:monthly |every month |each month )?(?:every |each |on )?(?:the )?"
    rf"(?:(?P<number>\d{{1,2}})(?:st|nd|rd|th)?|(?P<last>last day)"
    rf"|(?P<nth>first|second|third|fourth|fifth|last) (?P<name>[a-z]+))(?: of (?:the|every|each) month)?{_AT}"
)
_SINGLE = lazy_pattern(
    rf"(?:on |this |next )?(?P<day>today|tonight|tomorrow|(?:the )?day after tomorrow|(?!at )[a-z]+)?"
    rf"(?: ?(?P<part>morning|afternoon|evening|night))?{_AT}?"
)
_AMOUNT = lazy_pattern(
    rf"(?:(?P<half>half an?|half)"
    rf"|(?P<word>{'|'.join(_NUMBERS[1:])}|an?|other|second|third|couple of|a couple of)"
    r"|(?P<decimal>\d{1,6}\.\d{1,3})) ?(?P<unit>[a-z]+)"
)


@dataclass(frozen=True, slots=True)
class SingleTime:
    """A time of day for a single run.

    The day is `days` after the day of the request, or the first day that matches `fields`.
    """

    hour: int
    minute: int
    days: int | None
    fields: str
    """Five cron fields, which are used if `days` is None."""


def in_fields(lower: str) -> str:
    """Convert a repeated schedule in plain words to `@NAME` or five cron fields; empty for any other text.

    `lower` is lower case with single spaces. Raises `ScheduleError` if only its time of day is missing or
    invalid.
    """
    if lower in _ADVERBS:
        return _ADVERBS[lower]
    lower = re.sub(
        r"\b(first|second|third|fourth|fifth) of (?=(?:the|every|each) month\b)",
        lambda nth: f"{_ORDINALS[nth[1]]} of ",
        lower,
    )
    lower = re.sub(r"^(every|each) (morning|afternoon|evening|night)(?= |$)", r"\1 day in the \2", lower)
    if match := _MONTHLY.fullmatch(lower):
        if match["number"]:
            return _fields(match["times"], match["number"], "*")
        if match["last"]:
            return _fields(match["times"], "L", "*")
        if (day := _DAY_NAMES.get(match["name"].removesuffix("s"))) is not None:
            number = _DAYS.index(day)
            which = f"{number}L" if match["nth"] == "last" else f"{number}#{_ORDINALS[match['nth']]}"
            return _fields(match["times"], "*", which)
    head, _, rest = lower.partition(" ")
    if head in ("daily", "nightly"):
        return in_fields(f"every day {rest}")
    if head == "weekly" and rest:
        return in_fields(f"every {rest.removeprefix('on ')}")
    match = _REPEATED.fullmatch(lower)
    if match is None or (days := _days(match["days"])) is None:
        return ""
    plural = match["days"].endswith("s") or days in _DAY_SETS.values()
    if match["every"] in (None, "on ") and not plural:
        return ""
    if match["times"]:
        return _fields(match["times"], "*", days, match["part"] or "")
    if match["part"]:
        hour, minute = _DAY_TIMES[match["part"]]
        return f"{minute} {hour} * * {days}"
    if match["days"] in ("day", "days"):
        return ""
    raise ScheduleError(f"{lower[:60]!r} names no time of the day; write {lower[:60]} at 9:00.")


def single_time(lower: str) -> SingleTime | None:
    """Parse a single time in plain words, such as `tomorrow at 9am` or `at noon`; None for any other text.

    Raises `ScheduleError` if only its time of day is missing or invalid.
    """
    if re.fullmatch(r"noon|midday|midnight|\d{1,2}(?::\d{2})? ?(?:am|pm)", lower):
        lower = f"at {lower}"
    match = _SINGLE.fullmatch(lower)
    if match is None or not (match["day"] or match["times"] or match["part"]):
        return None
    day = match["day"] or ""
    if day and day not in ("today", "tonight", "tomorrow") and not day.endswith("tomorrow"):
        if day not in _DAY_NAMES:
            return None
    elif not day and not lower.startswith(("at ", "@ ")):
        return None
    part = match["part"] or ("night" if day == "tonight" else "")
    if match["times"] is None and not part:
        raise ScheduleError(f"{lower[:60]!r} names no time of the day; write {lower[:60]} at 9:00.")
    times = _clock(match["times"], part) if match["times"] else [_DAY_TIMES[part]]
    if len(times) != 1:
        return None
    hour, minute = times[0]
    if day in _DAY_NAMES:
        return SingleTime(hour, minute, None, f"{minute} {hour} * * {_DAYS.index(_DAY_NAMES[day])}")
    days = {"today": 0, "tonight": 0, "tomorrow": 1}.get(day, 2) if day else None
    return SingleTime(hour, minute, days, f"{minute} {hour} * * *")


def in_numbers(lower: str) -> str:
    """Convert a duration in words or decimals to whole seconds, such as `half an hour` to `1800s`.

    Other text is returned unchanged.
    """
    match = _AMOUNT.fullmatch(lower)
    if match is None or (seconds := unit_seconds(match["unit"])) == 0:
        return lower
    if match["half"]:
        amount = 0.5
    elif match["decimal"]:
        amount = float(match["decimal"])
    else:
        word = match["word"].removeprefix("a ")
        small = {"a": 1, "an": 1, "other": 2, "second": 2, "third": 3, "couple of": 2}
        amount = small[word] if word in small else _NUMBERS.index(word)
    total = round(amount * seconds)
    return f"{total}s" if total else lower


def _days(text: str) -> str | None:
    """Convert names of days to a cron field; None if the text is anything else."""
    if (known := _DAY_SETS.get(text.removesuffix("s"))) is not None:
        return known
    span = re.fullmatch(r"([a-z]+) ?(?:-|to|through) ?([a-z]+)", text)
    if span and (names := [_day(each) for each in span.groups()]) and None not in names:
        first, last = (_DAYS.index(str(each)) for each in names)
        return f"{first}-{last}" if first <= last else f"{first}-6,0-{last}"
    found = [_day(each) for each in re.split(r",? and |, ?| ?& ?|/", text)]
    if not found or None in found:
        return None
    return ",".join(str(_DAYS.index(str(each))) for each in dict.fromkeys(found))


def _day(word: str) -> str | None:
    return _DAY_NAMES.get(word) or _DAY_NAMES.get(word.removesuffix("s"))


def _fields(times: str, day_of_month: str, days: str, part: str = "") -> str:
    clock = _clock(times, part)
    minutes = {minute for _, minute in clock}
    if len(minutes) > 1:
        raise ScheduleError(
            "Times with different minutes are more than one schedule; make a job for each of them."
        )
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in clock}))
    return f"{minutes.pop()} {hours} {day_of_month} * {days}"


def _clock(text: str, part: str = "") -> list[tuple[int, int]]:
    """Parse times of day; return hour and minute of each.

    `part` is the part of the day that decides between morning and evening. Raises `ScheduleError`.
    """
    return list(dict.fromkeys(_time(each.strip(), part) for each in re.split(r",? and |,", text)))


def _time(text: str, part: str) -> tuple[int, int]:
    if text in _DAY_TIMES:
        return _DAY_TIMES[text]
    match = re.fullmatch(r"(\d{1,2})(?::(\d{2}))? ?(am|pm)?", text)
    assert match is not None
    hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
    if (half and not 1 <= hour <= 12) or hour > 23 or minute > 59:
        raise ScheduleError(f"{text!r} is not a time of the day; write one such as 9:00, 21:30 or 9am.")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif (part in ("afternoon", "evening") and 1 <= hour < 12) or (part == "night" and 6 <= hour < 12):
        hour += 12
    return hour, minute


Kind = Literal["once", "interval", "cron"]
LONGEST = 200
"""The maximum number of characters of a schedule."""
SHORTEST_INTERVAL = timedelta(minutes=1)
FORMS = (
    "write 30m, every 2h, every weekday at 9, tomorrow at 9am, five cron fields such as 0 9 * * 1-5, "
    "or a time such as 2030-01-31T09:00"
)
_ISO = lazy_pattern(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?))?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?(?:\[([A-Za-z0-9_+/-]+)\])?",
    re.ASCII | re.IGNORECASE,
)
_DATE_LIKE = lazy_pattern(
    r"[-+]?[0-9]{4,5}-[0-9]|[0-9]{8}(?:t|$)|[0-9]{1,4}([./])[0-9]{1,2}\1[0-9]|[0-9]{1,2}:[0-9]", re.ASCII
)
_EVERY_UNIT = lazy_pattern(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule. Exactly one of `delay`, `at`, `local`, `every`, `cron` and `single` is set."""

    text: str
    """The schedule as it was written, with single spaces."""
    zone: str
    kind: Kind
    delay: timedelta | None = None
    """For a single run: the time from the request to the run."""
    at: datetime | None = None
    """For a single run: an instant in UTC."""
    local: datetime | None = None
    """For a single run: a local time (naive) in the time zone."""
    every: timedelta | None = None
    cron: CronFields | None = None
    single: SingleTime | None = None
    """For a single run: a time of day, whose date depends on that of the request."""

    def explain(self) -> str:
        """Return the schedule in words: `Every 2 hours`, `At 09:00`, `Once, after 30 minutes`."""
        if self.every is not None:
            return f"Every {say_duration(self.every)}"
        if self.delay is not None:
            return f"Once, after {say_duration(self.delay)}"
        if self.cron is not None:
            return self.cron.explain()
        if self.single is not None:
            return self._single_words(self.single)
        at = self.at.astimezone(zone(self.zone)) if self.at is not None else self.local
        assert at is not None
        return f"Once, on {at.isoformat(' ', 'minutes')}"

    def _single_words(self, single: SingleTime) -> str:
        clock = f"{single.hour:02}:{single.minute:02}"
        if single.days is None:
            return f"Once, at the next {parse_cron(single.fields).explain()[3:].removesuffix(' every day')}"
        day = ("today", "tomorrow", "the day after tomorrow")[single.days]
        return f"Once, {day} at {clock}"

    def instant(self) -> datetime:
        """Return the instant (UTC) of a schedule with a fixed time.

        Raises `ScheduleError` if it is outside the supported years.
        """
        if self.at is not None:
            return self.at
        assert self.local is not None
        try:
            return first_instant(zone(self.zone), self.local)
        except (OverflowError, ValueError):
            raise ScheduleError(f"{self.text!r} is beyond the calendar; {FORMS}.") from None


def parse_schedule(text: str, zone_name: str) -> Schedule:
    """Parse a schedule for a time zone. Raises `ScheduleError` with one sentence about cause and fix."""
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
        return replace(found, delay=parse_duration(in_numbers(lower.removeprefix("in "))))
    if _DATE_LIKE.match(lower) and len(words.split()) < 4:
        raise ScheduleError(
            f"{words[:40]!r} is not an ISO time; "
            "write 2030-01-31T09:00, with an offset such as +02:00 or Z if you like."
        )
    if " " not in words and not words.startswith("@"):
        raise ScheduleError(f"{words[:40]!r} is not a schedule; {FORMS}.")
    return replace(found, kind="cron", cron=parse_cron(words))


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
        if clock and clock.startswith("24"):
            raise ValueError("hour must be in 0..23")  # Python 3.14 takes it for the next day
        read = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(offset or '').upper()}")
        if read.tzinfo is None:
            return replace(found, local=read)
        at = read.astimezone(UTC)
        # The offset of the zone is added to show it.
        at.astimezone(zone(found.zone))
    except (ValueError, OverflowError) as error:
        reason = str(error) if "must be in" in str(error) or "out of range" in str(error) else "no such time"
        raise ScheduleError(
            f"{found.text[:40]!r} is not a time of the calendar ({reason}); write one like 2030-01-31T09:00."
        ) from None
    return replace(found, at=at)


def parse_moment(text: str, zone_name: str) -> datetime:
    """Parse an ISO time as an instant in UTC. Without an offset it is a local time in the time zone.

    Raises `ScheduleError`.
    """
    words = " ".join(text.split())
    match = _ISO.fullmatch(words) if words.isascii() else None
    if match is None:
        raise ScheduleError(
            f"{text[:40]!a} is not an ISO time; write one like 2030-01-31T09:00 or 2030-01-31T09:00Z."
        )
    found = _at(Schedule(text=words, zone=zone_name, kind="once"), match)
    if found.at is not None:
        return found.at
    assert found.local is not None
    try:
        # Within a gap wall time runs on as before it.
        return found.local.replace(tzinfo=zone(found.zone)).astimezone(UTC)
    except (OverflowError, ValueError):
        raise ScheduleError(f"{text[:40]!r} is beyond the calendar; write a later year.") from None
