"""Consent to hooks, by the hash of what they run. Touches the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from agent.errors import ConfigError
from agent.home import PRIVATE_FILE, private_folder
from agent.hooks.declared import Hook
from tools.files.atomic import write_atomically

LARGEST = 1_000_000
"""Bytes of the file that are read."""


class HookConsent:
    """The file of digests. One that cannot be believed agrees to nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def agreed(self) -> frozenset[str]:
        """The digests of all hooks that were agreed to."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return frozenset()
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(opened.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return frozenset()
            try:
                digests = json.loads(opened.read(LARGEST))["hooks"]
            except (ValueError, KeyError, TypeError, OSError, RecursionError):
                return frozenset()
        return (
            frozenset(each for each in digests if isinstance(each, str))
            if isinstance(digests, list)
            else frozenset()
        )

    def agree(self, hooks: Iterable[Hook]) -> None:
        """Agree to exactly these hooks; what was agreed to before and is not among them no longer counts.

        Raises `ConfigError`.
        """
        digests = sorted({hook.digest for hook in hooks})
        text = json.dumps({"version": 1, "hooks": digests}, indent=1)
        try:
            private_folder(self._path.parent)
            write_atomically(self._path, text.encode(), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            raise ConfigError(f"Cannot write {self._path}: {error.strerror or error}.") from error
