"""The folder a command works in."""

from __future__ import annotations

from pathlib import Path

from agent.core.home import Home, private_folder
from agent.errors import ConfigError


def workspace(path: str | None) -> Path:
    """Return the resolved folder to work in. Raises `ConfigError` if it is not a folder."""
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
    """Create a separate folder for the tour."""
    return private_folder(Home.locate().tour).resolve()
