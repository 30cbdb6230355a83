"""The settings of jobs on time."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


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


class HeartbeatSettings(SettingsSection):
    interval: float = Field(1800, ge=60, description="Seconds between two beats of HEARTBEAT.md.")
    active: str = Field(
        "",
        pattern=r"^$|^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$",
        description="Hours of the day in which it beats, such as 08:00-22:00; empty = all.",
    )
    watch: list[str] = Field([], description="Files whose change is a reason to ask the model.")
    processes: list[str] = Field([], description="Files that hold a process id; its end is a reason.")
    mail: str = Field("", description="Command whose output is a reason, and is read to the model.")
    projects: list[str] = Field([], description="Folders whose HEARTBEAT.md counts beside that of the home.")
    deliver: str = Field(
        "notice", description="Where an answer goes, as for jobs: notice, none, file:PATH, telegram and more."
    )
    model: str = Field("", description="Model that is asked at a beat; empty = that of the settings.")
