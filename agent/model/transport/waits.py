"""Time a provider asks to wait before the next request, under all the names in use.

`retry-after` is what the standard says; gateways hand it on under other names (LiteLLM:
`llm_provider-retry-after`), others only tell when a limit is reset, or say it in the body.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RESET = 600.0
"""Seconds to the reset of a limit beyond which it says nothing: nobody waits for the limit of a day."""
_EPOCH = 1_000_000_000
"""Seconds from which on a number is a moment, not a time to wait."""

_RENAMED = re.compile(r"(?:^|.*[-_])retry[-_]?after(?P<ms>[-_]?(?:ms|milliseconds))?(?:[-_]?seconds?)?")
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|h|hours?|m|min(?:ute)?s?|s|sec(?:ond)?s?)(?![a-z])", re.I
)
_UNITS = {"ms": 0.001, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PAIRS = re.compile(r"\b(r|remaining|t|reset)=(\d+)")
_BODY = re.compile(
    r'"retryDelay"\s*:\s*"(?P<a>[\d.]+s)"'
    r'|"retry_after(?P<ms>_ms)?(?:_seconds)?"\s*:\s*"?(?P<b>\d+(?:\.\d+)?)'
    r"|\b(?:try|retry|wait)(?:\s+again)?\s+(?:in|after|for|at least)?\s*(?P<c>\d[\w.\s]{0,24})",
    re.IGNORECASE,
)


def asked_wait(
    headers: Mapping[str, str], status: int | None, body: str = "", now: datetime | None = None
) -> float | None:
    """Seconds a provider asks to wait; None if it says nothing that can be read.

    `headers` are looked up in lower case. What the body and the resets of limits say counts only
    for a refusal because of too many requests.
    """
    now = now or datetime.now(UTC)
    named = {name.lower(): value for name, value in headers.items()}
    found = next((wait for wait in _waits(named, now) if wait is not None), None)
    if found is not None or status != 429:
        return found
    return wait if (wait := _in_body(body)) is not None else _reset(named, now)


def _waits(headers: Mapping[str, str], now: datetime) -> Iterator[float | None]:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    yield None if milliseconds is None else milliseconds / 1000
    yield _seconds(headers.get("retry-after", ""), now)
    for name, value in headers.items():
        if (found := _RENAMED.fullmatch(name)) is not None:
            wait = _number(value) if found["ms"] else _seconds(value, now)
            yield wait / 1000 if wait is not None and found["ms"] else wait


def _reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to the reset of the limit that was reached: all of those that are used up, else the nearest."""
    used_up: list[float] = []
    others: list[float] = []
    for name, value in headers.items():
        if "ratelimit" not in name.replace("-limit", "limit"):
            continue
        if "reset" in name:
            left, wait = _number(headers.get(name.replace("reset", "remaining"), "")), _seconds(value, now)
        else:
            pairs = {key[0] + key[-1]: int(number) for key, number in _PAIRS.findall(value)}
            left, wait = pairs.get("rr", pairs.get("rg")), pairs.get("tt", pairs.get("rt"))
        if wait is not None and wait <= LONGEST_RESET:
            (used_up if left is not None and left <= 0 else others).append(float(wait))
    return max(used_up) if used_up else min(others, default=None)


def _in_body(body: str) -> float | None:
    for found in _BODY.finditer(body[:20_000]):
        if found["b"]:
            return float(found["b"]) / (1000 if found["ms"] else 1)
        if (wait := _duration(found["a"] or found["c"])) is not None:
            return wait
    return None


def _seconds(value: str, now: datetime) -> float | None:
    """A number of seconds, a duration such as `6m0s`, or the time to a moment in any of three forms."""
    if (number := _number(value)) is not None:
        if number < _EPOCH:
            return number
        moment = number / 1000 if number >= _EPOCH * 1000 else number
        return max(0.0, moment - now.timestamp())
    if re.fullmatch(rf"(?:{_PART.pattern}\s*)+", value.strip(), re.IGNORECASE):
        return _duration(value)
    date = _date(value)
    return None if date is None else max(0.0, (date - now).total_seconds())


def _date(value: str) -> datetime | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = read(value)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date
    return None


def _duration(text: str) -> float | None:
    """Seconds of a text such as `1m2.5s`, `20 seconds` or `500ms`; None if it begins with no such thing."""
    total, at = None, 0
    for part in _PART.finditer(text):
        if text[at : part.start()].strip():
            break
        unit = part[2].lower()
        factor = _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
        total, at = (total or 0.0) + float(part[1]) * factor, part.end()
    return total


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
