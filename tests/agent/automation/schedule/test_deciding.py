"""Due times that have begun: those that run, those that are skipped, and the reasons."""

from __future__ import annotations

from itertools import islice

import pytest

from agent.automation.schedule.job import MOST_JITTER, DueDecision, decide, due_times, instant
from tests.agent.automation.schedule.sample import HOUR, START, job


@pytest.mark.parametrize(
    ("missed", "late", "run", "skip"),
    [
        ("once", 60, [("due", 3)], [1, 2]),
        ("skip", 60, [("due", 3)], [1, 2]),
        ("all", 60, [("missed", 1), ("missed", 2), ("due", 3)], []),
        ("once", 600, [("missed", 3)], [1, 2]),
        ("skip", 600, [], [1, 2, 3]),
        ("all", 600, [("missed", 1), ("missed", 2), ("missed", 3)], []),
    ],
)
def test_what_was_missed_is_run_by_its_policy(
    missed: str, late: int, run: list[tuple[str, int]], skip: list[int]
) -> None:
    decision = decide(job("every 1h", missed), START + 3 * HOUR + late, 120)
    assert [(why, (at.due - START) // HOUR) for at, why in decision.run] == run
    assert [(at.due - START) // HOUR for at, _, _ in decision.skip] == skip
    assert decision.next == START + 4 * HOUR


@pytest.mark.parametrize(
    ("missed", "repeat", "late", "busy", "said"),
    [
        ("once", None, 600, False, ["missed, and a later one took its place"] * 2),
        ("skip", None, 600, False, ["missed, and this job skips what it missed"] * 3),
        ("all", 2, 600, False, ["the job had all runs of its repeat"]),
        (
            "skip",
            None,
            60,
            True,
            ["missed, and this job skips what it missed"] * 2 + ["the run before was not over"],
        ),
        ("all", 2, 600, True, ["the run before was not over"] * 3),
    ],
)
def test_what_is_skipped_says_why(
    missed: str, repeat: int | None, late: int, busy: bool, said: list[str]
) -> None:
    decision = decide(job("every 1h", missed, repeat=repeat), START + 3 * HOUR + late, 120, busy)
    assert [reason for _, _, reason in decision.skip] == said


def test_a_long_sleep_is_decided_about_at_once_and_at_most_a_hundred_are_made_up_for() -> None:
    year = START + 365 * 24 * HOUR
    assert len(decide(job("every 1m", "all"), year, 120).run) == 100
    assert decide(job("* * * * *", "all"), year, 120).run[-1][0].due == year
    assert len(decide(job("0 0 * * *", "once"), year + 600, 120).run) == 1


def test_the_grace_is_at_most_half_the_period() -> None:
    assert decide(job("every 1m", "skip"), START + 60 + 25, 120).run
    assert not decide(job("every 1m", "skip"), START + 60 + 35, 120).run


def test_a_job_is_over_after_its_repetitions_and_its_end() -> None:
    decision = decide(job("every 1h", "all", repeat=2), START + 5 * HOUR, 120)
    assert len(decision.run) == 2 and decision.next is None
    decision = decide(job("every 1h", "all", until="2026-01-01T02:30"), START + 5 * HOUR, 120)
    assert len(decision.run) == 2 and decision.next is None


def test_jitter_follows_from_job_and_due_time_and_ends_before_the_next_one() -> None:
    late = job("every 10m", jitter=MOST_JITTER)
    found = list(islice(due_times(late, instant(START)), 200))
    assert found == list(islice(due_times(late, instant(START)), 200))
    assert found[50:] == list(islice(due_times(late, instant(found[49].due)), 150))
    assert all(0 <= each.begins - each.due < 600 for each in found)
    assert len({each.begins - each.due for each in found}) > 100
    assert [each.begins for each in found] == sorted(each.begins for each in found)


@pytest.mark.parametrize("missed", ["once", "skip", "all"])
def test_a_sleep_while_a_run_is_late_on_purpose_counts_from_when_it_would_have_begun(missed: str) -> None:
    late = job("every 1d", missed, jitter=3600)
    first, second = islice(due_times(late, instant(START)), 2)
    before = decide(late, first.begins - 1, 120)
    assert before == DueDecision((), (), START, first.begins)
    # Asleep for a day just before it begins.
    asleep = decide(late, second.begins + 5, 120)
    assert [(why, each.due) for each, why in asleep.run] == {
        "once": [("due", second.due)],
        "skip": [("due", second.due)],
        "all": [("missed", first.due), ("due", second.due)],
    }[missed]
    assert asleep.looked == second.due
