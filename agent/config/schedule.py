"""The settings of jobs on time."""

from __future__ import annotations

from pydantic import Field

from agent.config.section import SettingsSection


class ScheduleSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether jobs run while Hermes is open.")
    tick: float = Field(
        15, ge=1, le=3600, description="Seconds after which the clock is looked at again while jobs exist."
    )
    grace: float = Field(
        120,
        ge=0,
        description="Seconds a run may be late before it counts as missed; at most half its period.",
    )
    at_once: int = Field(2, ge=1, le=32, description="Runs of jobs at once; further ones wait in order.")
    tokens: int | None = Field(1_000_000, ge=1, description="Tokens one run of a job may use.")
    money: float | None = Field(None, gt=0, description="US dollars one run of a job may use.")
    script_timeout: float = Field(600, gt=0, description="Seconds a script of a job may take.")
