"""A slash command of a plugin, as surfaces know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """What is typed after the slash, and what it is for."""

    name: str
    description: str
    plugin: str
