"""The hooks that the settings declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.hooks.declared import Hook

if TYPE_CHECKING:
    from agent.config.schema import Settings


def hooks_of(settings: Settings) -> list[Hook]:
    """All hooks of the settings, in their order. Pure."""
    return [
        Hook(event, each.command, each.match, each.timeout, each.required)
        for event, given in settings.hooks.items()
        for each in given
    ]
