"""Arguments of `hermes mcp`, and the servers that they name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.integrations.mcp.server_config import DeclaredServers

KEY_VALUE = "NAME=VALUE"


def servers_of(home: Home) -> DeclaredServers:
    """Return all servers declared for the current folder."""
    from agent.core.config.loader import load
    from agent.integrations.mcp.server_config import declared_servers
    from agent.session.wiring.plugin_servers import with_plugin_servers

    here = Path.cwd()
    declared = declared_servers(load(home, dict(os.environ), here).settings, home.servers, here)
    return with_plugin_servers(declared, home, here)


def parsed_pairs(given: list[str], what: str) -> dict[str, str]:
    """Parse `NAME=VALUE` texts into a mapping. Raises `ConfigError`."""
    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise ConfigError(f"{what} takes {KEY_VALUE}, not {each!r}.")
        found[name] = value
    return found
