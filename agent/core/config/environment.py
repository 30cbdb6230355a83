"""Environment variables: those of the process, those of `~/.hermes/.env`, and the settings that they
override.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from agent.core.config import settings_file
from agent.core.config.document import SettingsDocument, UnusableError, decode
from agent.core.config.layers import SettingsLayer
from agent.core.config.problem import Path, SettingPlace, SettingProblem
from agent.core.home import Home

OVERRIDES: Mapping[str, Path] = {
    "HERMES_MODEL": ("model", "name"),
    "HERMES_APPROVALS": ("approvals", "mode"),
    "HERMES_MAX_TURNS": ("agent", "max_turns"),
    "HERMES_TERMINAL_TIMEOUT": ("terminal", "timeout"),
}
"""The setting that each variable overrides. An empty variable counts as not set."""

ENV_FILE = ".env"


def environment(home: Home, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Hermes uses: `environ`, and entries of `~/.hermes/.env` for names it lacks.

    Nothing in the file is expanded. An unreadable file adds nothing; `env_file_problems` gives the reason.
    """
    found, _ = _env_file(home)
    return {**found, **environ}


def env_file_problems(home: Home) -> tuple[SettingProblem, ...]:
    """Return the problems found in `~/.hermes/.env`. Their messages never contain a value from the file."""
    return tuple(_env_file(home)[1])


def override_layers(environ: Mapping[str, str]) -> list[SettingsLayer]:
    """Return the values that variables set for settings, one layer named after each variable."""
    layers: list[SettingsLayer] = []
    for variable, path in OVERRIDES.items():
        text = environ.get(variable, "")
        if text:
            data: Any = _convert(text, path)
            for part in reversed(path):
                data = {part: data}
            layers.append(SettingsLayer(variable, SettingsDocument(data)))
    return layers


def _convert(text: str, path: Path) -> Any:
    """Return `text` as a number if the setting takes a number. Invalid text is returned unchanged and refused
    by the later validation.
    """
    from agent.core.config import setting_names

    if setting_names.type_at(path) is int:
        try:
            return int(text, 10)
        except ValueError:
            return text
    return text


def _env_file(home: Home) -> tuple[dict[str, str], list[SettingProblem]]:
    from dotenv.parser import parse_stream

    problems: list[SettingProblem] = []
    try:
        content = settings_file.read_file(home.env)
        if content is None:
            return {}, []
        text = decode(content)
    except settings_file.UnreadableSettingsError as error:
        return {}, [SettingProblem(ENV_FILE, f"cannot be read: {error}.")]
    except UnusableError as error:
        return {}, [SettingProblem(ENV_FILE, error.message, error.place)]
    if open_to := _open_to_others(home):
        problems.append(
            SettingProblem(ENV_FILE, f"others may read your keys ({open_to}); run: chmod 600 {home.env}")
        )
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        place = SettingPlace(binding.original.line, 1)
        if binding.error:
            problems.append(SettingProblem(ENV_FILE, "this line is no `NAME=value` and is left out.", place))
        elif binding.key and binding.value is None:
            problems.append(SettingProblem(ENV_FILE, "this line holds no `=` and is left out.", place))
        elif binding.key and binding.value is not None:
            found[binding.key] = binding.value
    return found, problems


def _open_to_others(home: Home) -> str:
    """Return the file's permissions as `mode 0644` if other users have access; otherwise an empty string."""
    try:
        mode = home.env.stat().st_mode & 0o777
    except OSError:
        return ""
    return f"mode {mode:04o}" if mode & 0o077 else ""
