"""Settings of what is learned from calls that failed."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


class LearningSettings(SettingsSection):
    enabled: bool = Field(True, description="Whether Hermes learns from calls that failed and what worked.")
    hold_back: bool = Field(
        True, description="Whether a call that failed before is held back once, with what worked."
    )
    promote_after: int = Field(
        2,
        ge=0,
        le=100,
        description="How often a candidate has to work to become a learning by itself; 0 = never.",
    )
    candidates: int = Field(300, ge=10, le=10_000, description="Candidates kept of one project.")
