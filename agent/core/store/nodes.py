"""The data of a session: a tree of nodes that are never changed, and named heads that point into it.

A conversation is the path from the root to a head. A branch is one more head:
nothing is copied and nothing is deleted when a conversation is branched or
rewound.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tools.text.redact import redact
from tools.text.safe_text import clean

Kind = Literal["system", "user", "assistant", "tool", "notice", "compaction", "inner"]
"""`inner` is a call that a script made: written down, and no part of what the model reads."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

MAIN = "main"
"""The head every session begins with."""

TITLE_LENGTH = 60
"""Characters of a title that the store makes up itself."""


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of a session. Ids grow over the whole store and are never used twice.

    `created` is in seconds since the epoch. `data` is what belongs to the kind:
    calls, reasoning and usage of an assistant node, the outcome of a tool node.
    """

    id: int
    session: str
    parent: int | None
    kind: str
    created: float
    content: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that is to be appended."""

    kind: Kind
    content: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchHead:
    """A named end of a conversation. `node` is None as long as nothing was said."""

    session: str
    name: str
    node: int | None
    updated: float


@dataclass(frozen=True, slots=True)
class Session:
    """A session without its nodes. Times are seconds since the epoch."""

    id: str
    title: str
    workspace: str
    model: str
    created: float
    updated: float
    head: int | None
    """The node `main` points to."""
    parent: str | None = None
    """The session whose agent delegated this one."""
    archived: bool = False
    length: int = 0
    """Nodes on the path of `main`."""


class _Any:
    """Type of the mark for "whatever the head points to"."""


ANY = _Any()
"""Default of `expected`: append wherever the head is now."""

Expected = int | None | _Any


def new_session_id(now: float | None = None) -> str:
    """An id that sorts by time (UTC) and can be read aloud, such as `20261121-224501-a3f9c2`."""
    moment = time.gmtime(now)
    return f"{time.strftime('%Y%m%d-%H%M%S', moment)}-{secrets.token_hex(3)}"


def title_of(message: str, secrets: Mapping[str, str] | None = None) -> str:
    """The first line of a message that says anything, secrets masked, cut between words."""
    shown = redact(clean(message[:4_000]), secrets)
    line = next((line for line in shown.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    at_word = cut.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > TITLE_LENGTH // 2 else cut).rstrip() + "…"


_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """`text` as SQLite can keep it: halves of a surrogate pair are joined, lone ones become U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
