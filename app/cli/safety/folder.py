"""The working folder of a command."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import Home, private_folder
from agent.errors import ConfigError


def workspace(path: str | None) -> Path:
    """Return the resolved working folder, by default the current one. Raises `ConfigError`."""
    try:
        resolved = Path(path or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        if not path:
            raise ConfigError(
                "The current folder is gone; go to another one, or name one with --cwd."
            ) from None
        raise ConfigError(f"There is no folder {path or '.'}; name an existing one with --cwd.") from None
    if not resolved.is_dir():
        raise ConfigError(f"{path} is not a folder; name one with --cwd.")
    return resolved


def demo_workspace() -> Path:
    """Create the separate folder of the tour if it is missing, and return its path."""
    return private_folder(Home.locate().tour).resolve()
