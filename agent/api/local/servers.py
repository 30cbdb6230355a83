"""The MCP servers of a session whose engine works in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.mcp.service import McpService, ServerState


class LocalServers:
    """What `Servers` asks for, by the engine itself."""

    def __init__(self, service: McpService) -> None:
        self._service = service

    async def states(self) -> Sequence[ServerState]:
        return self._service.servers()

    async def restart(self, server: str) -> None:
        await self._service.restart(server)

    async def agree(self, server: str) -> None:
        await self._service.agree(server)

    async def resources(self, server: str) -> Mapping[str, Any]:
        return await self._service.resources(server)
