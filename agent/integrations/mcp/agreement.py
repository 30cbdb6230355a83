"""Agreements to servers of projects, by the hash of all they are. Touches the disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agent.integrations.mcp.private_json import read_private, write_private
from agent.integrations.mcp.server_config import ServerConfig


class ServerAgreement:
    """The file of agreements. One that cannot be believed agrees to nothing."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the home for servers."""
        self._path = folder / "agreed.json"

    def holds(self, root: Path, config: ServerConfig) -> bool:
        """Whether exactly this server of the project at `root` was agreed to."""
        return _key(root, config) in self._agreed()

    def agree(self, root: Path, config: ServerConfig) -> None:
        """Agree to it as it stands. Raises `ConfigError`."""
        write_private(self._path, {"version": 1, "agreed": sorted({*self._agreed(), _key(root, config)})})

    def withdraw(self, root: Path, config: ServerConfig) -> None:
        """No longer agree to it. Raises `ConfigError`."""
        write_private(self._path, {"version": 1, "agreed": sorted(self._agreed() - {_key(root, config)})})

    def _agreed(self) -> frozenset[str]:
        found = read_private(self._path).get("agreed")
        return (
            frozenset(each for each in found if isinstance(each, str))
            if isinstance(found, list)
            else frozenset()
        )


def _key(root: Path, config: ServerConfig) -> str:
    return hashlib.sha256(f"{root}\0{config.digest}".encode("utf-8", "surrogatepass")).hexdigest()
