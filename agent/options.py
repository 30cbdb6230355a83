"""What a surface may choose when it opens a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.safety.permissions.modes import ModeName
from agent.store.nodes import Node, Session
from agent.store.store import Store

if TYPE_CHECKING:
    from agent.inbox import Inbox

PREVIEWED = 100
"""Nodes at the end of a session that are shown while the others are read."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A branch of a session that this process has open, for an engine of its own that works in a copy."""

    store: Store
    record: Session
    head: str
    inbox: Inbox
    """Where its questions and approvals go."""
    agent: str
    """Who asks them, and whose events they are."""
    origin: Path
    """The workspace that was copied: its settings count, and nothing is written there."""
    position: int
    """Where the files of the workspace stood when they were copied."""


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
    max_steps: int | None = None
    surface: str = ""
    """Where the session is used: `tui`, `plain`, `oneshot` or `json`."""
    attended: bool = False
    """Whether a person is there to answer questions."""
    preview: Callable[[Sequence[Node]], None] | None = None
    """Told the last nodes of a session that is resumed, before all of it is read."""
    beside: Beside | None = None
    """Work on another branch of a session that this process has open; `workspace` is a copy then."""
