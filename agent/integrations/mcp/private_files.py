"""Private files of servers: small JSON written whole and trusted only if it is ours, and tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from tools.kit.files import lock_file, open_lock, read_owned, write_atomically

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


PATIENCE = 30.0
"""Seconds another process may take to renew what it signed in with."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The file of one server: `tokens`, `client`, `metadata`, `resource` and `expires`."""

    path: Path

    def read(self) -> dict[str, Any]:
        """What is kept; empty if nothing is."""
        return read_private(self.path)

    def change(self, fields: Mapping[str, Any]) -> None:
        """Put fields in, and take out those that are None. Raises `ConfigError`."""
        kept = {**self.read(), **fields}
        write_private(self.path, {name: value for name, value in kept.items() if value is not None})

    def forget(self) -> bool:
        """Take everything away; False if nothing was kept."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(f"Cannot remove {self.path}: {error.strerror or error}.") from error
        return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only process that renews; one that hangs delays others by at most `PATIENCE`. Blocks."""
        private_folder(self.path.parent)
        descriptor = open_lock(self.path.with_suffix(".lock"))
        try:
            lock_file(descriptor, seconds=PATIENCE)
            yield
        finally:
            os.close(descriptor)
