"""The service through which a tool manages scheduled jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tools.services.service import Service


class JobKeeper(Service, ABC):
    """The scheduled jobs of this user. Results can be written as JSON; all methods raise `ToolError`."""

    absent = "No jobs are kept here; work on it now."

    @abstractmethod
    async def create(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add a job. The keys of `wanted` are the option names of `hermes cron add`."""

    @abstractmethod
    async def update(self, job: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change the definition of a job."""

    @abstractmethod
    async def list(self) -> Mapping[str, Any]:
        """Return all jobs, and whether a runner is active."""

    @abstractmethod
    async def change(self, job: str, action: str) -> Mapping[str, Any]:
        """Pause, resume or remove a job, or run it now. `action` is `pause`, `resume`, `remove` or `run`."""
