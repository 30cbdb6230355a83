"""Tokens of servers that were signed in to, in private files; locked over processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import private_folder
from agent.errors import ConfigError
from agent.integrations.mcp.private_json import read_private, write_private
from tools.kit.files import lock_file, open_lock

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
    def locked(self) -> Iterator[None]:
        """Be the only process that renews; one that hangs holds nobody up beyond `PATIENCE`. Blocks."""
        private_folder(self.path.parent)
        descriptor = open_lock(self.path.with_suffix(".lock"))
        try:
            lock_file(descriptor, seconds=PATIENCE)
            yield
        finally:
            os.close(descriptor)
