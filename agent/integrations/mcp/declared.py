"""The servers there are: those of the person's settings, and those a project brings. Reads files."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent.core.config.settings_file import UnreadableSettingsError, read_file
from agent.core.config.trust import project_root
from agent.errors import ConfigError
from agent.integrations.mcp.agreement import ServerAgreement
from agent.integrations.mcp.server_config import ServerConfig, server_config
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

PROJECT_FILE = ".mcp.json"
MOST = 100
"""Servers of one project that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredServer:
    """One server, and whether it may be used."""

    config: ServerConfig
    origin: Literal["settings", "project", "plugin"]
    agreed: bool = True
    """Whether a person agreed to it; those of the person's own settings are."""
    root: Path | None = None
    """The project that brings it."""

    @property
    def usable(self) -> bool:
        return self.agreed and self.config.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredServers:
    """All servers by name, those of the settings first, and what is wrong with the others."""

    servers: tuple[DeclaredServer, ...]
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> DeclaredServer:
        """The server of that name. Raises `ConfigError` with those there are."""
        for server in self.servers:
            if server.config.name == name:
                return server
        known = ", ".join(server.config.name for server in self.servers) or "none yet"
        raise ConfigError(
            f"There is no MCP server {name!r} ({known}); add it with `hermes mcp add {name} …`."
        )


def declared_servers(settings: Settings, folder: Path, workspace: Path) -> DeclaredServers:
    """The servers of the settings and of the project around `workspace`; `folder` is the home's for them."""
    found: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    for name, given in settings.mcp_servers.items():
        try:
            found[name] = DeclaredServer(config=server_config(name, given), origin="settings")
        except ConfigError as error:
            problems.append(str(error))
    root = project_root(workspace)
    agreement = ServerAgreement(folder)
    for name, entry in _project_entries(root, problems).items():
        if name in found:
            problems.append(
                f"The MCP server {name} of {PROJECT_FILE} is left out: the settings have one of that name."
            )
            continue
        try:
            config = _project_config(name, entry, problems)
        except ConfigError as error:
            problems.append(f"{PROJECT_FILE}: {error}")
            continue
        agreed = agreement.holds(root, config)
        found[name] = DeclaredServer(config=config, origin="project", agreed=agreed, root=root)
    return DeclaredServers(servers=tuple(found.values()), problems=tuple(problems))


def given_servers(
    servers: Sequence[tuple[str, Mapping[str, Any]]], taken: Collection[str]
) -> tuple[list[DeclaredServer], list[str]]:
    """Servers that a surface hands over for one session, and what is to be said of those left out. Pure.

    They are the person's own, as they come from the program they work in. Nothing in them is filled in.
    """
    found: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    for given, entry in servers[:MOST]:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", given).lstrip("._-")[:64] or "server"
        why = ""
        if name in taken or name in found:
            why = "another server has its name"
        elif any("${" in str(text) for text in (*entry.get("args", ()), *entry.get("env", {}).values())):
            why = "what looks like a variable cannot be handed on as it is"
        if not why:
            try:
                config = _project_config(name, dict(entry), problems)
                found[name] = DeclaredServer(config=config, origin="settings")
                continue
            except ConfigError as error:
                why = str(error)
        problems.append(f"The MCP server {clean(given)[:64]} of the editor is left out: {why}")
    return list(found.values()), [each if each.endswith(".") else f"{each}." for each in problems]


def _project_entries(root: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        content = read_file(root / PROJECT_FILE, follow=False)
    except UnreadableSettingsError as error:
        problems.append(f"{PROJECT_FILE} cannot be read: {error}.")
        return {}
    if content is None:
        return {}
    try:
        servers = json.loads(content).get("mcpServers", {})
        if not isinstance(servers, dict):
            raise TypeError
    except (ValueError, AttributeError, TypeError, RecursionError):
        problems.append(f'{PROJECT_FILE} is no JSON object with "mcpServers"; its servers are left out.')
        return {}
    if len(servers) > MOST:
        problems.append(f"{PROJECT_FILE} has {len(servers)} servers, of which {MOST} are read.")
    return dict(list(servers.items())[:MOST])


def _project_config(name: str, entry: Any, problems: list[str]) -> ServerConfig:
    """A server as other programs write it too. Raises `ConfigError`."""
    from pydantic import ValidationError

    from agent.core.config.schema import McpServerSettings

    if not isinstance(entry, dict):
        raise ConfigError(f"the server {name!r} is no object; give it `command` or `url`.")
    known = {key: value for key, value in entry.items() if key in McpServerSettings.model_fields}
    kind = entry.get("type")
    if kind is not None:
        known["transport"] = {"streamable-http": "http", "streamable_http": "http"}.get(kind, kind)
    if entry.get("disabled") is True:
        known["enabled"] = False
    unknown = sorted(set(entry) - set(McpServerSettings.model_fields) - {"type", "disabled"})
    if unknown:
        keys = clean(", ".join(map(str, unknown)))[:200]
        problems.append(f"{PROJECT_FILE}: what {name} says under {keys} is not known and is left out.")
    try:
        return server_config(name, McpServerSettings.model_validate(known))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"the server {name!r} has a wrong `{where}`: {clean(first['msg']).lower()}."
        ) from None
