"""Settings of language servers, whose diagnostics go with the result of an edit."""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import Field, field_validator

from agent.core.config.section import SettingsSection

Language = Literal["python", "typescript", "go", "rust", "cpp"]
"""The languages that servers are known for; `typescript` is JavaScript too, `cpp` is C too."""


class DiagnosticsSettings(SettingsSection):
    mode: Literal["auto", "off"] = Field(
        "auto", description="Whether new errors are told with an edit, where a language server is installed."
    )
    seconds: float = Field(3, gt=0, le=60, description="Seconds an edit waits for a language server.")
    idle_minutes: float = Field(10, gt=0, description="Minutes without an edit until a server is ended.")
    commands: dict[Language, str] = Field(
        {}, description="Command of the server of a language; empty = none for that language."
    )

    @field_validator("commands")
    @classmethod
    def _commands(cls, given: dict[Language, str]) -> dict[Language, str]:
        for text in given.values():
            try:
                shlex.split(text)
            except ValueError as error:
                raise ValueError(f"{text!r} cannot be read as a command: {error}") from error
        return given
