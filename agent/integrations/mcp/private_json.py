"""Small private files of JSON: written whole, believed only if nobody else could have written them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from tools.kit.files import read_owned, write_atomically

LARGEST = 32_000_000
"""Bytes of a file that are read."""


def read_private(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that can be believed. Reads the disk."""
    content = read_owned(path, LARGEST)
    try:
        data = json.loads(content) if content is not None else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def write_private(path: Path, data: Mapping[str, Any]) -> None:
    """Put an object into a file of mode 0600. Raises `ConfigError`, also for one too large to be read."""
    content = json.dumps(data, indent=1).encode("utf-8")
    if len(content) > LARGEST:
        raise ConfigError(f"Cannot write {path}: what belongs there has more than {LARGEST:,} bytes.")
    try:
        private_folder(path.parent)
        write_atomically(path, content, PRIVATE_FILE, follow_links=False)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror or error}; free the place.") from error
