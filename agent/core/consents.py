"""Private JSON files of the home, and those that keep what a person agreed to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from tools.kit.files import file_lock, read_owned, write_atomically

LARGEST = 32_000_000
"""Bytes of a file that are read."""


def read_private(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that can be trusted. Reads the disk."""
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


class ConsentFile:
    """A file of what a person agreed to. One that others could have written agrees to nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def data(self) -> dict[str, Any]:
        """What the file holds, `version` included; the caller checks the form of the rest."""
        return read_private(self.path)

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """What the file holds, to be changed in place; no other process changes it meanwhile.

        It is written only if it is another one in the end. Raises `ConfigError`.
        """
        private_folder(self.path.parent)
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            with file_lock(lock):
                before, data = self.data(), self.data()
                yield data
                if data != before:
                    write_private(self.path, {"version": 1} | data)
        except OSError as error:
            raise ConfigError(f"Cannot write {lock}: {error.strerror or error}.") from error
