"""Batches: reading task files, running them, the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.automation.batch.distribution import distribution_of as distribution_of
    from agent.automation.batch.results import ResultFolder as ResultFolder
    from agent.automation.batch.results import TaskResult as TaskResult
    from agent.automation.batch.run import RUNNERS as RUNNERS
    from agent.automation.batch.run import BatchOptions as BatchOptions
    from agent.automation.batch.run import BatchProgress as BatchProgress
    from agent.automation.batch.run import run_batch as run_batch
    from agent.automation.batch.task_file import NumberedTask as NumberedTask
    from agent.automation.batch.task_file import read_tasks as read_tasks
    from agent.session.spending.budget import Budget as Budget

__getattr__ = exports(
    __name__,
    {
        "agent.automation.batch.distribution": "distribution_of",
        "agent.automation.batch.results": "ResultFolder TaskResult",
        "agent.automation.batch.run": "RUNNERS BatchOptions BatchProgress run_batch",
        "agent.automation.batch.task_file": "NumberedTask read_tasks",
        "agent.session.spending.budget": "Budget",
    },
)
