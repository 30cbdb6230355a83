"""The MCP servers that plugins add to those of a session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from agent.core.home import Home
from agent.integrations.mcp.server_config import DeclaredServer, DeclaredServers, ServerConfig, Transport
from agent.integrations.plugins.session_plugins import BroughtServer, servers_of_plugins
from agent.integrations.plugins.shelf import find_plugins

_TRANSPORTS: dict[str, Transport] = {"stdio": "stdio", "streamable-http": "http", "sse": "sse"}
_LONGEST = 64


def plugin_servers(
    brought: Sequence[BroughtServer], taken: Collection[str]
) -> tuple[list[DeclaredServer], list[str]]:
    """Return the servers of plugins, named `plugin.server`, and notices about unusable ones. Pure."""
    found: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    for each in brought:
        server = each.server
        plain = "".join(
            char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in server.name
        )
        name = f"{each.plugin}.{plain}"[:_LONGEST]
        why = ""
        if name in taken or name in found:
            why = "its name is taken"
        elif any("${" in text for text in (*server.args, *server.env.values())):
            # The settings would fill in the user's variables there, which the format forbids.
            why = "what looks like a variable cannot be handed on as it is"
        if why:
            problems.append(f"The MCP server {server.name} of the plugin {each.plugin} is left out: {why}.")
            continue
        config = ServerConfig(
            name=name,
            transport=_TRANSPORTS[server.kind],
            command=server.command,
            args=server.args,
            env=server.env,
            cwd=server.cwd,
            url=server.url,
            headers=server.headers,
            readable=(str(each.root),),
            writable=(str(each.data),),
        )
        found[name] = DeclaredServer(config=config, origin="plugin")
    return list(found.values()), problems


def with_plugin_servers(declared: DeclaredServers, home: Home, workspace: Path) -> DeclaredServers:
    """Return the servers with those of enabled plugins added. Reads the disk, but starts no process."""
    shelved = [each for each in find_plugins(home, workspace) if each.is_on]
    taken = {each.config.name for each in declared.servers}
    found, problems = plugin_servers(servers_of_plugins(shelved), taken)
    return replace(declared, servers=(*declared.servers, *found), problems=(*declared.problems, *problems))
