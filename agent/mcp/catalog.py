"""The offer of a server as it was listed last, and the part of it that a person agreed to.

What is seen first counts as agreed to, unless it reads like an order to the model. From then on a tool
is pinned by the hash of its description and schema: one that changes is parked until a person says yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.mcp.private_json import read_private, write_private
from agent.mcp.server_config import ServerConfig
from agent.mcp.tool_definition import ToolDefinition, read_tools
from tools.safe_text import clean

Standing = Literal["ready", "changed", "suspicious"]
MOST_PROMPTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition:
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCatalog:
    """What is known of the offer of one server."""

    listed: Mapping[str, Any] = field(default_factory=dict)
    """What it listed, as it came: `tools` and `prompts`."""
    agreed: Mapping[str, str] = field(default_factory=dict)
    """The hash under which each tool was agreed to, also of tools that are gone meanwhile."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The description under which each tool was agreed to, for whoever compares it with a new one."""
    able: tuple[str, ...] = ()
    """What it can do: tools, prompts, resources, logging."""
    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    """What of its list cannot be used, a clause each."""

    def standing(self, tool: ToolDefinition) -> Standing:
        """Whether a tool may be used, and why not."""
        if self.agreed.get(tool.name) == tool.digest:
            return "ready"
        return "changed" if tool.name in self.agreed else "suspicious"

    def ready(self) -> tuple[ToolDefinition, ...]:
        """The tools that may be used."""
        return tuple(tool for tool in self.tools if self.standing(tool) == "ready")

    def parked(self) -> tuple[ToolDefinition, ...]:
        """The tools that wait for a person."""
        return tuple(tool for tool in self.tools if self.standing(tool) != "ready")

    def accepted(self, names: Sequence[str] | None = None) -> ServerCatalog:
        """The catalog after a person agreed to tools as they are now; to all where none are named."""
        now = [tool for tool in self.tools if names is None or tool.name in names]
        return replace(
            self,
            agreed={**self.agreed, **{tool.name: tool.digest for tool in now}},
            told={**self.told, **{tool.name: tool.description for tool in now}},
        )


def listed(before: ServerCatalog | None, given: Mapping[str, Any], able: Sequence[str]) -> ServerCatalog:
    """The catalog after a server has listed what it offers. Pure."""
    listing = read_tools(given.get("tools") or [])
    agreed = dict(before.agreed) if before is not None else {}
    told = dict(before.told) if before is not None else {}
    for tool in listing.tools:
        if tool.name not in agreed and not tool.suspicion:
            agreed[tool.name] = tool.digest
            told[tool.name] = tool.description
    return ServerCatalog(
        listed={key: given.get(key) or [] for key in ("tools", "prompts")},
        agreed=agreed,
        told=told,
        able=tuple(able),
        tools=listing.tools,
        prompts=_prompts(given.get("prompts") or []),
        problems=listing.problems,
    )


def catalog_path(folder: Path, config: ServerConfig) -> Path:
    """Where the catalog of a server is kept: by what it is, so that another one of its name begins anew."""
    return folder / "catalogs" / f"{config.name}-{config.identity[:16]}.json"


def load_catalog(folder: Path, config: ServerConfig) -> ServerCatalog | None:
    """The catalog that is kept of a server; None if it was never asked. Reads the disk."""
    data = read_private(catalog_path(folder, config))
    agreed, given, able = data.get("agreed"), data.get("listed"), data.get("able")
    if not isinstance(agreed, dict) or not isinstance(given, dict) or not isinstance(able, list):
        return None
    told = data.get("told")
    kept = ServerCatalog(
        agreed={str(key): str(value) for key, value in agreed.items()},
        told={str(key): str(value) for key, value in told.items()} if isinstance(told, dict) else {},
    )
    found = listed(kept, given, [str(each) for each in able])
    # What was not agreed to when it was listed is not agreed to by being read again.
    return replace(found, agreed=kept.agreed, told=kept.told)


def save_catalog(folder: Path, config: ServerConfig, catalog: ServerCatalog) -> None:
    """Keep it. Raises `ConfigError`."""
    data = {
        "version": 1,
        "listed": catalog.listed,
        "agreed": catalog.agreed,
        "told": catalog.told,
        "able": list(catalog.able),
    }
    write_private(catalog_path(folder, config), data)


def forget_catalog(folder: Path, config: ServerConfig) -> None:
    """Take it away."""
    catalog_path(folder, config).unlink(missing_ok=True)


def _prompts(given: Sequence[Any]) -> tuple[PromptDefinition, ...]:
    found: dict[str, PromptDefinition] = {}
    for each in given[:MOST_PROMPTS]:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str) or not each["name"].strip():
            continue
        name = clean(each["name"])[:128]
        arguments = tuple(
            PromptArgument(
                name=clean(str(one.get("name", "")))[:128],
                description=clean(str(one.get("description") or ""))[:500],
                required=one.get("required") is True,
            )
            for one in (each.get("arguments") or [])[:50]
            if isinstance(one, Mapping)
        )
        description = clean(str(each.get("description") or each.get("title") or ""))[:1_000]
        found.setdefault(name, PromptDefinition(name=name, description=description, arguments=arguments))
    return tuple(found.values())
