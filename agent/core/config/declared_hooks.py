"""The hooks that the settings declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.config.hook_list import Hook

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


def hooks_of(settings: Settings, project: str = "") -> list[Hook]:
    """All hooks of some settings, in their order; `project` is the folder that brings them. Pure."""
    return [
        Hook(event, each.command, each.match, each.timeout, each.required, project)
        for event, given in settings.hooks.items()
        for each in given
    ]
