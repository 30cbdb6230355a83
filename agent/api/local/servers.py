"""The MCP servers of a session whose engine works in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.integrations.mcp.server_state import ServerState
from agent.integrations.mcp.service import McpService


class LocalServers:
    """What `Servers` asks for, by the engine itself."""

    def __init__(self, service: McpService) -> None:
        self._service = service

    async def states(self) -> Sequence[ServerState]:
        return self._service.servers()

    async def restart(self, server: str) -> None:
        await self._service.restart(server)

    async def sign_in(self, server: str) -> None:
        await self._service.sign_in(server)

    async def leave_sign_in(self, server: str) -> None:
        self._service.leave_sign_in(server)

    async def came_back(self, server: str, address: str) -> None:
        await self._service.came_back(server, address)

    async def sign_out(self, server: str) -> bool:
        return await self._service.sign_out(server)

    async def agree(self, server: str, seen: str = "") -> None:
        await self._service.agree(server, seen)

    async def resources(self, server: str) -> Mapping[str, Any]:
        return await self._service.resources(server)
