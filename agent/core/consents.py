"""Private JSON files of the home folder, among them those with the user's consents."""

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
"""The size in bytes of the largest file that is read or written."""


def read_private(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if the file is missing, invalid or not private."""
    content = read_owned(path, LARGEST)
    try:
        data = json.loads(content) if content is not None else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def write_private(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object to a file of mode 0600. Raises `ConfigError` if that fails or the object exceeds
    `LARGEST`.
    """
    content = json.dumps(data, indent=1).encode("utf-8")
    if len(content) > LARGEST:
        raise ConfigError(f"Cannot write {path}: what belongs there has more than {LARGEST:,} bytes.")
    try:
        private_folder(path.parent)
        write_atomically(path, content, PRIVATE_FILE, follow_links=False)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror or error}; free the place.") from error


class ConsentFile:
    """A file with the user's consents. It counts as empty if other users could have written it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def data(self) -> dict[str, Any]:
        """Return the content of the file, including `version`. The caller validates all other entries."""
        return read_private(self.path)

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the file, to be changed in place, and keep other processes from changing it.

        The file is written afterwards if its content has changed. Raises `ConfigError`.
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
