"""The data needed to start or reach a server, the frames between Hermes and its host process, and stored
tokens.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.core.consents import read_private, write_private
from agent.core.home import private_folder
from agent.errors import ConfigError
from tools.kit import children
from tools.kit.children import LargeFrameError, framed
from tools.kit.files import lock_file, open_lock

Protocol = Literal["auto", "2025-11-25", "2026-07-28"]
"""The protocol version to use; with `auto` the server is asked which it supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The sandbox settings of a server that is started on this machine."""

    mode: str
    """The mode of the sandbox, as in the settings."""
    workspace: str
    home: str
    """The home of Hermes, which stays hidden."""
    network: bool
    readable: tuple[str, ...] = ()
    """Folders in that home that it may read nevertheless."""
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    memory: int = 0
    """The limit on private memory in bytes; 0: no limit."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables that contain paths to secrets of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The sign-in settings that the host process receives."""

    interactive: bool = False
    """Whether a user is present who can be asked to open a URL."""
    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    renew: bool = False
    """Whether to sign in again even if tokens are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLaunch:
    """Everything needed to start or reach one server, with all settings resolved."""

    name: str
    transport: str
    folder: str
    """Its own folder, with cache, temporary files and its error log."""
    tokens: str
    """The path of the file with its sign-in tokens."""
    files: str
    """The folder for images and for results that are too large for the conversation."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    """Folders that are announced to it as roots."""
    timeout: float = 60.0
    connect_timeout: float = 10.0
    protocol: Protocol = "auto"
    confinement: Confinement | None = None
    """The sandbox settings; None: it is started without a sandbox."""
    sign_in: SignIn = SignIn()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServerLaunch:
        """Return the data in a result of `to_json`."""
        fields = dict(data)
        confinement = fields.pop("confinement")
        sign_in = fields.pop("sign_in")
        return cls(
            confinement=None if confinement is None else Confinement(**_tuples(confinement)),
            sign_in=SignIn(**_tuples(sign_in)),
            **_tuples(fields),
        )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(each) if _is_list(each) else each for key, each in data.items()}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


LARGEST = 64_000_000
"""The maximum size of a frame in bytes; the host process keeps larger data in files."""


def pack_frame(frame: Mapping[str, Any]) -> bytes:
    """Encode a frame as bytes. Raises `LargeFrameError`."""
    data = json.dumps(frame, ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")
    if len(data) > LARGEST:
        raise LargeFrameError(f"a frame of {len(data):,} bytes is too large")
    return framed(data)


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Read the next frame; return None at the end. Raises `FrameError`."""
    return await children.read_frame(reader, LARGEST)


PATIENCE = 30.0
"""Seconds to wait for another process that renews the tokens."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The token file of one server, with `tokens`, `client`, `metadata`, `resource` and `expires`."""

    path: Path

    def read(self) -> dict[str, Any]:
        """Return the stored fields; empty if there are none."""
        return read_private(self.path)

    def change(self, fields: Mapping[str, Any]) -> None:
        """Store fields, and delete those whose value is None. Raises `ConfigError`."""
        kept = {**self.read(), **fields}
        write_private(self.path, {name: value for name, value in kept.items() if value is not None})

    def forget(self) -> bool:
        """Delete everything stored; return False if nothing was stored. Raises `ConfigError`."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(f"Cannot remove {self.path}: {error.strerror or error}.") from error
        return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock for renewing tokens in this block.

        Blocks, but waits for another process at most `PATIENCE` seconds, and then goes on without the lock.
        """
        private_folder(self.path.parent)
        descriptor = open_lock(self.path.with_suffix(".lock"))
        try:
            lock_file(descriptor, seconds=PATIENCE)
            yield
        finally:
            os.close(descriptor)
