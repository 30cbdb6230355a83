"""Options a surface chooses when it opens a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.modes import ModeName
from agent.store.nodes import Node

PREVIEWED = 100
"""Nodes at the end of a session that are shown while the others are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a surface may choose when it opens a session."""

    workspace: Path
    """The folder to work in, resolved."""
    model: str | None = None
    resume: str | None = None
    """Id, start of an id, or title of a session to go on with."""
    resume_last: bool = False
    approve: ModeName | None = None
    """A mode for this session, whatever settings and permissions say."""
    effort: str | None = None
    """How much the model thinks, as `/effort` takes it."""
    max_steps: int | None = None
    surface: str = ""
    """Where the session is used: `tui`, `plain`, `oneshot` or `json`."""
    attended: bool = False
    """Whether a person is there to answer questions."""
    allow: tuple[str, ...] = ()
    """Rules, `tool(pattern)`, that allow in this session beside those of permissions.yaml."""
    toolsets: tuple[str, ...] = ()
    """Toolsets on offer in place of those of the settings; empty: those."""
    max_tokens: int | None = None
    """Tokens the session may use, where that is less than the settings say."""
    max_money: float | None = None
    """US dollars, likewise."""
    preview: Callable[[Sequence[Node]], None] | None = None
    """Told the last nodes of a session that is resumed, before all of it is read."""
