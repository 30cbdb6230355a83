"""Decisions on which runs of a job are due, missed or skipped, and on the effect of an edit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zlib import crc32

from agent.automation.schedule.job import Job, JobIntent, check_intent
from agent.automation.schedule.occurrences import due_after
from agent.automation.schedule.zones import ScheduleError

MOST_AT_ONCE = 100
"""Missed runs that are made up for."""
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DueTime:
    """A due time of a job, and the time at which its run begins (seconds, UTC).

    Jitter can delay the beginning.
    """

    due: int
    begins: int
    period: int | None
    """Seconds to the next due time of the schedule."""


@dataclass(frozen=True)
class DueDecision:
    """The decision on due times whose beginning has passed."""

    run: tuple[tuple[DueTime, str], ...]
    """Those that run, oldest first, and why: `due` or `missed`."""
    skip: tuple[tuple[DueTime, str, str], ...]
    """Those that do not run, oldest first: `due` or `missed`, and the reason as a person reads it."""
    looked: int
    """The newest due time (seconds, UTC) that is decided about; nothing up to it is due again."""
    next: int | None
    """When the next due time begins (seconds, UTC)."""


def instant(seconds: int) -> datetime:
    """Return seconds since the epoch as an aware datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def due_times(job: Job, after: datetime) -> Iterator[DueTime]:
    """Yield the due times of a job strictly after an instant, until the job's end.

    They are in the order in which their runs begin.
    """
    last = job.intent.last_instant()
    found = due_after(job.intent.parse(), after, instant(job.anchor))
    each = next(found, None)
    while each is not None and (last is None or each <= last):
        later = next(found, None)
        due = int(each.timestamp())
        period = None if later is None else int(later.timestamp()) - due
        yield DueTime(due, due + delay(job.id, due, job.intent.jitter, period), period)
        each = later


def following(job: Job, after: int) -> int | None:
    """Return when the first due time strictly after `after` begins (seconds, UTC).

    None means that the job has used up its `repeat` or is never due again.
    """
    if job.is_used_up:
        return None
    found = next(due_times(job, instant(after)), None)
    return None if found is None else found.begins


def never_due(job: Job) -> ScheduleError:
    """Return the error for a job that has no next due time."""
    if job.is_used_up:
        return ScheduleError(
            f"The job {job.title!r} has had all runs of its repeat ({job.runs} of {job.intent.repeat}); "
            "give it a larger repeat."
        )
    return ScheduleError(f"The job {job.title!r} is never due from now on; give it a later schedule or end.")


def newest_due_times(job: Job, now: int) -> list[DueTime]:
    """Return the newest due times that have begun since the last check, oldest first.

    The list has at most one entry more than can be run.
    """
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


def decide(job: Job, now: int, grace: float, busy: bool = False) -> DueDecision:
    """Decide about all due times that have begun by `now`.

    `grace` is in seconds; `busy` means that a run of the job is still unfinished.
    """
    due = newest_due_times(job, now)
    looked = due[-1].due if due else job.looked
    why = {
        each: "missed" if now - each.begins > min(grace, (each.period or 2 * grace) / 2) else "due"
        for each in due
    }
    chosen, passed_over = _by_policy(job, due, why)
    why |= dict.fromkeys((each for each in due if each not in chosen), "missed")
    reasons = dict.fromkeys(due, passed_over)
    if busy and job.intent.overlap == "skip":
        reasons |= dict.fromkeys(chosen, "the run before was not over")
        chosen = []
    elif job.intent.repeat is not None:
        left = max(0, job.intent.repeat - job.runs)
        reasons |= dict.fromkeys(chosen[left:], "the job had all runs of its repeat")
        chosen = chosen[:left]
    run = tuple((each, why[each]) for each in chosen)
    skip = tuple((each, why[each], reasons[each]) for each in due if each not in chosen)
    return DueDecision(run, skip, looked, following(replace(job, runs=job.runs + len(run)), looked))


def _by_policy(job: Job, due: list[DueTime], why: Mapping[DueTime, str]) -> tuple[list[DueTime], str]:
    """Return the due times that run under the job's policy for missed runs, and why the others do not."""
    match job.intent.missed:
        case "all":
            return due[-MOST_AT_ONCE:], f"missed, and only the newest {MOST_AT_ONCE} are made up for"
        case "once":
            return due[-1:], "missed, and a later one took its place"
        case _:
            fresh = [each for each in due if why[each] == "due"]
            return fresh, "missed, and this job skips what it missed"


def delay(job: str, due: int, jitter: int, period: int | None) -> int:
    """Return by how many seconds jitter delays a run.

    The delay of a run is always the same, and shorter than the time to the next run.
    """
    most = jitter if period is None else min(jitter, period - 1)
    return crc32(f"{job} {due}".encode()) % (most + 1)


def edit_job(before: Job, intent: JobIntent, now: int, rescheduled: bool) -> Job:
    """Return the job with a new definition. `rescheduled` means that a schedule was given, even if it is
    unchanged.

    If the schedule changed, the job counts from now. Otherwise due times without a decision stay due. A
    paused job stays paused. A finished job becomes active only if it is due again. Raises `ScheduleError` if
    the change leaves the job never due.
    """
    intent = check_intent(intent)
    old = before.intent
    over = before.state == "done"
    moved = (intent.schedule, intent.zone) != (old.schedule, old.zone) or (over and rescheduled)
    retimed = moved or (intent.until, intent.repeat) != (old.until, old.repeat)
    looked = before.looked if before.state == "active" and not moved else max(now, before.looked)
    changed = replace(before, intent=intent, anchor=now if moved else before.anchor, looked=looked)
    if before.state != "active" and not retimed:
        return changed
    soonest = following(changed, looked)
    if retimed and soonest is None:
        raise never_due(changed)
    if before.state == "paused":
        return changed
    return replace(changed, state="active" if soonest is not None else "done", next=soonest)
