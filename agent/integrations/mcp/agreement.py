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
        return _key(root, config) in self.all()

    def all(self) -> dict[str, tuple[str, str]]:
        """The name and the project of each server by the hash; empty texts where they were not kept."""
        data = read_private(self._path)
        agreed, servers = data.get("agreed"), data.get("servers")
        known = servers if isinstance(servers, dict) else {}
        return {
            key: _place(known.get(key))
            for key in (agreed if isinstance(agreed, list) else ())
            if isinstance(key, str)
        }

    def agree(self, root: Path, config: ServerConfig) -> None:
        """Agree to it as it stands. Raises `ConfigError`."""
        self._write(self.all() | {_key(root, config): (config.name, str(root))})

    def withdraw(self, key: str) -> bool:
        """Agree no longer to the server with this hash; False if nobody did. Raises `ConfigError`."""
        agreed = self.all()
        if agreed.pop(key, None) is None:
            return False
        self._write(agreed)
        return True

    def _write(self, agreed: dict[str, tuple[str, str]]) -> None:
        servers = {key: list(place) for key, place in agreed.items() if any(place)}
        write_private(self._path, {"version": 1, "agreed": sorted(agreed), "servers": servers})


def _place(found: object) -> tuple[str, str]:
    match found:
        case [str(name), str(root)]:
            return name, root
        case _:
            return "", ""


def _key(root: Path, config: ServerConfig) -> str:
    return hashlib.sha256(f"{root}\0{config.digest}".encode("utf-8", "surrogatepass")).hexdigest()
