"""Training runs, as a tool asks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from tools.services.actions import Action

Permit = Callable[[Action], Awaitable[None]]


class TrainingKeeper(Protocol):
    """Environments, configuration and runs of this home. Results are JSON-able; all raise `ToolError`."""

    async def environments(self) -> Mapping[str, Any]:
        """The environments there are, and how many tasks each has."""
        ...

    async def select(self, name: str, permit: Permit) -> Mapping[str, Any]:
        """Train on this environment from now on."""
        ...

    async def configuration(self) -> Mapping[str, Any]:
        """What a run would do, and which trainers can work."""
        ...

    async def edit(self, field: str, value: Any) -> Mapping[str, Any]:
        """Change one field of the configuration."""
        ...

    async def start(self, run: str, permit: Permit) -> Mapping[str, Any]:
        """Start a run in a process of its own, or go on with one that ended early."""
        ...

    async def status(self, run: str) -> Mapping[str, Any]:
        """How far a run is."""
        ...

    async def stop(self, run: str) -> Mapping[str, Any]:
        """End a run; what it has stays."""
        ...

    async def results(self, run: str) -> Mapping[str, Any]:
        """The result of each step, and of the whole run."""
        ...

    async def runs(self) -> Mapping[str, Any]:
        """All runs, newest first."""
        ...

    async def test(self, tasks: int, group: int, model: str, permit: Permit) -> Mapping[str, Any]:
        """Let a model work on a few tasks without training, to see that scores come and differ."""
        ...
