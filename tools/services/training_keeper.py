"""The service through which a tool manages training runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tools.services.actions import Permit
from tools.services.service import Service


class TrainingKeeper(Service, ABC):
    """Training environments, settings and runs. Results can be written as JSON; all raise `ToolError`."""

    absent = "Nothing is trained from here."

    @abstractmethod
    async def environments(self) -> Mapping[str, Any]:
        """Return the environments, and how many tasks each has."""

    @abstractmethod
    async def select(self, name: str, permit: Permit) -> Mapping[str, Any]:
        """Choose the environment for training."""

    @abstractmethod
    async def configuration(self) -> Mapping[str, Any]:
        """Return the configuration of the next run, and the trainers that can be used."""

    @abstractmethod
    async def edit(self, field: str, value: Any) -> Mapping[str, Any]:
        """Change one field of the configuration."""

    @abstractmethod
    async def start(self, run: str, permit: Permit) -> Mapping[str, Any]:
        """Start a new run in a separate process, or continue the run named by `run`."""

    @abstractmethod
    async def status(self, run: str) -> Mapping[str, Any]:
        """Return the progress of a run."""

    @abstractmethod
    async def stop(self, run: str) -> Mapping[str, Any]:
        """Stop a running run, by force if it does not end by itself; its results are kept."""

    @abstractmethod
    async def results(self, run: str) -> Mapping[str, Any]:
        """Return the result of each step, and of the whole run."""

    @abstractmethod
    async def runs(self) -> Mapping[str, Any]:
        """Return all runs, newest first."""

    @abstractmethod
    async def test(self, tasks: int, group: int, model: str, permit: Permit) -> Mapping[str, Any]:
        """Run a model on a few tasks without training, to check that scores arrive and differ."""
