"""Waiting for a provider: requested delays, retries, and the queue of requests of many agents."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TypeVar

from agent.errors import RETRYABLE, ModelError
from tools.kit.lazy_pattern import lazy_pattern

LONGEST_RESET = 600.0
"""The longest wait in seconds for the reset of a limit; a daily limit takes longer and is not waited for."""
_EPOCH = 1_000_000_000
"""Seconds from which on a number is a point in time and not a duration."""

_RENAMED = lazy_pattern(r"(?:^|.*[-_])retry[-_]?after(?P<ms>[-_]?(?:ms|milliseconds))?(?:[-_]?seconds?)?")
_PART = lazy_pattern(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|h|hours?|m|min(?:ute)?s?|s|sec(?:ond)?s?)(?![a-z])", re.I
)
_UNITS = {"ms": 0.001, "h": 3_600.0, "m": 60.0, "s": 1.0}
_PAIRS = lazy_pattern(r"\b(r|remaining|t|reset)=(\d+)")
_BODY = lazy_pattern(
    r'"retryDelay"\s*:\s*"(?P<a>[\d.]+s)"'
    r'|"retry_after(?P<ms>_ms)?(?:_seconds)?"\s*:\s*"?(?P<b>\d+(?:\.\d+)?)'
    r"|\b(?:try|retry|wait)(?:\s+again)?\s+(?:in|after|for|at least)?\s*(?P<c>\d[\w.\s]{0,24})",
    re.IGNORECASE,
)


def asked_wait(
    headers: Mapping[str, str], status: int | None, body: str = "", now: datetime | None = None
) -> float | None:
    """Return the seconds that a provider asks to wait; None if it names no readable time.

    The body, and the headers on the reset of limits, are used only if `status` is 429 (too many requests).
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
    """Return the seconds until the last exhausted limit, or else the next one, is reset; None if unknown."""
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
    """Return the seconds until the time that a text means; None if it is unreadable.

    It may be a number, a duration such as `6m0s`, or a point in time in one of three forms.
    """
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
    """Return the seconds that a text such as `1m2.5s`, `20 seconds` or `500ms` begins with, or None."""
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


def is_long_limit(error: ModelError) -> bool:
    """Return whether a provider will refuse requests for longer than `LONGEST_RESET`."""
    return error.kind == "rate_limit" and (error.retry_after or 0.0) > LONGEST_RESET


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponentially increasing delays with a random part. All times are in seconds."""

    retries: int
    """The maximum number of retries of one request."""
    base: float = 0.5
    """The upper limit of the first delay; it doubles with each attempt."""
    cap: float = 30.0
    """The upper limit of delays that the provider did not ask for."""
    asked_cap: float = 120.0
    """The upper limit of a delay that the provider asks for."""

    def delay(self, attempt: int, error: ModelError, chance: Random) -> float | None:
        """Return the seconds to wait after a failed attempt (counted from 1); None to give up.

        Half of the delay is fixed and half is random, so that many clients do not retry at the same time. If
        the provider asks for a wait, the delay is at least that long, up to `asked_cap`. A limit that lasts
        longer than `LONGEST_RESET` is not waited for: each retry before its end would be refused.
        """
        if error.kind not in RETRYABLE or attempt > self.retries or is_long_limit(error):
            return None
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))
        delay = chance.uniform(ceiling / 2, ceiling)
        if error.retry_after is not None:
            delay = max(delay, min(error.retry_after, self.asked_cap))
        return delay


T = TypeVar("T")

STORM = 20
"""Additional retries of a request that was refused for its rate: the throttle makes it wait."""


class PausedError(ModelError):
    """Raised if an answer was aborted because its agent was paused; it is requested again later."""

    def __init__(self) -> None:
        super().__init__("cut", "The agent is paused.")


class Pause:
    """The pause state of one agent. `waited` is called with the length of each pause in seconds."""

    def __init__(self, waited: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._waited = waited
        self._clock = clock
        self._flows = asyncio.Event()
        self._flows.set()
        self._limit: asyncio.Timeout | None = None
        self._since = 0.0

    @property
    def on(self) -> bool:
        return not self._flows.is_set()

    def begin(self) -> None:
        """Abort the running answer, and hold back further requests until `end` is called."""
        if self.on:
            return
        self._since = self._clock()
        self._flows.clear()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def end(self) -> None:
        """End the pause, so that requests held back are sent."""
        if self.on:
            self._waited(self._clock() - self._since)
            self._flows.set()

    async def over(self) -> None:
        """Wait until the agent is not paused."""
        await self._flows.wait()

    async def next(self, items: AsyncIterator[T]) -> T:
        """Return the next of `items`. Raises `PausedError` as soon as the agent is paused."""
        try:
            async with asyncio.timeout(0 if self.on else None) as limit:
                self._limit = limit
                return await anext(items)
        except TimeoutError:
            if not self.on:
                raise
            raise PausedError from None
        finally:
            self._limit = None


class NoPause(Pause):
    """A replacement for `Pause` for an agent that can be interrupted but not paused."""

    def __init__(self) -> None:
        super().__init__(lambda _seconds: None)

    async def next(self, items: AsyncIterator[T]) -> T:
        return await anext(items)


@dataclass(frozen=True, slots=True)
class PatientPolicy(RetryPolicy):
    """A policy that also retries after each pause of the agent, and after long series of rate limits."""

    def delay(self, attempt: int, error: ModelError, chance: Random) -> float | None:
        """Return the delay of `RetryPolicy`, or 0 if the pause or the throttle makes the request wait."""
        if isinstance(error, PausedError):
            return 0.0
        if error.kind == "rate_limit" and attempt <= self.retries + STORM and not is_long_limit(error):
            return 0.0
        return RetryPolicy.delay(self, attempt, error, chance)


FIRST_GAP = 0.5
"""Seconds between two requests after the first refusal."""

LARGEST_GAP = 30.0
"""The maximum number of seconds between two requests."""

LONGEST_WAIT = 120.0
"""The upper limit in seconds of a wait that the provider asks for."""

RECOVERY = 0.8
"""The factor by which an answer reduces the gap: a dozen answers remove that of a single refusal."""

NO_GAP = 0.05
"""Seconds below which a gap becomes zero."""


class Throttle:
    """One queue for the requests of many agents. Times are in seconds of `clock`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._line = asyncio.Lock()
        self._opens = clock()
        self._slowed = float("-inf")
        self.gap = 0.0
        """The present number of seconds between two requests."""

    async def admit(self) -> float:
        """Wait until the next request may be sent, in the order of the calls; return the time for
        `record_refusal`.
        """
        async with self._line:
            while (wait := self._opens - self._clock()) > 0:
                await self._sleep(wait)
            now = self._clock()
            self._opens = now + self.gap
            return now

    def record_refusal(self, admitted: float, retry_after: float | None = None) -> None:
        """Increase the time between requests after a refusal; the next one waits for `retry_after` too.
        `admitted` is what `admit` returned for the request.
        """
        now = self._clock()
        if admitted > self._slowed:
            # Other requests of the same series were already sent: their refusals say nothing new.
            self.gap = min(LARGEST_GAP, max(FIRST_GAP, 2 * self.gap))
            self._slowed = now
        wait = max(self.gap, min(retry_after or 0.0, LONGEST_WAIT))
        self._opens = max(self._opens, now + wait)

    def record_answer(self) -> None:
        """Decrease the time between requests after a successful request."""
        self.gap *= RECOVERY
        if self.gap < NO_GAP:
            self.gap = 0.0


class NoThrottle(Throttle):
    """A replacement for `Throttle` for an agent whose requests do not wait for others."""

    async def admit(self) -> float:
        return 0.0

    def record_refusal(self, admitted: float, retry_after: float | None = None) -> None:
        pass

    def record_answer(self) -> None:
        pass
