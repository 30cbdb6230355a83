"""Lines of a unified diff as part of what stands beside a list."""

from __future__ import annotations

from tools.text.safe_text import reveal
from widgets.diff_tones import diff_tones

MOST_LINES = 60
"""Lines that are shown; the whole difference has a screen of its own."""
LONGEST = 300
"""Characters of a line that are shown."""
_TONES = {"added": "$added", "removed": "$removed", "dim": "$text-muted"}


def difference_parts(text: str, more: str) -> list[tuple[str, str]]:
    """The first lines, each with its colour; `more` says where the others are. Outside text. Pure."""
    lines = text.splitlines()
    tones = diff_tones(lines)
    parts = [
        (f"{_cut(each)}\n", _TONES.get(tones.get(number, ""), ""))
        for number, each in enumerate(lines[:MOST_LINES])
    ]
    if len(lines) > MOST_LINES:
        parts.append((f"… {len(lines) - MOST_LINES:,} more lines; {more}\n", "$text-muted"))
    return parts


def _cut(line: str) -> str:
    return reveal(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
