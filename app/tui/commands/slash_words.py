"""Skills and prompts of MCP servers that can be run as `/name words`, for every surface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from widgets.prompt.completion import CommandChoice

if TYPE_CHECKING:
    from pathlib import Path

    from agent.core.config.schema import Settings

SHOWN = 120
"""Characters of a description that menus get."""


def words_of(workspace: Path) -> tuple[CommandChoice, ...]:
    """Skills and prompts of servers in a folder, with what may follow them. Reads the disk."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.integrations.plugins.shelf import catalog_for

    home = Home.locate()
    settings = load(home, dict(os.environ), workspace).settings
    catalog = catalog_for(home, workspace, settings)
    found = () if catalog is None else catalog.load().skills
    skills = tuple(CommandChoice(each.name, short(each.description), "[words]") for each in found)
    return (
        *skills,
        *(CommandChoice(name, short(said), hint) for name, said, hint in _prompts(settings, workspace)),
    )


def _prompts(settings: Settings, workspace: Path) -> list[tuple[str, str, str]]:
    """Prompts of MCP servers, as they are kept: word, description, arguments. Reads the disk."""
    from agent.core.home import Home
    from agent.integrations.mcp.catalog import load_catalog
    from agent.integrations.mcp.server_config import declared_servers
    from agent.integrations.mcp.tools import listed_prompts, prompt_names

    folder = Home.locate().servers
    found = []
    for server in declared_servers(settings, folder, workspace).servers:
        if server.usable and (kept := load_catalog(folder, server.config)) is not None:
            found += [(server.config.name, prompt) for prompt in kept.prompts]
    return listed_prompts(prompt_names(tuple(found)))


def short(text: str) -> str:
    """A description as long as menus show it. Pure."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1].rstrip()}…"
