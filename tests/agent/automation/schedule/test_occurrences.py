"""When schedules are due, against a reference that looks at every minute around each change of the clocks."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from agent.automation.schedule.expression import parse_moment, parse_schedule
from agent.automation.schedule.job import next_due
from tests.agent.automation.schedule.reference import Minutes, Spec, changes_of
from tests.support.thorough import thoroughly

ZONES = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Australia/Lord_Howe": 2026,
    "Pacific/Apia": 2011,
    "Asia/Kathmandu": 1985,
    "America/Santiago": 2026,
    "Europe/Dublin": 2026,
    "UTC": 2026,
}
"""A year in which each zone changed: half hours, a day left out, a quarter of an hour, at midnight."""
EXPRESSIONS = (
    "30 2 * * *",
    "0 2 * * *",
    "0,15,30,45 1,2 * * *",
    "59 1 * * *",
    "0 0 * * *",
    "15 0 * * *",
    "30 23 * * *",
    "0 3 * * *",
    "*/15 2 * * *",
    "* 2 * * *",
    "30 * * * *",
    "*/7 * * * *",
    "0 */2 * * *",
    "5-50/15 1-3 * * SUN",
    "45 1 1-7 * SUN",
    "10 2 L * *",
    "20 1,2 * * SUN#1",
    "20 1,2 * MAR-NOV 0L",
    "0 9 30 12 *",
    "* 23 * * *",
    "7 2/3 * * 7",
)
REACH = timedelta(hours=30)


def iso(instants: list[datetime]) -> list[str]:
    return [each.isoformat() for each in instants]


@pytest.mark.thorough
@pytest.mark.parametrize("step", [17, *thoroughly(1)])
@pytest.mark.parametrize("name", ZONES)
def test_around_each_change_what_is_due_is_what_every_minute_says(name: str, step: int) -> None:
    where, year = ZoneInfo(name), ZONES[name]
    changes = changes_of(where, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    assert bool(changes) == (name != "UTC")
    for change in changes or [datetime(year, 3, 1, tzinfo=UTC)]:
        minutes = Minutes.around(where, change, REACH)
        starts = [change + timedelta(minutes=each) for each in range(-150, 150, step)]
        starts += [change, change - timedelta(seconds=1), change + timedelta(seconds=1), minutes.rows[0][0]]
        for text in EXPRESSIONS:
            due = minutes.due(Spec.of(text))
            schedule = parse_schedule(text, name)
            for start in starts:
                expected = due[bisect_right(due, start) :][:4]
                found = [each for each in next_due(schedule, start, 4) if each < change + REACH]
                assert iso(found) == iso(expected), (text, start)


CASES = (
    # A time of the day that is skipped is due once, at the first minute after the gap.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00",
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    ),
    (
        "0,30 2 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00",
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"],
    ),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-04T02:30:00+11:00"]),
    ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["2026-09-06T01:00:00-03:00"]),
    ("0 9 30 12 *", "Pacific/Apia", "2011-12-29T12:00", ["2011-12-31T00:00:00+14:00"]),
    # One that comes twice is due the first time only, also when asked from between the two.
    (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T00:00",
        ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    ),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", ["2026-10-26T02:30:00+01:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00", ["2026-04-05T01:45:00+11:00"]),
    # What follows elapsed time does so through both.
    (
        "0 * * * *",
        "Europe/Berlin",
        "2026-10-25T01:30",
        [f"2026-10-25T0{h}:00:00+0{z}:00" for h, z in ((2, 2), (2, 1), (3, 1))],
    ),
    (
        "*/20 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-04T01:00",
        ["2026-10-04T02:40:00+11:00", "2026-10-05T02:00:00+11:00"],
    ),
    (
        "every 12h",
        "Europe/Berlin",
        "2026-03-28T20:00",
        ["2026-03-29T09:00:00+02:00", "2026-03-29T21:00:00+02:00"],
    ),
    ("1d", "Europe/Berlin", "2026-03-28T20:00", ["2026-03-29T21:00:00+02:00"]),
    # A time given as such is wall time of the zone, unless it brings an offset or a zone.
    ("2026-03-29T02:30", "Europe/Berlin", "2026-01-01T00:00", ["2026-03-29T03:00:00+02:00"]),
    ("2026-10-25T02:30", "Europe/Berlin", "2026-01-01T00:00", ["2026-10-25T02:30:00+02:00"]),
    ("2026-10-25T02:30:00+01:00", "Europe/Berlin", "2026-10-25T02:30+02:00", ["2026-10-25T02:30:00+01:00"]),
    ("2026-06-01 09:00[Asia/Kathmandu]", "UTC", "2026-01-01T00:00", ["2026-06-01T09:00:00+05:45"]),
    ("2026-06-01t09:00z", "Asia/Kathmandu", "2026-01-01T00:00", ["2026-06-01T14:45:00+05:45"]),
    ("2026-06-01", "UTC", "2026-06-01T00:00", []),
    # Day of month and of week: either; with a star in one of them: both.
    ("0 0 13 * FRI", "UTC", "2026-11-01T00:00", [f"2026-11-{day:02}T00:00:00+00:00" for day in (6, 13, 20)]),
    ("0 0 */2 * MON", "UTC", "2026-11-01T00:00", ["2026-11-09T00:00:00+00:00", "2026-11-23T00:00:00+00:00"]),
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T00:00:00+00:00"]),
    ("@weekly", "UTC", "2026-11-23T00:00", ["2026-11-29T00:00:00+00:00"]),
    ("  0\t9  * jan,Feb  mon-FRI ", "UTC", "2026-11-23T00:00", ["2027-01-01T09:00:00+00:00"]),
)


@pytest.mark.parametrize(("text", "name", "after", "expected"), CASES)
def test_it_is_due_at(text: str, name: str, after: str, expected: list[str]) -> None:
    schedule = parse_schedule(text, name)
    found = next_due(schedule, parse_moment(after, name), max(1, len(expected)))
    assert [each.astimezone(ZoneInfo(schedule.zone)).isoformat() for each in found] == expected


@pytest.mark.parametrize("count", [40, *thoroughly(3000)])
def test_outside_of_changes_croniter_agrees(count: int) -> None:
    from croniter import croniter

    chance = random.Random(7)
    names = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")
    for _ in range(count):
        name = chance.choice(names)
        minute = chance.choice(("*", "*/5", "0", "7,37", "10-20", f"{chance.randrange(60)}"))
        hour = chance.choice(("*", "*/6", "4-10/3", f"{chance.randrange(4, 24)}"))
        day = chance.choice(("*", "1", "10-15", "L", f"{chance.randrange(1, 29)}"))
        month = chance.choice(("*", "1", "JUN-AUG", "6,12"))
        # There it means both with the second Friday, here either, as with every weekday.
        days = ("*", "MON-FRI", "0", "SUN") if day != "*" else ("*", "5#2", "0", "MON-FRI")
        weekday = "*" if day == "L" else chance.choice(days)
        text = f"{minute} {hour} {day} {month} {weekday}"
        after = datetime(2026, 12, 1, tzinfo=UTC) + timedelta(minutes=chance.randrange(80_000))
        schedule = parse_schedule(text, name)
        other = croniter(text, after.astimezone(ZoneInfo(name)))
        for each in next_due(schedule, after, 3):
            theirs = other.get_next(datetime).astimezone(UTC)
            if theirs.year == 2027 and theirs.month in (3, 4, 10, 11) and each != theirs:
                break
            assert each.isoformat() == theirs.isoformat(), (text, name, after)


def test_an_interval_counts_from_its_anchor() -> None:
    schedule = parse_schedule("every 2h", "UTC")
    anchor = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
    found = next_due(schedule, datetime(2026, 1, 1, 4, 10, tzinfo=UTC), 2, anchor)
    assert [each.hour for each in found] == [6, 8]
    assert next_due(schedule, anchor - timedelta(days=1), 1, anchor) == [anchor + timedelta(hours=2)]
    once = parse_schedule("30m", "UTC")
    assert next_due(once, anchor, 2, anchor) == [anchor + timedelta(minutes=30)]
    assert next_due(once, anchor + timedelta(hours=1), 2, anchor) == []
