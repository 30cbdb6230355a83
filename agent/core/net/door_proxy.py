"""The door's other face: a proxy on loopback for programs and libraries that bring their own transport."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent.core.net.door import Door
from agent.core.net.proxy import EgressProxy


@asynccontextmanager
async def door_proxy(door: Door, lets: Callable[[str], bool]) -> AsyncIterator[str]:
    """The address of a proxy that is there meanwhile, for hosts that `lets` names.

    It checks addresses and looks for secrets as the door does. `lets` is called in a thread of its own.
    """

    async def decide(host: str, port: int) -> str | None:
        return None if port in (80, 443) and lets(host) else "is not what this search was let through for"

    listener = socket.create_server(("127.0.0.1", 0))
    proxy = EgressProxy(decide, secrets=door.secrets, network=door.network)
    proxy.start()
    proxy.listen(listener)
    try:
        host, port = listener.getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        await asyncio.to_thread(proxy.close)
