"""Schedules, jobs and their runs, for surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.schedule.asking import DEFAULT_COUNT as DEFAULT_COUNT
    from agent.schedule.asking import Answer as Answer
    from agent.schedule.asking import Question as Question
    from agent.schedule.asking import ask as ask
    from agent.schedule.book import CLOSED as CLOSED
    from agent.schedule.book import JobBook as JobBook
    from agent.schedule.book import job_json as job_json
    from agent.schedule.heartbeats import Heartbeats as Heartbeats
    from agent.schedule.job import Job as Job
    from agent.schedule.job import JobRun as JobRun
    from agent.schedule.job import delivery_rule as delivery_rule
    from agent.schedule.job import iso as iso
    from agent.schedule.needs import JobNeeds as JobNeeds
    from agent.schedule.runner import JobRunner as JobRunner
    from agent.schedule.unit import Installation as Installation
    from agent.schedule.unit import installation as installation
    from agent.schedule.zones import ScheduleError as ScheduleError
    from agent.schedule.zones import machine_zone as machine_zone

__getattr__ = exports(
    __name__,
    {
        "agent.schedule.asking": "DEFAULT_COUNT Answer Question ask",
        "agent.schedule.book": "CLOSED JobBook job_json",
        "agent.schedule.heartbeats": "Heartbeats",
        "agent.schedule.job": "Job JobRun delivery_rule iso",
        "agent.schedule.needs": "JobNeeds",
        "agent.schedule.runner": "JobRunner",
        "agent.schedule.unit": "Installation installation",
        "agent.schedule.zones": "ScheduleError machine_zone",
    },
)
