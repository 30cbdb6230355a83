"""Schedules, jobs and their runs, for surfaces."""

from __future__ import annotations

from agent.schedule.asking import DEFAULT_COUNT, Answer, Question, ask
from agent.schedule.zones import ScheduleError, machine_zone

__all__ = ["DEFAULT_COUNT", "Answer", "Question", "ScheduleError", "ask", "machine_zone"]
