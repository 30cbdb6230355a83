"""The skills and toolsets that a job names: whether they are there, when it is made and when it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.automation.schedule.job import JobIntent
from agent.automation.schedule.zones import ScheduleError
from agent.core.home import Home
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

_MOST_NAMED = 40


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """Looks whether what jobs name is there, by the settings of a home as they are then."""

    home: Home

    async def require(self, intent: JobIntent) -> None:
        """Raise `ScheduleError` naming the first skill or toolset that is not there, and those that are."""
        if problem := await asyncio.to_thread(self.missing, intent):
            raise ScheduleError(problem)

    def missing(self, intent: JobIntent) -> str:
        """What is not there, as a sentence; empty where nothing is amiss. Reads files."""
        if not intent.skills and not intent.toolsets:
            return ""
        from agent.core.config.loader import load

        settings = load(self.home, os.environ).settings
        folder = Path(intent.cwd or self.home.root)
        return _missing_skill(self.home, settings, folder, intent) or _missing_toolset(
            self.home, settings, folder, intent
        )


def _missing_skill(home: Home, settings: Settings, folder: Path, intent: JobIntent) -> str:
    from agent.integrations.plugins.skill_catalog import catalog_for

    if not intent.skills:
        return ""
    catalog = catalog_for(home, folder, settings)
    if catalog is None:
        return "Skills are switched off (skills.enabled), so a job cannot follow any."
    found = catalog.load()
    for name in intent.skills:
        if found.get(name) is None:
            off = next((each.reason for each in found.off if each.skill.name == name), "")
            said = (
                f"The skill {_shown(name)} is not used: {off}" if off else f"There is no skill {_shown(name)}"
            )
            return f"{said}; there are {_listed(each.name for each in found.skills)}."
    return ""


def _missing_toolset(home: Home, settings: Settings, folder: Path, intent: JobIntent) -> str:
    from tools.discovery import discover
    from tools.registry import registry
    from tools.toolsets import BUNDLES, unknown_names

    if not intent.toolsets:
        return ""
    discover()
    unknown = unknown_names(intent.toolsets, registry)
    brought = _brought(home, settings, folder) if unknown else ()
    for name in unknown:
        if name not in brought and not any(name.startswith(f"{each}__") for each in brought if each != "mcp"):
            known = sorted({*BUNDLES, *(entry.toolset for entry in registry.entries()), *brought})
            return f"There is no toolset {_shown(name)}; there are {_listed(known)}, or the name of a tool."
    return ""


def _brought(home: Home, settings: Settings, folder: Path) -> tuple[str, ...]:
    """Toolsets and tools of MCP servers and plugins, which only an open session has in its registry."""
    from agent.integrations.mcp.declared import declared_servers
    from agent.integrations.mcp.names import PREFIX, plain_name
    from agent.integrations.plugins.shelf import find_agreed

    declared = declared_servers(settings, home.servers, folder)
    servers = [each.config.name for each in declared.servers if each.usable]
    on = [each for each in find_agreed(home, folder) if each.is_on]
    plugins = [f"plugin-{each.name}" for each in on]
    tools = [tool.name for each in on if each.consent is not None for tool in each.consent.registered.tools]
    # A server is named as it calls itself or as its tools are called.
    called = [plain_name(name, "").removesuffix("__") for name in servers]
    return ("mcp", "plugins", *(f"{PREFIX}{name}" for name in servers), *called, *plugins, *tools)


def _shown(name: str) -> str:
    return repr(clean(name)[:40])


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{', '.join(found[:_MOST_NAMED])}{more}" if found else "none"
