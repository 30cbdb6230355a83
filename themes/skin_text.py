"""Words of a skin made harmless: one skin file must not steer a terminal or fool the eye."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)
# Private and unassigned characters stay: icon fonts live there, and emoji newer than this Python.
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def plain(text: str, *, lines: bool = False) -> str:
    """`text` without escape sequences, control characters and invisible marks.

    With `lines`, line feeds stay; otherwise every white space becomes a blank.
    """
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n")).expandtabs(4)
    if not lines:
        text = " ".join(text.split("\n"))
    return "".join(
        character
        for character in text
        if character == "\n" or unicodedata.category(character) not in _DROPPED
    )


def quoted(text: str, limit: int = 40) -> str:
    """`text` as one short, harmless line, to stand in a message."""
    line = " ".join(plain(text[: limit * 4]).split())
    return line if len(line) <= limit else line[:limit] + "…"
