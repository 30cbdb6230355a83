"""Settings of the browser."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent.core.config.section import SettingsSection


class BrowserSettings(SettingsSection):
    backend: Literal["auto", "local", "cdp", "browserbase"] = Field(
        "auto", description="Which browser is used; `auto` takes a running one, else the installed one."
    )
    program: str = Field("", description="Path of the browser; empty = the Chromium or Chrome it finds.")
    cdp_url: str = Field(
        "", description="Address of a running browser, such as `http://127.0.0.1:9222`; it is not confined."
    )
    profile: str = Field(
        "", description="Name of a profile that lasts, with its logins; empty = a new one each time."
    )
    idle: float = Field(120, ge=5, description="Seconds without use after which the browser is closed.")
