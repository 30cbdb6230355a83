"""The due times of a job that have begun: which of them run, which are skipped. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zlib import crc32

from agent.schedule.job import Job
from agent.schedule.occurrences import due_after

MOST_AT_ONCE = 100
"""Missed runs that are made up for."""
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DueTime:
    """A due time of a job and when it begins (seconds, UTC): late on purpose where the job has jitter."""

    due: int
    begins: int
    period: int | None
    """Seconds to the next due time of the schedule."""


@dataclass(frozen=True)
class DueDecision:
    """What becomes of the due times that have begun."""

    run: tuple[tuple[DueTime, str], ...]
    """Those that run, oldest first, and why: `due` or `missed`."""
    skip: tuple[DueTime, ...]
    looked: int
    """The newest due time (seconds, UTC) that is decided about; nothing up to it is due again."""
    next: int | None
    """When the next due time begins (seconds, UTC)."""


def instant(seconds: int) -> datetime:
    """Seconds as an instant."""
    return datetime.fromtimestamp(seconds, UTC)


def due_times(job: Job, after: datetime) -> Iterator[DueTime]:
    """The due times of a job strictly after an instant, up to its end. They begin in their order."""
    last = job.intent.last_instant()
    found = due_after(job.intent.parsed(), after, instant(job.anchor))
    each = next(found, None)
    while each is not None and (last is None or each <= last):
        later = next(found, None)
        due = int(each.timestamp())
        period = None if later is None else int(later.timestamp()) - due
        yield DueTime(due, due + delay(job.id, due, job.intent.jitter, period), period)
        each = later


def following(job: Job, after: int) -> int | None:
    """When the next due time strictly after `after` begins (seconds, UTC)."""
    found = next(due_times(job, instant(after)), None)
    return None if found is None else found.begins


def begun(job: Job, now: int) -> list[DueTime]:
    """The newest due times begun since the last look, oldest first; at most one more than are run."""
    looked, end, last = instant(job.looked), instant(now), job.intent.last_instant()
    if last is not None:
        end = min(end, last)
    # One that is late on purpose was due before.
    reach = _FIRST_LOOK + timedelta(seconds=job.intent.jitter)
    while True:
        # Backwards in growing steps: after a year asleep there are half a million of them.
        begin = max(looked, end - reach)
        newest: deque[DueTime] = deque(maxlen=MOST_AT_ONCE + 1)
        for each in due_times(job, begin):
            if each.begins > now:
                break
            newest.append(each)
        if begin == looked or len(newest) > MOST_AT_ONCE:
            return list(newest)
        reach *= 8


def decide(job: Job, now: int, grace: float) -> DueDecision:
    """Decide about the due times that have begun up to now. `grace` is in seconds."""
    due = begun(job, now)
    looked = due[-1].due if due else job.looked
    next_one = following(job, looked)
    why = {
        each: "missed" if now - each.begins > min(grace, (each.period or 2 * grace) / 2) else "due"
        for each in due
    }
    if job.intent.missed == "all":
        chosen = due[-MOST_AT_ONCE:]
    elif job.intent.missed == "once":
        chosen = due[-1:]
    else:
        chosen = [each for each in due if why[each] == "due"]
    if job.intent.repeat is not None:
        chosen = chosen[: max(0, job.intent.repeat - job.runs)]
        if job.runs + len(chosen) >= job.intent.repeat:
            next_one = None
    skip = tuple(each for each in due if each not in set(chosen))
    return DueDecision(tuple((each, why[each]) for each in chosen), skip, looked, next_one)


def delay(job: str, due: int, jitter: int, period: int | None) -> int:
    """Seconds by which a run begins late on purpose: the same whenever asked, over before the next is due."""
    most = jitter if period is None else min(jitter, period - 1)
    return crc32(f"{job} {due}".encode()) % (most + 1)
