"""Links that the terminal opens (OSC 8): pages, and files of the workspace at a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, urljoin

from rich.segment import Segment
from rich.style import Style

from tools.kit.lazy_pattern import lazy_pattern

LONGEST = 2_000
"""Characters of an address; terminals cut longer ones."""
PLACE = lazy_pattern(r"[\w./+-]+\.\w+:\d+(?::\d+|-\d+)?", re.A)
"""A file at a line, as models write it in code spans: `src/main.py:12`."""
_FILE = lazy_pattern(r"([^:#?\x00-\x1f]+?)(?:(?::|#L?| )(\d+)(?:[-–:]L?\d+)?)?")
_PAGE = lazy_pattern(r"(?:https?://|mailto:)\S+", re.I)
_KEPT = ":/?#[]@!$&'()*+,;=%~"


def link_address(target: str, root: str) -> str:
    """Return the address that the terminal opens for a link; empty if it gets none. Pure.

    `root` is the `file:` address of the folder that paths are in. An address is plain ASCII, whatever the
    target holds, and of no other scheme, as a program may be behind that.
    """
    if _PAGE.fullmatch(target):
        address = quote(target, safe=_KEPT)
    elif (found := _FILE.fullmatch(target)) and found[1][0] != "~":
        line = f"#{found[2]}" if found[2] else ""
        address = urljoin(root, quote(found[1])) + line
    else:
        return ""
    return address if len(address) <= LONGEST else ""


def with_links(runs: Sequence[Segment], root: str) -> list[Segment]:
    """Return runs whose links the terminal opens."""
    return [
        Segment(text, style + Style(link=address), control)
        if style is not None and (address := link_address(str(style.meta.get("link", "")), root))
        else Segment(text, style, control)
        for text, style, control in runs
    ]
