"""The part of the interface that crosses a socket, read off its protocols: ports, commands, the view."""

from __future__ import annotations

from inspect import isfunction

from agent.api.plugin_commands import PluginCommands
from agent.api.servers import Servers
from agent.api.session import Agents, Approvals, Attempts, SessionClient, SessionHistory, StoredSessions

PORTS: dict[str, type] = {
    "": SessionClient,
    "history": SessionHistory,
    "agents": Agents,
    "attempts": Attempts,
    "approvals": Approvals,
    "plugins": PluginCommands,
    "stored": StoredSessions,
    "servers": Servers,
}
"""The session itself and its ports, by name."""
CASTS = frozenset({"submit", "steer", "set_queue", "send_queue", "interrupt", "answer"})
"""Commands without an answer."""
VIEW = ("model", "branch", "busy", "queue", "watches", "keeps_files", "mode", "effort")
"""What is known without asking and can change, beside the path."""


def _methods(port: type) -> frozenset[str]:
    return frozenset(
        name for name, each in vars(port).items() if isfunction(each) and not name.startswith("_")
    )


CALLS = {name: _methods(port) - CASTS - {"aclose"} for name, port in PORTS.items()}
"""The methods that answer, by port."""
