"""The network of a browser: the proxy, and nothing else.

Where bubblewrap is there, the browser has a network of its own in which only the proxy listens, so no
protocol of any kind gets past it. Elsewhere the proxy listens on loopback and the browser is told to use it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from agent.core.net.exchange import Decide, ProxyRefusal, way_out
from agent.core.net.proxy import EgressProxy
from agent.integrations.browser.lifting import Lifting
from agent.safety.sandbox.filtered import PROXY_PORT, OpenedSpace, open_space
from tools.services.sandbox import NetworkSpace


class BrowserNetwork:
    """Opened before the browser starts, closed after it ended. Both block."""

    def __init__(
        self,
        bubblewrap: str,
        decide: Decide,
        lifting: Lifting,
        secrets: Mapping[str, str],
        environ: Mapping[str, str],
        told: Callable[[ProxyRefusal], None],
    ) -> None:
        """`bubblewrap` is the path of the program, empty where there is none. Raises `ToolError`."""
        self._opened: OpenedSpace | None = open_space(bubblewrap) if bubblewrap else None
        self._proxy = EgressProxy(
            decide, secrets=secrets, told=told, network=way_out(environ), lifting=lifting
        )
        self._proxy.start()
        if self._opened is not None:
            listener, self.port = self._opened.listeners[PROXY_PORT], PROXY_PORT
        else:
            listener = socket.create_server(("127.0.0.1", 0), backlog=256)
            self.port = listener.getsockname()[1]
        self._proxy.listen(listener)

    @property
    def space(self) -> NetworkSpace | None:
        """What the browser joins; None where it shares that of this machine."""
        return None if self._opened is None else self._opened.space

    def close(self) -> None:
        """Break every connection off."""
        self._proxy.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None
