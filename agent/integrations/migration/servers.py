"""MCP servers as other agents write them down, as our `mcp_servers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.config.problem import shown
from agent.integrations.migration.reading import mapping, sequence

Servers = dict[str, Mapping[str, Any]]


def standard_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Servers in the usual form (`command`, `args`, `env`, or `url`, `headers`), and why others are none."""
    found: Servers = {}
    left: list[str] = []
    for name, each in given.items():
        server = _server(mapping(each))
        if server is None or not _is_name(name):
            left.append(f"The server {shown(name)} has neither a command nor an address.")
        else:
            found[name] = server
    return found, left


def _server(each: Mapping[str, Any]) -> dict[str, Any] | None:
    switched = {"enabled": False} if each.get("enabled") is False or each.get("disabled") is True else {}
    if isinstance(command := each.get("command"), str) and command.strip():
        return {
            "command": command,
            **_filled("args", [str(word) for word in sequence(each.get("args"))]),
            **_filled("env", _texts(each.get("env"))),
            **_filled("cwd", each.get("cwd") if isinstance(each.get("cwd"), str) else ""),
            **switched,
        }
    url = each.get("url") or each.get("serverUrl") or each.get("httpUrl")
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        kind = "sse" if (each.get("type") or each.get("transport")) == "sse" else "http"
        headers = _texts(each.get("headers") or each.get("http_headers"))
        return {"url": url, "transport": kind, **_filled("headers", headers), **switched}
    return None


def opencode_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Servers as OpenCode has them: `type: local` with the command as a list, or `type: remote`."""
    usual: dict[str, Any] = {}
    for name, each in given.items():
        server = mapping(each)
        words = [str(word) for word in sequence(server.get("command"))]
        usual[name] = {
            **{key: server[key] for key in ("url", "headers", "enabled") if key in server},
            **({"command": words[0], "args": words[1:], "env": server.get("environment")} if words else {}),
        }
    return standard_servers(usual)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable() and "." not in name


def _texts(value: Any) -> dict[str, str]:
    return {
        str(key): str(each) for key, each in mapping(value).items() if isinstance(each, (str, int, float))
    }


def _filled(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
