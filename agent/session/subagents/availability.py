"""Reasons why a kind of agent cannot be sent here, although its file is sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.model.providers import resolve
from agent.session.subagents.definitions import Definition
from tools.registry import Registry
from tools.text.safe_text import clean
from tools.toolsets import members

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


def doubts(
    definition: Definition, registry: Registry, settings: Settings, environ: Mapping[str, str]
) -> list[str]:
    """A sentence for each name in a definition that stands for nothing with these settings."""
    found = [
        f"`tools` names {clean(name)}, which is no toolset or tool here; correct it or leave it out."
        for name in definition.tools
        if members(name, registry) is None
    ]
    if definition.model:
        try:
            target = resolve(settings, environ, definition.model)[0]
        except ConfigError as error:
            found.append(f"`model`: {clean(str(error))}")
        else:
            if target.kind == "demo":
                found.append("`model`: the demo model answers no agents; name another one.")
    return found
