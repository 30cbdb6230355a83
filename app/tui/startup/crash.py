"""Crash reports: a file with secrets removed, and a message for the user."""

from __future__ import annotations

import io
import logging
import platform
import sys
import time
from pathlib import Path

log = logging.getLogger("hermes")

KEPT = 20
"""The number of reports that are kept; writing a new one removes older ones."""


class CrashLog(io.StringIO):
    """A text file that records what is written to it when the application ends."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []

    @property
    def has_happened(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        """The recorded text, with secrets masked and invisible characters spelled out."""
        from agent.core.config.known_secrets import secrets_of_home
        from tools.text.redact import redact
        from tools.text.safe_text import reveal

        # The report is read in a terminal.
        return reveal(redact("".join(self._pieces).rstrip(), secrets_of_home()))

    def write(self, text: str) -> int:
        self._pieces.append(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing, as nothing is buffered."""


def write_report(crash: CrashLog, folder: Path, version: str) -> Path | None:
    """Write the report of a crash and its log entry; return the report's path, or None if writing fails."""
    from agent.core.home import PRIVATE_FILE, private_folder
    from tools.kit.files import write_atomically

    log.error("the application ended unexpectedly\n%s", crash.text)
    python = ".".join(map(str, sys.version_info[:3]))
    about = (
        f"hermes {version} · Python {python} · {platform.platform()} · {time.strftime('%Y-%m-%d %H:%M:%S')}"
    )
    place = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    try:
        private_folder(folder)
        write_atomically(folder.resolve() / place.name, f"{about}\n\n{crash.text}\n".encode(), PRIVATE_FILE)
        for old in sorted(folder.glob("crash-*.txt"))[:-KEPT]:
            old.unlink(missing_ok=True)
    except Exception:  # noqa: BLE001, RUF100 - there is nobody left to tell but the log
        log.exception("the report could not be written")
        return None
    return place


def farewell(report: Path | None, session: str) -> str:
    """Return the message shown to the user after a crash. Pure."""
    lines = [
        "",
        "  Hermes ended unexpectedly. That is a fault of ours.",
        "  Nothing that was said or done is lost: it was on the disk before it was",
        "  on the screen.",
        "",
    ]
    lines += [f"  The report:   {report}"] if report else ["  The details are in the log; see hermes doctor."]
    lines += [f"  To continue:  hermes --resume {session}"] if session else []
    return "\n".join([*lines, ""])
