"""Future due times of a schedule, and answers to questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from agent.automation.schedule.expression import (
    CronFields,
    Kind,
    Schedule,
    SingleTime,
    parse_cron,
    parse_moment,
    parse_schedule,
)
from agent.automation.schedule.zones import ScheduleError, changes, first_instant, offset_at, wall, zone

END = datetime(9999, 1, 1, tzinfo=UTC)
"""Where the calendar ends for steps of the clock."""
DAY = timedelta(days=1)


def due_after(schedule: Schedule, after: datetime, anchor: datetime | None = None) -> Iterator[datetime]:
    """Yield the instants (UTC) strictly after `after` at which a schedule is due, in order.

    `anchor` is when the schedule began (for a delay or an interval); by default it is `after`.
    """
    after = after.astimezone(UTC)
    start = after if anchor is None else anchor.astimezone(UTC)
    try:
        if schedule.cron is not None:
            where = zone(schedule.zone)
            found = _wall_occurrences if schedule.cron.has_fixed_times else _elapsed_occurrences
            yield from found(schedule.cron, where, after)
        elif schedule.every is not None:
            yield from _interval(schedule.every, start, after)
        elif schedule.single is not None:
            at = _single(schedule.single, zone(schedule.zone), start)
            if at is not None and at > after:
                yield at
        else:
            at = start + schedule.delay if schedule.delay is not None else schedule.instant()
            if at > after:
                yield at
    except OverflowError:
        # The calendar has an end.
        return


def next_due(
    schedule: Schedule, after: datetime, count: int, anchor: datetime | None = None
) -> list[datetime]:
    """Return the first `count` instants of `due_after`, or fewer if there are not that many."""
    return list(islice(due_after(schedule, after, anchor), count))


def _single(single: SingleTime, where: ZoneInfo, start: datetime) -> datetime | None:
    """Return when a single time of day is due that was requested at `start`; None if never."""
    if single.days is None:
        return next(_wall_occurrences(parse_cron(single.fields), where, start), None)
    day = wall(where, start).replace(hour=single.hour, minute=single.minute, second=0, microsecond=0)
    return first_instant(where, day + single.days * DAY)


def _interval(every: timedelta, start: datetime, after: datetime) -> Iterator[datetime]:
    passed = max(0, (after - start) // every) if after >= start else -1
    at = start + every * (passed + 1)
    if at == start:
        # The first one is a whole interval after the start.
        at += every
    while True:
        yield at
        at += every


def _wall_occurrences(cron: CronFields, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    last = after
    for local in cron.wall_times(wall(where, after)):
        # Several skipped times are one: the first minute after the gap.
        if (at := first_instant(where, local)) > last:
            yield at
            last = at


def _elapsed_occurrences(cron: CronFields, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    begin = after
    while begin < END:
        # No offset is as much as a day: before this there is nothing. Years without a match are passed over.
        nearest = next(cron.wall_times(begin.replace(tzinfo=None) - DAY), None)
        if nearest is None:
            return
        begin = max(begin, nearest.replace(tzinfo=UTC) - DAY)
        for start, end, offset in _stretches(where, begin):
            first, last = ((each + offset).replace(tzinfo=None) for each in (start, end))
            for local in cron.wall_times(first, last):
                at = (local - offset).replace(tzinfo=UTC)
                if after < at and start <= at < end:
                    yield at
            begin = end


def _stretches(where: ZoneInfo, begin: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """Yield periods with a constant UTC offset, from `begin` to the end of its month (UTC): start, end and
    offset.
    """
    month = begin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after_it = (month + timedelta(days=32)).replace(day=1)
    offset = offset_at(where, begin)
    for end in (*changes(where, month, after_it), after_it):
        if end > begin:
            yield begin, end, offset
            begin, offset = end, offset_at(where, end)


MOST = 10_000
"""Instants that can be asked for at once."""
DEFAULT_COUNT = 5


@dataclass(frozen=True)
class Question:
    """The question when `schedule` is next due in `zone`, strictly after `after`.

    `after` is an ISO time; without an offset it is a local time.
    """

    schedule: str
    zone: str
    after: str
    count: int = DEFAULT_COUNT


@dataclass(frozen=True)
class Answer:
    """The interpretation of a schedule: its kind, the next instants in its zone, and a description."""

    schedule: str
    kind: Kind
    next: tuple[datetime, ...]
    """Aware, with the offset of the zone; never to be compared with each other."""
    text: str


def ask(question: Question) -> Answer:
    """Return the answer to a question. Raises `ScheduleError`."""
    if not 1 <= question.count <= MOST:
        raise ScheduleError(f"The count {question.count} is out of range; ask for 1 to {MOST}.")
    schedule = parse_schedule(question.schedule, question.zone)
    after = parse_moment(question.after, question.zone)
    where = zone(schedule.zone)
    due = tuple(each.astimezone(where) for each in next_due(schedule, after, question.count))
    return Answer(question.schedule, schedule.kind, due, schedule.explain())
