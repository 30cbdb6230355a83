"""The base of every section of the settings."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator

STRICTEST = "strictest"
"""Key of a security setting's `json_schema_extra`: the value it has when what was given is not understood."""

_ON, _OFF = ("on", "always", "auto"), ("off", "never", "none")
"""Words that YAML's bare true and false may have been meant as."""


class SettingsSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _bare_words(cls, values: Any) -> Any:
        """YAML reads a bare `on`, `yes`, `off` or `no` as true or false: take them for words again."""
        if not isinstance(values, dict) or not any(isinstance(each, bool) for each in values.values()):
            return values
        return {key: _word(cls.model_fields.get(key), value) for key, value in values.items()}


def _word(field: Any, value: Any) -> Any:
    annotation = getattr(field, "annotation", None)
    if not isinstance(value, bool) or get_origin(annotation) is not Literal:
        return value
    words = _ON if value else _OFF
    return next((word for word in words if word in get_args(annotation)), value)
