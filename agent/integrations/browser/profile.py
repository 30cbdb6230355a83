"""Profiles of browsers: one a session, removed at its end, also when we were killed; or a lasting one."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from tools.kit.files import lock_file, open_lock, write_atomically
from tools.results import ToolError

_LOCK = "lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LASTING = "profiles"


class BrowserProfile:
    """A folder that one browser has for itself while `close` was not called."""

    def __init__(self, folder: Path, lock: int, *, lasts: bool) -> None:
        self.folder = folder
        self.lasts = lasts
        self._lock = lock

    def close(self) -> None:
        """Let go of it, and remove it unless it lasts. Blocks. A second time does nothing."""
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        if not self.lasts:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(lock)


def open_profile(root: Path, name: str = "") -> BrowserProfile:
    """A new profile below `root`, or the lasting one of that name. Blocks. Raises `ToolError`.

    What was left by programs that were killed is removed.
    """
    private_folder(root)
    remove_abandoned(root)
    if name:
        if not _NAME.fullmatch(name):
            raise ToolError(f"browser.profile is {name[:40]!r}; use letters, digits, - and _.")
        folder = root / _LASTING / name
        private_folder(folder.parent)
        private_folder(folder)
    else:
        folder = Path(tempfile.mkdtemp(prefix="session-", dir=root))
    lock = _taken(folder)
    if lock is None:
        raise ToolError(f"The browser profile {name} is in use by another session; close that one first.")
    for part in ("profile", "tmp", "downloads", "uploads"):
        private_folder(folder / part)
    return BrowserProfile(folder, lock, lasts=bool(name))


class ProfileConsent:
    """The file with the names of lasting profiles that the person agreed to. Blocks.

    One that cannot be read agrees to nothing. It lies outside of what a browser can write to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def agreed(self) -> frozenset[str]:
        """The names."""
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return frozenset()
        names = found.get("profiles") if isinstance(found, dict) else None
        return (
            frozenset(each for each in names if isinstance(each, str))
            if isinstance(names, list)
            else frozenset()
        )

    def agree(self, name: str) -> None:
        """Note a yes. Raises `OSError`."""
        self._write(self.agreed() | {name})

    def withdraw(self, name: str) -> bool:
        """Take a yes back; the profile stays. False if there was none. Raises `OSError`."""
        agreed = self.agreed()
        if name in agreed:
            self._write(agreed - {name})
        return name in agreed

    def _write(self, names: frozenset[str]) -> None:
        private_folder(self._path.parent)
        text = json.dumps({"version": 1, "profiles": sorted(names)}, indent=1)
        write_atomically(self._path, text.encode(), PRIVATE_FILE, follow_links=False)


def remove_abandoned(root: Path) -> None:
    """Remove profiles of sessions whose program has gone. Blocks."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.name.startswith("session-") or not entry.is_dir(follow_symlinks=False):
                continue
            lock = _taken(Path(entry.path))
            if lock is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(lock)


def _taken(folder: Path) -> int | None:
    """The lock of a folder; None if another program has it."""
    try:
        lock = open_lock(folder / _LOCK)
    except OSError:
        return None
    if not lock_file(lock, seconds=0):
        os.close(lock)
        return None
    return lock
