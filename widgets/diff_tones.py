"""Finds the lines of a text that are lines of a unified diff, to draw them in its colours."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_ROLES = {"+": "added", "-": "removed"}
_HEAD, _OLD, _NEW = "dim", "--- ", "+++ "


def diff_tones(lines: Iterable[str]) -> dict[int, str]:
    """The roles of lines by their numbers from 0: `added`, `removed`, or `dim` for heads of files and hunks.

    A hunk is as long as its head says and no longer, so that lists with dashes stay as they are,
    also behind a diff. Lines that are left out have the colour of the text. Pure.
    """
    tones: dict[int, str] = {}
    old = new = 0
    last = before = ""
    for number, line in enumerate(lines):
        sign = line[:1]
        if (old or new) and _fits(sign, old, new):
            if sign in _ROLES:
                tones[number] = _ROLES[sign]
            old -= sign in ("-", " ", "")
            new -= sign in ("+", " ", "")
        elif sign == "@" and (head := _HUNK.match(line)):
            old, new = (1 if count is None else int(count) for count in head.groups())
            tones[number] = _HEAD
            if before.startswith(_OLD) and last.startswith(_NEW):
                tones |= {number - 2: _HEAD, number - 1: _HEAD}
        elif sign != "\\":
            old = new = 0
        before, last = last, line
    return tones


def _fits(sign: str, old: int, new: int) -> bool:
    """Whether a hunk that lacks so many old and new lines can go on with such a line."""
    if sign in _ROLES:
        return bool(old if sign == "-" else new)
    return sign in (" ", "") and bool(old and new)
