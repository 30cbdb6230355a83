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
"""The number of nodes at the end of a session that are shown while the earlier ones are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices of a surface when it opens a session."""

    workspace: Path
    """The folder to work in, resolved."""
    model: str | None = None
    resume: str | None = None
    """Id, start of an id, or title of the session to resume; None for a new one."""
    resume_last: bool = False
    here: bool = False
    """True if a resumed session moves to `workspace`; otherwise it keeps its folder."""
    approve: ModeName | None = None
    """A mode for this session that overrides settings and permissions."""
    effort: str | None = None
    """The thinking effort, in the form that `/effort` accepts."""
    max_steps: int | None = None
    surface: str = ""
    """The surface: `tui`, `plain`, `oneshot` or `json`."""
    attended: bool = False
    """True if a user can answer questions."""
    allow: tuple[str, ...] = ()
    """Rules, `tool(pattern)`, that allow in this session in addition to those of permissions.yaml."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this session, nested by section as in `config.yaml`, overriding files and environment."""
    editor: EditorSide | None = None
    """The editor that the session works in. It is not passed to an engine in a separate process."""
    servers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Further MCP servers, by name, each as `mcp_servers` describes one."""
    after: str = ""
    """The session that a new one replaces, as with `/new`; empty without one."""
    preview: Callable[[Sequence[Node]], None] | None = None
    """A callback that receives the last nodes of a resumed session, before all of it is read."""
