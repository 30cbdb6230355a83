"""Protocols by which the engine gives the tools a running browser and judges addresses.

The engine starts the program behind its boundary and leads its network through the proxy; this package
speaks to it and never opens a connection by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

BackendName = Literal["local", "cdp", "browserbase"]


class Transport(Protocol):
    """Messages to and from a browser, in order."""

    def send(self, message: bytes) -> None:
        """Hand a message on without waiting. Raises `OSError` when the browser has gone."""
        ...

    async def receive(self) -> bytes:
        """The next message. Raises `EOFError` when no more come."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBrowser:
    """A browser that runs, and belongs to one task."""

    backend: BackendName
    transport: Transport
    folder: Path | None
    """A folder that this machine and the browser know by the same path; None where there is none."""
    close: Callable[[], Awaitable[None]]
    """End it and remove what it kept. A second time does nothing."""
    title: str = ""
    """What it is, for the person."""


class BrowserHost(Protocol):
    """Starts browsers of one session and judges what they are to reach."""

    async def open(self) -> OpenedBrowser:
        """A new browser with a profile of its own. Raises `ToolError`."""
        ...

    def unagreed_profile(self) -> str:
        """The lasting profile that the next browser would use and nobody has agreed to, or empty. Blocks."""
        ...

    def agree_to_profile(self, name: str) -> None:
        """Note for good that a lasting profile passed the gate, by a person. Blocks. Raises `ToolError`."""
        ...

    def refusal(self, url: str) -> str:
        """Why an address is never opened, as a sentence; empty for one that may be asked for."""
        ...

    def denied(self, tool: str, url: str) -> str:
        """Why the rules deny an address, as a clause; empty where they allow or ask. Asks nobody."""
        ...

    def secret_in(self, text: str) -> str:
        """The name of the known secret that a text holds, or empty."""
        ...

    def expect(self, url: str) -> None:
        """The model is about to open this address, with leave: only so may one of this machine be reached
        that the person's rules name."""
        ...

    def refused(self) -> tuple[str, ...]:
        """Sentences on what was not let through since this was asked last."""
        ...

    def screenshots(self) -> Path:
        """A private folder for pictures of pages."""
        ...
