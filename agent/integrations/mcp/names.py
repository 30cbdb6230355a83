"""The names under which tools of servers are offered. Pure, and the same in every session."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

PREFIX = "mcp__"
LONGEST = 64
"""Characters that every provider takes."""
_HASH = 8
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")

ToolKey = tuple[str, str]
"""Server and tool as they call themselves."""


def plain_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, with `_` for what providers do not take, and cut with a hash if too long."""
    name = PREFIX + _FOREIGN.sub("_", server) + "__" + _FOREIGN.sub("_", tool)
    return name if len(name) <= LONGEST else _marked(name, (server, tool))


def is_of(name: str, server: str) -> bool:
    """Whether a tool of that name can be one of the server."""
    return name.startswith(PREFIX + _FOREIGN.sub("_", server) + "__")


def tool_names(keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
    """The name of each tool; those that would be called alike each get a hash of what they are."""
    plain = {key: plain_name(*key) for key in keys}
    count = Counter(plain.values())
    return {key: name if count[name] == 1 else _marked(name, key) for key, name in plain.items()}


def _marked(name: str, key: ToolKey) -> str:
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
