"""Lines for a person, on any terminal: control characters spelled out, unknown ones replaced."""

from __future__ import annotations

import sys
from typing import TextIO

from tools.text.safe_text import reveal


def say(text: str, file: TextIO | None = None) -> None:
    """Print `text`. Nothing in it steers the terminal, and no character is too much for its encoding."""
    stream = file or sys.stdout
    encoding = stream.encoding or "utf-8"
    print(reveal(text).encode(encoding, "replace").decode(encoding), file=stream)


def supports_glyphs(file: TextIO | None = None) -> bool:
    """Whether the stream can show `✓ ✗ ▲`."""
    try:
        "✓✗▲".encode((file or sys.stdout).encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
