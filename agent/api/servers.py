"""The MCP servers of an open session, as every surface sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agent.integrations.mcp.server_state import ServerState


class Servers(Protocol):
    """Looking at servers and starting them anew. Methods raise `HermesError`."""

    async def states(self) -> Sequence[ServerState]:
        """All servers: health, tools, what is parked, their log."""
        ...

    async def restart(self, server: str) -> None:
        """End a server and start it again."""
        ...

    async def sign_in(self, server: str) -> None:
        """Sign in; ends when the person came back, failed or left it. `states` tells the address."""
        ...

    async def leave_sign_in(self, server: str) -> None:
        """Leave a sign-in that is under way."""
        ...

    async def came_back(self, server: str, address: str) -> None:
        """Take the address at which a browser on another machine ended."""
        ...

    async def sign_out(self, server: str) -> bool:
        """Forget what signing in gave; False if nobody was signed in."""
        ...

    async def agree(self, server: str, seen: str = "") -> None:
        """Agree to a server of the project, and to its tools if they are as `seen`, that of its state."""
        ...

    async def resources(self, server: str) -> Mapping[str, Any]:
        """The resources of a server, and templates of further ones."""
        ...
