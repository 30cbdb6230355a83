"""Faults of a plugin, or of a part of it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import ConfigError, ExitCode, HermesError


class PluginError(ConfigError):
    """A plugin that cannot be used as asked for. The message is one sentence with the cause and the mend."""


class PluginFailedError(HermesError):
    """A plugin that failed at work: it hung, crashed, flooded or answered nonsense. Names the plugin."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of a plugin that is not used, and why, as a clause."""

    part: str
    """Its file, with the entry in it where only that is meant."""
    reason: str
