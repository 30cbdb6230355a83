"""The network of a plugin: the hosts that it declared, through a proxy of its own; no other one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agent.core.net.exchange import Decide, way_out
from agent.core.net.hosts import HostEntry, HostList, entry, own_networks, services
from agent.safety.sandbox.bubblewrap import Bubblewrap
from agent.safety.sandbox.filtered import VARIABLES, FilteredNetwork
from agent.safety.sandbox.opening import unfiltered
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace, Sandbox


class PluginNetwork:
    """Opened before the process of the plugin starts, closed after it ended. Both block."""

    variables: Mapping[str, str] = VARIABLES
    """What tells programs of the proxy."""

    def __init__(self, filtered: FilteredNetwork, hosts: Sequence[str]) -> None:
        self._filtered = filtered
        filtered.decide = _decider(hosts)
        self.space: NetworkSpace = filtered.space()
        """What the process joins."""
        self._number = filtered.begin()

    @classmethod
    def open(cls, sandbox: Sandbox, hosts: Sequence[str], secrets: Mapping[str, str]) -> PluginNetwork | None:
        """The network for some hosts; None where there is no boundary. Raises `ToolError`."""
        if sandbox.name == "none":
            return None
        if not isinstance(sandbox, Bubblewrap) or unfiltered(sandbox):
            raise ToolError(
                f"it declares hosts, and the network cannot be filtered here: {unfiltered(sandbox)}"
            )
        filtered = FilteredNetwork(
            sandbox.path,
            secrets=secrets,
            network=way_out(os.environ),
            services=services(hosts),
            is_own=own_networks(hosts).lists,
        )
        return cls(filtered, hosts)

    def close(self) -> None:
        """Break every connection off."""
        self._filtered.end(self._number)
        self._filtered.close()


def _decider(hosts: Sequence[str]) -> Decide:
    entries: list[HostEntry] = []
    for text in hosts:
        with suppress(ValueError):
            entries.append(entry(text))
    listed = HostList(entries)

    async def decide(host: str, port: int) -> str | None:
        return None if listed.lists(host, port) else "is not among the hosts that the plugin declares"

    return decide
