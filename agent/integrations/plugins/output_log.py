"""The log of what a plugin prints: a file of limited size, nothing of which steers a terminal."""

from __future__ import annotations

import os
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from tools.text.safe_text import Cleaner

LARGEST = 1_000_000
"""Bytes after which the file begins anew; the one before is kept."""


class OutputLog:
    """Takes the bytes of a plugin's standard output and error. Blocks; meant for a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cleaner = Cleaner()

    def write(self, data: bytes) -> None:
        """Add what was printed. What cannot be written is lost: a plugin must not stop for it."""
        self._add(self._cleaner.feed(data))

    def finish(self) -> None:
        """Add the unfinished last line."""
        if rest := self._cleaner.finish():
            self._add(rest + "\n")

    def _add(self, text: str) -> None:
        if not text:
            return
        try:
            private_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self.path, flags, PRIVATE_FILE)
            try:
                if os.fstat(file).st_size > LARGEST:
                    self.path.replace(self.path.with_suffix(".log.1"))
                    os.close(file)
                    file = os.open(self.path, flags, PRIVATE_FILE)
                os.write(file, text.encode("utf-8", "replace"))
            finally:
                os.close(file)
        except (OSError, ConfigError):
            pass
