"""Options of a surface when it opens a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.messages import ModeName
from agent.core.store.nodes import Node

if TYPE_CHECKING:
    from tools.services.editor import EditorSide

PREVIEWED = 100
"""Nodes at the end of a session that are shown while the others are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices of a surface when it opens a session."""

    workspace: Path
    """The folder to work in, resolved."""
    model: str | None = None
    resume: str | None = None
    """Id, start of an id, or title of a session to go on with."""
    resume_last: bool = False
    here: bool = False
    """Whether the session that goes on moves to `workspace`; else it works where it did."""
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
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this session, nested by section as in `config.yaml`, whatever files and environment say."""
    editor: EditorSide | None = None
    """The editor that the session works in. It does not cross to an engine in a process of its own."""
    servers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Further MCP servers, by name, each as `mcp_servers` describes one."""
    after: str = ""
    """The session that a new one takes the place of, as with `/new`; empty where there was none."""
    preview: Callable[[Sequence[Node]], None] | None = None
    """Told the last nodes of a session that is resumed, before all of it is read."""
