"""Settings of `agents`: other programs that can be sent, which speak the Agent Client Protocol."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


class ForeignAgentSettings(SettingsSection):
    """One of them."""

    command: str = Field(min_length=1, description="Command line of a program that speaks ACP.")
    env: dict[str, str] = Field({}, description="Variables for it.")
    env_passthrough: list[str] = Field([], description="Names of your variables that it gets besides.")
    description: str = Field("", description="When to send it, for the model.")
