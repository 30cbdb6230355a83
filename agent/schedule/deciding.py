"""The due times of a job that have come: which of them run, which are skipped. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zlib import crc32

from agent.schedule.job import Job
from agent.schedule.occurrences import due_after, next_due

MOST_AT_ONCE = 100
"""Missed runs that are made up for."""
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True)
class DueDecision:
    """What becomes of the due times (seconds, UTC) up to now."""

    run: tuple[tuple[int, str], ...]
    """Those that run, oldest first, and why: `due` or `missed`."""
    skip: tuple[int, ...]
    next: int | None
    """The next due time after now."""


def instant(seconds: int) -> datetime:
    """Seconds as an instant."""
    return datetime.fromtimestamp(seconds, UTC)


def upcoming(job: Job, after: int, count: int) -> list[int]:
    """The next due times (seconds, UTC) strictly after a time."""
    schedule, last = job.intent.parsed(), job.intent.last_instant()
    found = next_due(schedule, instant(after), count, instant(job.anchor))
    return [int(each.timestamp()) for each in found if last is None or each <= last]


def passed(job: Job, now: int) -> list[int]:
    """The newest due times after the last look up to now, oldest first; at most one more than are run."""
    schedule, last = job.intent.parsed(), job.intent.last_instant()
    looked, end = instant(job.looked), instant(now)
    if last is not None:
        end = min(end, last)
    reach = _FIRST_LOOK
    while True:
        # Backwards in growing steps: after a year asleep there are half a million of them.
        begin = max(looked, end - reach)
        newest: deque[datetime] = deque(maxlen=MOST_AT_ONCE + 1)
        for each in due_after(schedule, begin, instant(job.anchor)):
            if each > end:
                break
            newest.append(each)
        if begin == looked or len(newest) > MOST_AT_ONCE:
            return [int(each.timestamp()) for each in newest]
        reach *= 8


def decide(job: Job, now: int, grace: float) -> DueDecision:
    """Decide about the due times up to now. `grace` is in seconds."""
    due = passed(job, now)
    following = upcoming(job, now, 1)
    after = [*due[1:], *following]
    late = [
        now - each > min(grace, (after[index] - each) / 2 if index < len(after) else grace)
        for index, each in enumerate(due)
    ]
    why = {each: "missed" if is_late else "due" for each, is_late in zip(due, late, strict=True)}
    if job.intent.missed == "all":
        chosen = due[-MOST_AT_ONCE:]
    elif job.intent.missed == "once":
        chosen = due[-1:]
    else:
        chosen = [each for each in due if why[each] == "due"]
    if job.intent.repeat is not None:
        chosen = chosen[: max(0, job.intent.repeat - job.runs)]
        if job.runs + len(chosen) >= job.intent.repeat:
            following = []
    skip = tuple(each for each in due if each not in set(chosen))
    return DueDecision(tuple((each, why[each]) for each in chosen), skip, following[0] if following else None)


def delay(job: str, due: int, jitter: int) -> int:
    """Seconds by which a run is late on purpose, the same wherever it is asked."""
    return crc32(f"{job} {due}".encode()) % (jitter + 1)
