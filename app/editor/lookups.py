"""Lookups on the machine for an editor: folders, models, skills, its MCP servers. Reads files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp import schema

from agent.core.home import Home, private_folder
from agent.errors import ConfigError
from agent.model.model_choices import ModelChoice
from app.editor import contents
from tools.text.safe_text import clean


def folder_of(cwd: str) -> Path:
    """The folder an editor names. Raises `ConfigError` for what is none."""
    path = Path(cwd)
    try:
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except (OSError, ValueError):
        pass
    raise ConfigError(f"The folder {clean(cwd)!r} cannot be worked in; give the absolute path of one.")


def kept_images(images: Sequence[tuple[str, bytes]]) -> Any:
    """Images of a message, taken into the home. Raises `AttachmentError`."""
    from agent.core.attachments import AttachmentStore

    home = Home.locate()
    private_folder(home.root)
    return contents.kept(AttachmentStore(home.attachments), images)


def known_models(workspace: Path) -> Sequence[ModelChoice]:
    """The models that can be chosen there."""
    from agent.core.config.loader import load
    from agent.model.model_choices import choices as model_choices

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return model_choices(loaded.settings, loaded.environ, home)


def known_skills(workspace: Path) -> list[tuple[str, str]]:
    """Name and description of each skill there."""
    from agent.core.config.loader import load
    from agent.integrations.plugins.shelf import catalog_for

    home = Home.locate()
    catalog = catalog_for(home, workspace, load(home, dict(os.environ), workspace).settings)
    found = catalog.load().skills if catalog is not None else ()
    return sorted((each.name, each.description) for each in found)


def need_model(model: str | None) -> None:
    """Look whether there is a model. Raises `NoModelError`."""
    from agent.core.config.loader import load
    from agent.model.providers import resolve

    loaded = load(Home.locate(), dict(os.environ), Path.cwd())
    resolve(loaded.settings, loaded.environ, model)


def server_entries(servers: Sequence[Any] | None) -> tuple[tuple[str, dict[str, Any]], ...]:
    """MCP servers of an editor, as settings describe them. Pure."""
    found: list[tuple[str, dict[str, Any]]] = []
    for each in servers or ():
        match each:
            case schema.McpServerStdio():
                env = {one.name: one.value for one in each.env}
                found.append((each.name, {"command": each.command, "args": list(each.args), "env": env}))
            case schema.HttpMcpServer() | schema.SseMcpServer():
                headers = {one.name: one.value for one in each.headers}
                found.append((each.name, {"url": each.url, "transport": each.type, "headers": headers}))
            case _:
                pass
    return tuple(found)
