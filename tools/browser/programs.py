"""Finding a browser on this machine. Looks at names of files only."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

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
    return _found(os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=4)
def _found(search: str) -> str:
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
