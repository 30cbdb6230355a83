"""The question when a schedule is due, and its answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agent.automation.schedule.expression import Kind, parse_moment, parse_schedule
from agent.automation.schedule.occurrences import next_due
from agent.automation.schedule.zones import ScheduleError, zone

MOST = 10_000
"""Instants that can be asked for at once."""
DEFAULT_COUNT = 5


@dataclass(frozen=True)
class Question:
    """When `schedule` is due next in `zone`, strictly after `after` (ISO; wall time without offset)."""

    schedule: str
    zone: str
    after: str
    count: int = DEFAULT_COUNT


@dataclass(frozen=True)
class Answer:
    """What a schedule means: its kind, the next instants in its zone, and words for it."""

    schedule: str
    kind: Kind
    next: tuple[datetime, ...]
    """Aware, with the offset of the zone; never to be compared with each other."""
    text: str


def ask(question: Question) -> Answer:
    """Answer a question. Raises `ScheduleError`."""
    if not 1 <= question.count <= MOST:
        raise ScheduleError(f"The count {question.count} is out of range; ask for 1 to {MOST}.")
    schedule = parse_schedule(question.schedule, question.zone)
    after = parse_moment(question.after, question.zone)
    where = zone(schedule.zone)
    due = tuple(each.astimezone(where) for each in next_due(schedule, after, question.count))
    return Answer(question.schedule, schedule.kind, due, schedule.explained())
