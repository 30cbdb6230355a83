"""Services of the engine for the browser tools, and detection of browser programs."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

BackendName = Literal["local", "cdp", "browserbase"]


class Transport(Protocol):
    """A connection to a browser that delivers messages in order."""

    def send(self, message: bytes) -> None:
        """Queue a message without waiting. Raises `OSError` if the browser is gone."""
        ...

    async def receive(self) -> bytes:
        """Return the next message. Raises `EOFError` when no more come."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBrowser:
    """A running browser of one task."""

    backend: BackendName
    transport: Transport
    folder: Path | None
    """A folder with the same path here and for the browser; None if there is none."""
    close: Callable[[], Awaitable[None]]
    """Ends the browser and removes its data. A second call does nothing."""
    title: str = ""
    """The browser's description for the user."""


class BrowserHost(Protocol):
    """The service that starts the browsers of one session and decides what they may reach."""

    async def open(self) -> OpenedBrowser:
        """Start a browser with a temporary profile. Raises `ToolError`."""
        ...

    def unagreed_profile(self) -> str:
        """Return the persistent profile that the next browser would use without the user's approval.

        Returns an empty text if there is none. Blocks.
        """
        ...

    def agree_to_profile(self, name: str) -> None:
        """Record permanently that the user approved a persistent profile. Blocks. Raises `ToolError`."""
        ...

    def refusal(self, url: str) -> str:
        """Return a sentence on why an address is never opened; empty if it may be requested."""
        ...

    def denied(self, tool: str, url: str) -> str:
        """Return a clause on why the rules deny an address; empty if they allow it or require a question.

        Does not ask the user.
        """
        ...

    def secret_in(self, text: str) -> str:
        """Return the name of the known secret in a text, or empty."""
        ...

    def expect(self, url: str) -> None:
        """Announce an address that the model may open.

        An address of this machine that the user's rules name can be reached only after this call.
        """
        ...

    def refused(self) -> tuple[str, ...]:
        """Return sentences on what was refused since the last call."""
        ...

    def screenshots(self) -> Path:
        """Return a private folder for screenshots of pages."""
        ...


_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
_BEHIND_SCRIPTS = {
    "/usr/bin/chromium": ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser"),
    "/usr/bin/chromium-browser": ("/usr/lib/chromium-browser/chromium-browser",),
}
"""The program started by the distribution's script of that name, without its options."""
_MACINTOSH = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


def find_browser(named: str = "") -> str:
    """Return the path of a browser program: `named` if given, else one found here; empty if it is missing."""
    if named:
        path = str(Path(named).expanduser())
        return path if os.access(path, os.X_OK) else ""
    return _find_browser(os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=4)
def _find_browser(search: str) -> str:
    for name in _NAMES:
        path = shutil.which(name, path=search) or shutil.which(name, path="/usr/bin:/usr/local/bin")
        if path is None:
            continue
        for real in _BEHIND_SCRIPTS.get(path, ()):
            if os.access(real, os.X_OK):
                return real
        return os.path.realpath(path)
    if sys.platform == "darwin":
        return next((path for path in _MACINTOSH if os.access(path, os.X_OK)), "")
    return ""


def can_confine() -> bool:
    """Return whether a browser can be started safely: not as root without bubblewrap."""
    return not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("bwrap") is not None


def has_browser() -> bool:
    """Return whether a browser is installed on this machine and can be started safely."""
    return bool(find_browser()) and can_confine()


_reachable = False


def use_remote(is_reachable: bool) -> None:
    """Record whether a configured remote browser makes a local one unnecessary."""
    global _reachable
    _reachable = is_reachable


def is_offered() -> bool:
    """Return whether the browser tools can work, with a local or a configured remote browser."""
    return _reachable or has_browser()
