"""Detection of unified diff lines within a text, to draw them in diff colours."""

from __future__ import annotations

from collections.abc import Iterable

from tools.kit.lazy_pattern import lazy_pattern

_HUNK = lazy_pattern(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_ROLES = {"+": "added", "-": "removed"}
_HEAD, _OLD, _NEW = "dim", "--- ", "+++ "


def diff_tones(lines: Iterable[str]) -> dict[int, str]:
    """Return the roles of lines by number from 0: `added`, `removed`, or `dim` for file and hunk headers.

    A hunk has exactly the length its header states, so lists with dashes are not coloured, even after a diff.
    Lines without a role have the colour of the text. Pure.
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
    """Return whether a hunk that lacks `old` and `new` lines can continue with a line of this sign."""
    if sign in _ROLES:
        return bool(old if sign == "-" else new)
    return sign in (" ", "") and bool(old and new)
