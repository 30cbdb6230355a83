"""Schedules, jobs and their runs, for surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.automation.schedule.asking import DEFAULT_COUNT as DEFAULT_COUNT
    from agent.automation.schedule.asking import Answer as Answer
    from agent.automation.schedule.asking import Question as Question
    from agent.automation.schedule.asking import ask as ask
    from agent.automation.schedule.book import CLOSED as CLOSED
    from agent.automation.schedule.book import JobBook as JobBook
    from agent.automation.schedule.book import job_json as job_json
    from agent.automation.schedule.heartbeats import Heartbeats as Heartbeats
    from agent.automation.schedule.job import Job as Job
    from agent.automation.schedule.job import JobRun as JobRun
    from agent.automation.schedule.job import delivery_rule as delivery_rule
    from agent.automation.schedule.job import iso as iso
    from agent.automation.schedule.needs import JobNeeds as JobNeeds
    from agent.automation.schedule.runner import JobRunner as JobRunner
    from agent.automation.schedule.unit import Installation as Installation
    from agent.automation.schedule.unit import installation as installation
    from agent.automation.schedule.zones import ScheduleError as ScheduleError
    from agent.automation.schedule.zones import machine_zone as machine_zone

__getattr__ = exports(
    __name__,
    {
        "agent.automation.schedule.asking": "DEFAULT_COUNT Answer Question ask",
        "agent.automation.schedule.book": "CLOSED JobBook job_json",
        "agent.automation.schedule.heartbeats": "Heartbeats",
        "agent.automation.schedule.job": "Job JobRun delivery_rule iso",
        "agent.automation.schedule.needs": "JobNeeds",
        "agent.automation.schedule.runner": "JobRunner",
        "agent.automation.schedule.unit": "Installation installation",
        "agent.automation.schedule.zones": "ScheduleError machine_zone",
    },
)
