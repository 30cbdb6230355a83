"""Settings of one hook."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


class HookSettings(SettingsSection):
    command: str = Field(min_length=1, description="A line for `sh -c`.")
    match: str = Field("*", description="Names of tools, with `*`, parted by `|`.")
    timeout: float = Field(5, gt=0, le=600, description="Seconds it has for an answer.")
    required: bool = Field(False, description="Whether a call is refused when the hook fails.")
