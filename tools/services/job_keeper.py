"""Jobs that work on time, as a tool asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class JobKeeper(Protocol):
    """The jobs of this home. Results are JSON-able; all methods raise `ToolError`."""

    async def create(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep a new job, by the names of `hermes cron add`."""
        ...

    async def update(self, job: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change what a job means."""
        ...

    async def list(self) -> Mapping[str, Any]:
        """All jobs, and whether anything runs them."""
        ...

    async def change(self, job: str, action: str) -> Mapping[str, Any]:
        """`pause`, `resume`, `remove`, or `run` now."""
        ...
