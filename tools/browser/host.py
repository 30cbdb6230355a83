"""Services that the browser tools ask of the engine, and the programs they can start."""

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
    """Starts browsers of one session and judges what they may reach."""

    async def open(self) -> OpenedBrowser:
        """A new browser with a profile of its own. Raises `ToolError`."""
        ...

    def unagreed_profile(self) -> str:
        """The lasting profile that the next browser would use and nobody has agreed to, or empty. Blocks."""
        ...

    def agree_to_profile(self, name: str) -> None:
        """Record permanently that a person let a lasting profile pass. Blocks. Raises `ToolError`."""
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


_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
_BEHIND_SCRIPTS = {
    "/usr/bin/chromium": ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser"),
    "/usr/bin/chromium-browser": ("/usr/lib/chromium-browser/chromium-browser",),
}
"""What the distribution's script of that name starts, with options of its own."""
_MACINTOSH = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


def find_browser(named: str = "") -> str:
    """The path of a browser program, `named` before all others; empty where there is none."""
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
    """Whether a browser can be started safely: not as root without bubblewrap."""
    return not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("bwrap") is not None


def has_browser() -> bool:
    """Whether a browser of this machine can be offered."""
    return bool(find_browser()) and can_confine()


_reachable = False


def use_remote(is_reachable: bool) -> None:
    """Note that the settings name a browser elsewhere, so that one here is not needed."""
    global _reachable
    _reachable = is_reachable


def is_offered() -> bool:
    """Whether the browser tools can work: a browser is here, or the settings name one elsewhere."""
    return _reachable or has_browser()
