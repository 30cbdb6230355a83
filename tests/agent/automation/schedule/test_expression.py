"""Schedules as they are written, right and wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.automation.schedule.expression import parse_moment, parse_schedule
from agent.automation.schedule.job import next_due
from agent.automation.schedule.zones import ScheduleError, machine_zone


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("30m", "once", "Once, after 30 minutes"),
        ("60s", "once", "Once, after 1 minute"),
        ("In 1h30m", "once", "Once, after 1 hour 30 minutes"),
        ("every 2h", "interval", "Every 2 hours"),
        ("EVERY 15 Minutes", "interval", "Every 15 minutes"),
        ("every hour", "interval", "Every 1 hour"),
        ("every 1w", "interval", "Every 1 week"),
        ("0 9 * * mon-fri", "cron", "At 09:00 on Monday through Friday"),
        ("@Daily", "cron", "At 00:00 every day"),
        ("2030-01-31T09:00", "once", "Once, on 2030-01-31 09:00"),
        ("every weekday at 9", "cron", "At 09:00 on Monday through Friday"),
        ("mon-fri at 7:15", "cron", "At 07:15 on Monday through Friday"),
        ("every mon, wed and fri at 8pm", "cron", "At 20:00 on Monday, Wednesday, and Friday"),
        ("weekdays at 9 and 17", "cron", "At 09:00 and 17:00 on Monday through Friday"),
        ("weekly on friday at noon", "cron", "At 12:00 on Friday"),
        ("daily at 6am", "cron", "At 06:00 every day"),
        ("every evening at 8", "cron", "At 20:00 every day"),
        ("every month on the 15th at 9", "cron", "At 09:00 on the 15th day of every month"),
        ("first monday of the month at 10", "cron", "At 10:00 on the first Monday of the month"),
        ("last day of the month at 18:00", "cron", "At 18:00 on the last day of every month"),
        ("hourly", "cron", "At the start of every hour"),
        ("every 1.5h", "interval", "Every 1 hour 30 minutes"),
        ("every other day", "interval", "Every 2 days"),
        ("every half hour", "interval", "Every 30 minutes"),
        ("in an hour", "once", "Once, after 1 hour"),
        ("half an hour", "once", "Once, after 30 minutes"),
        ("1.5h", "once", "Once, after 1 hour 30 minutes"),
        ("tomorrow at 9am", "once", "Once, tomorrow at 09:00"),
        ("Tonight at 8", "once", "Once, today at 20:00"),
        ("next friday at 14:30", "once", "Once, at the next 14:30 on Friday"),
        ("9:30pm", "once", "Once, at the next 21:30"),
    ],
)
def test_what_is_written_is_understood(text: str, kind: str, words: str) -> None:
    schedule = parse_schedule(text, "UTC")
    assert (schedule.kind, schedule.explain()) == (kind, words)


@pytest.mark.sample(49)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        ("30", "is not a schedule"),
        ("soon", "is not a schedule"),
        ("0m", "not a time at all"),
        ("-5m", "is not a duration"),
        ("1.5.5h", "is not a duration"),
        ("5x", "'x' is not a unit of time"),
        ("99999999999d", "the most is 3660 days"),
        ("every", "write every 2h"),
        ("every 30s", "the shortest interval is 1 minute"),
        ("every blue moon", "five cron fields"),
        ("every weekday", "names no time of the day; write every weekday at 9:00"),
        ("tomorrow", "names no time of the day; write tomorrow at 9:00"),
        ("every day at 25", "is not a time of the day"),
        ("at 13pm", "is not a time of the day"),
        ("every day at 9 and 17:30", "make a job for each"),
        ("9:00", "is not an ISO time"),
        ("12/31/2030", "is not an ISO time"),
        ("20300131", "is not an ISO time"),
        ("2030-02-30T09:00", "write one like 2030-01-31T09:00."),
        ("2030-01-01T24:00", "(hour must be in 0..23)"),
        ("2030-01-01T09:00[Europe/Berln]", "did you mean Europe/Berlin?"),
        ("1 2 3 4", "this one has 4"),
        ("0 0 0 1 1 *", "seconds and years are not supported"),
        ("0 0 0 1 1 * 2030", "seconds and years are not supported"),
        ("60 * * * *", "minute field '60' is wrong: '60' is not in 0-59"),
        ("0 24 * * *", "'24' is not in 0-23"),
        ("0 0 0 * *", "'0' is not in 1-31"),
        ("0 0 * 13 *", "'13' is not in 1-12 or JAN-DEC"),
        ("0 0 * * 8", "'8' is not in 0-7 or SUN-SAT"),
        ("0 0 * * FOO", "'FOO' is not in 0-7"),
        ("0 0 * MON *", "month field"),
        ("-1 * * * *", "'' is not in 0-59"),
        ("*/0 * * * *", "the step '0'"),
        ("*/ * * * *", "the step ''"),
        ("1,,2 * * * *", "leave the comma out"),
        ("? * * * *", "write *"),
        ("0 0 * * FRI-MON", "as in 5-6,0-1"),
        ("0 22-2 * * *", "as in 22-23,0-2"),
        ("0 0 15W * *", "LW"),
        ("0 0 * * FRIL", "write 5L"),
        ("0 0 * * L", "5L is the last Friday"),
        ("0 0 * * MON#6", "must be 1 to 5"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 2,4,6 *", "never comes"),
        ("0 0 31 4 */2,*", "never comes"),
        ("@reboot", "is not a time"),
        ("@fortnightly", "is unknown"),
        ("\u0663 * * * *", "the character '\\u0663'"),
        ("0 9 * * \u0131", "the character"),
        ("0\u00a09 * * *", "the character '\\xa0'"),
        ("0 9 * * *\0", "the character '\\x00'"),
        ("0 9 * * *; ls", "this one has 6"),
        ("*" * 5000, "is too long"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse_schedule(text, "Europe/Berlin")
    sentence = str(raised.value)
    assert said in sentence and sentence.endswith((".", "?")) and "\n" not in sentence


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("tomorrow at 9am", "2026-03-28T09:00"),
        ("tomorrow at 2:30", "2026-03-28T02:30"),
        ("day after tomorrow at 2:30", "2026-03-29T03:00"),
        ("friday at 11", "2026-04-03T11:00"),
        ("friday at 13", "2026-03-27T13:00"),
        ("noon", "2026-03-28T12:00"),
        ("today at 18", "2026-03-27T18:00"),
        ("today at 9", None),
    ],
)
def test_a_single_time_counts_from_when_it_was_asked(text: str, due: str | None) -> None:
    asked = parse_moment("2026-03-27T12:00", "Europe/Berlin")
    schedule = parse_schedule(text, "Europe/Berlin")
    expected = [] if due is None else [parse_moment(due, "Europe/Berlin")]
    assert next_due(schedule, asked, 2, asked) == expected
    later = asked + timedelta(hours=20)
    assert next_due(schedule, later, 2, asked) == [each for each in expected if each > later]


@pytest.mark.parametrize(
    "name", ["Europe/Berln", "", "../../etc/passwd", "Europe", "x" * 5000, "\0", "CET-1"]
)
def test_a_zone_that_is_none_is_said(name: str) -> None:
    with pytest.raises(ScheduleError, match="There is no time zone"):
        parse_schedule("30m", name)


def test_the_zone_of_the_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Asia/Kathmandu")
    assert machine_zone() == "Asia/Kathmandu"
    monkeypatch.setenv("TZ", "/usr/share/zoneinfo/Europe/Berlin")
    assert machine_zone() == "Europe/Berlin"
    monkeypatch.setenv("TZ", "")
    assert machine_zone() == "UTC"


FIELD = st.text("0123456789*/,-L#WMONSUJAN?", min_size=1, max_size=8)
WORDS = [
    *(
        "every",
        "each",
        "on",
        "at",
        "in",
        "the",
        "next",
        "weekday",
        "monday",
        "fridays",
        "mon-fri",
        "day",
        "of",
    ),
    *(
        "morning",
        "tomorrow",
        "9",
        "9am",
        "17:30",
        "1st",
        "month",
        "half",
        "an",
        "hour",
        "hourly",
        "daily",
        "and",
    ),
    *(",", "1.5", "h"),
]
ANY = st.one_of(
    st.text(max_size=30),
    st.lists(FIELD, min_size=4, max_size=7).map(" ".join),
    st.from_regex(r"(every )?[0-9]{1,3}[smhdwx]( [0-9]+h)?", fullmatch=True),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join),
    st.from_regex(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(Z|\+[0-9]{2}:00)?", fullmatch=True),
)


@pytest.mark.thorough
@given(ANY, st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]))
def test_whatever_is_written_is_a_schedule_or_a_sentence(text: str, name: str) -> None:
    after = parse_moment("2026-03-28T12:00:30", name)
    try:
        schedule = parse_schedule(text, name)
        found = next_due(schedule, after, 3)
    except ScheduleError as error:
        assert str(error).isprintable()
        return
    assert all(first < second for first, second in zip([after, *found], found, strict=False))
    assert schedule.kind != "interval" or found[1] - found[0] >= timedelta(minutes=1)
