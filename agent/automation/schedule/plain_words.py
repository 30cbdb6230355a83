"""Schedules in plain words: `every weekday at 9`, `tomorrow at 9am`, `hourly`, `every 1.5h`. Pure.

What repeats is rewritten as five fields of cron or as a duration; a single time stays a number of days and a
time, counted from when it was asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.automation.schedule.durations import unit_seconds
from agent.automation.schedule.zones import ScheduleError

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
_REPEATED = re.compile(
    rf"(?P<every>(?:every|each|on) )?"
    rf"(?P<days>(?:business |working )?{_DAY_LIST}|[a-z]+ ?(?:-|to|through) ?[a-z]+)"
    rf"(?: in the)?(?: (?P<part>morning|afternoon|evening|night)s?)?{_AT}?"
)
_MONTHLY = re.compile(
    rf"(?:monthly |every month |each month )?(?:every |each |on )?(?:the )?"
    rf"(?:(?P<number>\d{{1,2}})(?:st|nd|rd|th)?|(?P<last>last day)"
    rf"|(?P<nth>first|second|third|fourth|fifth|last) (?P<name>[a-z]+))(?: of (?:the|every|each) month)?{_AT}"
)
_SINGLE = re.compile(
    rf"(?:on |this |next )?(?P<day>today|tonight|tomorrow|(?:the )?day after tomorrow|(?!at )[a-z]+)?"
    rf"(?: ?(?P<part>morning|afternoon|evening|night))?{_AT}?"
)
_AMOUNT = re.compile(
    rf"(?:(?P<half>half an?|half)"
    rf"|(?P<word>{'|'.join(_NUMBERS[1:])}|an?|other|second|third|couple of|a couple of)"
    r"|(?P<decimal>\d{1,6}\.\d{1,3})) ?(?P<unit>[a-z]+)"
)


@dataclass(frozen=True, slots=True)
class SingleTime:
    """One time of the clock. It is due `days` after the day it was asked, or when `fields` first match."""

    hour: int
    minute: int
    days: int | None
    fields: str
    """Five fields of cron; they count where `days` is None."""


def in_fields(lower: str) -> str:
    """A repeated schedule in plain words as `@NAME` or five fields of cron; empty if it is not one.

    `lower` is lower case with single blanks. Raises `ScheduleError` where only the time is missing or wrong.
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
    """A single time in plain words: `tomorrow at 9am`, `monday at 14:30`, `at noon`; None if it is not one.

    Raises `ScheduleError` where only the time is missing or wrong.
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
    """A duration in words or decimals as plain digits, `half an hour` as `1800s`; others as they came."""
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
    """Days as a field of cron; None for what names none."""
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
    """Hours and minutes of times of the day; `part` tells which 8 is meant in the evening."""
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
