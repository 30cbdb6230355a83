"""Faults of a plugin, or of a part of it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import ConfigError, ExitCode, HermesError
from tools.text.safe_text import clean


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


def quoted(text: object, limit: int = 80) -> str:
    """Text of a plugin as part of a sentence: one line, no control bytes, cut at `limit` characters."""
    line = " ".join(clean(str(text)).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
