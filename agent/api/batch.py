"""Batches: reading task files, running them, the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.batch.distribution import distribution_of as distribution_of
    from agent.batch.results import ResultFolder as ResultFolder
    from agent.batch.results import TaskResult as TaskResult
    from agent.batch.run import RUNNERS as RUNNERS
    from agent.batch.run import BatchOptions as BatchOptions
    from agent.batch.run import BatchProgress as BatchProgress
    from agent.batch.run import run_batch as run_batch
    from agent.batch.task_file import NumberedTask as NumberedTask
    from agent.batch.task_file import read_tasks as read_tasks
    from agent.spending.budget import Budget as Budget

__getattr__ = exports(
    __name__,
    {
        "agent.batch.distribution": "distribution_of",
        "agent.batch.results": "ResultFolder TaskResult",
        "agent.batch.run": "RUNNERS BatchOptions BatchProgress run_batch",
        "agent.batch.task_file": "NumberedTask read_tasks",
        "agent.spending.budget": "Budget",
    },
)
