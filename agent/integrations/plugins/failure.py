"""The last failure of a plugin's code in a session, as surfaces know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """What went wrong with a plugin, and how often."""

    plugin: str
    what: str
    """A sentence that names the plugin."""
    times: int
    """How often something of it failed in this session."""
    is_off: bool
    """Whether it is left alone for the rest of the session."""
