"""A job as data, and when its clock begins."""

from __future__ import annotations

from datetime import UTC, datetime

from agent.schedule.job import Job, JobIntent

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
HOUR = 3600


def job(schedule: str, missed: str = "once", looked: int = START, **more: object) -> Job:
    """A job that looks, in UTC, due from the start on."""
    intent = JobIntent(schedule=schedule, zone="UTC", prompt="look", missed=missed, **more)  # type: ignore[arg-type]
    return Job(id="a", intent=intent, state="active", anchor=START, looked=looked, next=START, runs=0)
