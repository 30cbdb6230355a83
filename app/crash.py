"""Where the details of a crash go: into the log, with secrets taken out, never onto the screen."""

from __future__ import annotations

import io
import logging

log = logging.getLogger("hermes")


class CrashLog(io.StringIO):
    """A text file that is a log record when it is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.happened = False

    def write(self, text: str) -> int:
        self.happened = True
        return super().write(text)

    def flush(self) -> None:
        text = self.getvalue().rstrip()
        self.seek(0)
        self.truncate()
        if text:
            from tools.redact import redact

            log.error("the application ended unexpectedly\n%s", redact(text))
