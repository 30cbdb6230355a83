"""Durations as people write them: `30m`, `2h`, `1h30m`, `15 minutes`."""

from __future__ import annotations

import re
from datetime import timedelta

from agent.automation.schedule.zones import ScheduleError

UNITS = {
    "s": ("second", 1),
    "m": ("minute", 60),
    "h": ("hour", 3600),
    "d": ("day", 86400),
    "w": ("week", 604800),
}
"""Name of a unit and its seconds, by its letter."""
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
_PIECE = re.compile(r"([0-9]+) ?([a-z]+)", re.ASCII)
_WHOLE = re.compile(r"(?:[0-9]+ ?[a-z]+ ?)+", re.ASCII)


def unit_seconds(word: str) -> int:
    """Seconds of a unit, by its letter or name; 0 for what is none."""
    return UNITS[_WORDS[word]][1] if word in _WORDS else 0


def looks_like_duration(text: str) -> bool:
    """Whether a lower-case text begins with a number and goes on with a unit, right or wrong."""
    return re.fullmatch(r"[-+]?[0-9][0-9.,]* ?[a-z][a-z0-9 ]*", text, re.ASCII) is not None


def parse_duration(text: str) -> timedelta:
    """Read a duration of lower-case text. Raises `ScheduleError`."""
    if not _WHOLE.fullmatch(text):
        raise ScheduleError(f"{text[:40]!r} is no duration; {FORM}.")
    total = 0
    for digits, word in _PIECE.findall(text):
        if word not in _WORDS:
            raise ScheduleError(f"{word[:20]!r} is no unit of time; {FORM}.")
        if len(digits) > MOST_DIGITS:
            raise ScheduleError(f"{text[:40]!r} is too long; the most is {LONGEST_DURATION.days} days.")
        total += int(digits) * UNITS[_WORDS[word]][1]
        if total > LONGEST_DURATION.total_seconds():
            raise ScheduleError(f"{text[:40]!r} is too long; the most is {LONGEST_DURATION.days} days.")
    if not total:
        raise ScheduleError(f"{text[:40]!r} is no time at all; give at least one second.")
    return timedelta(seconds=total)


def say_duration(duration: timedelta) -> str:
    """Spell a duration out: `2 hours`, `1 day 6 hours`."""
    left = int(duration.total_seconds())
    words: list[str] = []
    for letter in "wdhms":
        name, seconds = UNITS[letter]
        if letter == "w" and left % seconds:
            # 10 days are said as days.
            continue
        count, left = divmod(left, seconds)
        if count:
            words.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(words) or "0 seconds"
