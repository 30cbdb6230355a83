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


def start_logging() -> Path | None:
    """Send all log records to `logs/hermes.log` of the home folder, and none to the terminal.

    Returns the file, or None when it cannot be used; then records are dropped.
    The file is made when the first record is written.
    """
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    try:
        path = private_folder(Home.locate().logs) / "hermes.log"
        handler: logging.Handler = RotatingFileHandler(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace", delay=True
        )
    except (HermesError, OSError):
        root.addHandler(logging.NullHandler())
        return None
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    logging.raiseExceptions = False
    return path
