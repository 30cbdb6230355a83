"""Grants and open approvals of an engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.events import Asked
from agent.safety.grants import Grant, Grants


class LocalApprovals:
    """What `Approvals` asks for. The file of lasting grants is read only when it changed."""

    def __init__(self, grants: Grants, pending: Callable[[], Sequence[Asked]]) -> None:
        self._grants = grants
        self._pending = pending

    async def grants(self) -> Sequence[Grant]:
        return self._grants.all()

    async def revoke(self, grant: Grant) -> bool:
        return await self._grants.revoke(grant)

    async def pending(self) -> Sequence[Asked]:
        return self._pending()
