"""Skin files: what they may be called, and reading them whatever they are."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 256 * 1024
"""Largest skin file that is read. One with large banner art has 20 KB."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class UnreadableSkinError(Exception):
    """A skin file is there but cannot be read. The text is the reason, without the file's name."""


def is_name(text: str) -> bool:
    """Whether a skin may be called `text`: letters, digits, `-` and `_`, so never a path."""
    return _NAME.fullmatch(text) is not None


def read(path: Path) -> bytes:
    """The content of a regular file of at most `MAX_BYTES`. Never waits. Raises `UnreadableSkinError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableSkinError(_reason(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableSkinError("it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableSkinError(_reason(error)) from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise UnreadableSkinError(f"it is larger than {MAX_BYTES // 1024} KB, so it is no skin")
    return content


def _reason(error: OSError) -> str:
    reason = error.strerror or "it cannot be opened"
    return reason[:1].lower() + reason[1:]
