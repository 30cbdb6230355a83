"""The log file: where details go that no person wants to read on the screen."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from agent.errors import HermesError
from agent.home import Home, private_folder

MAX_BYTES = 5_000_000
BACKUPS = 3
FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"


class _PrivateLog(RotatingFileHandler):
    """A log file whose folder is made with the first record, not before."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is None:
            try:
                private_folder(Path(self.baseFilename).parent)
            except HermesError:
                return
        super().emit(record)


def start_logging() -> None:
    """Send all log records to `logs/hermes.log` of the home folder, and none to the terminal.

    Where the file cannot be used records are dropped.
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
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
