"""References to environment variables in values of the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.errors import ConfigError
from tools.kit.lazy_pattern import lazy_pattern

_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variable_names(text: str) -> list[str]:
    """Return the names of variables that a text refers to as `${NAME}` or `${NAME:-otherwise}`."""
    return [match.group(1) for match in _VARIABLE.finditer(text)]


def fill_in(text: str, variables: Mapping[str, str], where: str) -> str:
    """Return `text` with `${NAME}` and `${NAME:-otherwise}` replaced by the values of variables.

    Raises `ConfigError`, naming the setting `where`, if a variable without `otherwise` is missing or empty.
    """

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.group(1), match.group(2)
        found = variables.get(name) or otherwise
        if found is None:
            raise ConfigError(
                f"{where} needs the variable {name}, which is not set; set it, or add it to ~/.hermes/.env."
            )
        return found

    return _VARIABLE.sub(value, text)
