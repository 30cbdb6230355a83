"""Findings: what another agent has that can be taken over. Nothing here touches the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.core.store.importing import SessionRecord
from agent.safety.permissions.rules import RuleVerdict

Part = Literal["sessions", "memory", "skills", "servers", "permissions"]
PARTS: tuple[Part, ...] = ("sessions", "memory", "skills", "servers", "permissions")


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session that can be read."""

    id: str
    """Its id here, the same each time, so that it is taken over once."""
    title: str
    workspace: str
    updated: float
    """Seconds since the epoch."""
    read: Callable[[], SessionRecord | None]
    """Reads all of it; None when nothing was said in it. Blocks; raises `OSError` or `ValueError`."""


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """Something that is remembered or told in every session."""

    scope: Literal["user", "memory", "project"]
    text: str
    source: Path
    project: str = ""
    """The folder of the project it belongs to; empty unless `scope` is `project`."""


@dataclass(frozen=True, slots=True)
class ForeignRule:
    """A rule about what may be done, in our form."""

    rule: str
    verdict: RuleVerdict
    original: str
    """As the other agent writes it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was found of one agent."""

    agent: str
    root: Path
    sessions: tuple[ForeignSession, ...] = ()
    notes: tuple[ForeignNote, ...] = ()
    skills: tuple[Path, ...] = ()
    """Folders with a SKILL.md."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """MCP servers by name, as `mcp_servers` takes them."""
    rules: tuple[ForeignRule, ...] = ()
    left_out: tuple[str, ...] = ()
    """What cannot be taken over, and why; a sentence each."""

    def count(self, part: Part) -> int:
        """How many things of a kind there are."""
        found = {
            "sessions": self.sessions,
            "memory": self.notes,
            "skills": self.skills,
            "servers": self.servers,
            "permissions": self.rules,
        }
        return len(found[part])
