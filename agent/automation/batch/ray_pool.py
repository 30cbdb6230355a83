"""Workers of a Ray cluster, or of an embedded Ray: the way past one machine (extra `ray`).

Attempts are the same as in a process of this machine. On several machines the folder of the batch has
to be one that all of them see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from agent.automation.batch.attempt import AssignedTask, Conditions, attempt
from agent.automation.batch.local_pool import Pool, WorkerDiedError
from agent.automation.batch.results import TaskResult
from agent.automation.batch.worker import (
    assignment_json,
    assignment_of,
    conditions_json,
    conditions_of,
    result_of,
)
from agent.errors import ConfigError
from tools.extras import missing
from tools.text.safe_text import clean


def open_ray(conditions: Conditions, address: str) -> Pool:
    """Connect to the cluster at `address`, or begin an embedded Ray. Blocks. Raises `ConfigError`."""
    try:
        ray = import_module("ray")
    except ImportError:
        raise ConfigError(missing("--runner ray", "ray")) from None
    try:
        quiet = {"include_dashboard": False} if not address else {}
        ray.init(address=address or None, log_to_driver=False, logging_level="error", **quiet)
    except Exception as error:  # whatever a cluster answers
        place = f"reached at {address}" if address else "started on this machine"
        told = clean(" ".join(str(error).split())).rstrip(".")
        raise ConfigError(f"Ray cannot be {place}: {told}.") from error
    return RayPool(ray, conditions)


class RayPool:
    """Sends each attempt to the cluster, which decides where it runs."""

    def __init__(self, ray: Any, conditions: Conditions) -> None:
        self._ray = ray
        self._conditions = conditions_json(conditions)
        self._carry = ray.remote(num_cpus=1, max_retries=0)(_carry)

    async def attempt(self, assignment: AssignedTask) -> TaskResult:
        reference = self._carry.remote(self._conditions, assignment_json(assignment))
        try:
            return result_of(await asyncio.wrap_future(reference.future()))
        except self._ray.exceptions.RayError as error:
            raise WorkerDiedError(f"The worker of this task is gone: {type(error).__name__}.") from error
        except asyncio.CancelledError:
            self._ray.cancel(reference)
            raise

    async def aclose(self) -> None:
        await asyncio.to_thread(self._ray.shutdown)


def _carry(conditions: Mapping[str, Any], assignment: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt in a process of the cluster."""
    result = asyncio.run(attempt(assignment_of(assignment), conditions_of(conditions)))
    return result.to_json()
