"""Small private files of JSON: written whole, believed only if nobody else could have written them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.home import PRIVATE_FILE, private_folder
from tools.files.atomic import write_atomically

LARGEST = 32_000_000
"""Bytes of a file that are read."""


def read_private(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that can be believed. Reads the disk."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return {}
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o022 or status.st_size > LARGEST:
            return {}
        try:
            data = json.loads(opened.read(LARGEST))
        except (ValueError, OSError, RecursionError):
            return {}
    return data if isinstance(data, dict) else {}


def write_private(path: Path, data: Mapping[str, Any]) -> None:
    """Put an object into a file of mode 0600. Raises `ConfigError`."""
    try:
        private_folder(path.parent)
        write_atomically(path, json.dumps(data, indent=1).encode("utf-8"), PRIVATE_FILE, follow_links=False)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror or error}; free the place.") from error
