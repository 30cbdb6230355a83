"""The log file, for details that do not belong on the screen."""

from __future__ import annotations

import logging
import stat
from logging.handlers import RotatingFileHandler
from pathlib import Path

from agent.core.home import Home, private_folder
from agent.errors import HermesError

MAX_BYTES = 5_000_000
BACKUPS = 3
FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"


class _PrivateLog(RotatingFileHandler):
    """A log file whose folder is created with the first record."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is None and not _usable(Path(self.baseFilename)):
            return
        super().emit(record)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the name of logging
        """Return whether the file is full, without formatting the record, as masking takes a while."""
        return self.stream is not None and self.stream.tell() >= self.maxBytes


def _usable(path: Path) -> bool:
    """Return whether a log can be written to the path. A pipe is refused, as writing to it may block."""
    try:
        private_folder(path.parent)
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True
    except (HermesError, OSError):
        return False


class _Masked(logging.Formatter):
    """Masks secrets in records and tracebacks. The secrets are read at the first record."""

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._secrets: dict[str, str] | None = None

    def format(self, record: logging.LogRecord) -> str:
        from tools.text.redact import redact

        if self._secrets is None:
            from agent.core.config.known_secrets import secrets_of_home

            self._secrets = {}
            self._secrets = secrets_of_home()
        return redact(super().format(record), self._secrets)


def start_logging() -> None:
    """Send all log records to `logs/hermes.log` of the home folder, and none to the terminal.

    If the file cannot be used, records are dropped.
    """
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False
    try:
        path = Home.locate().logs / "hermes.log"
    except HermesError:
        root.addHandler(logging.NullHandler())
        return
    handler = _PrivateLog(
        path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace", delay=True
    )
    handler.setFormatter(_Masked())
    root.addHandler(handler)
