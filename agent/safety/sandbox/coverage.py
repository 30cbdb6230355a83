"""Facts about the boundary that a decision can count on: what it keeps from commands and scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.sandbox import SandboxName

NetworkReach = Literal["open", "filtered", "closed"]
"""`open`: every host, and nothing asks. `filtered`: listed hosts; each other one asks a person, whatever
was decided about the command. `closed`: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryCoverage:
    """What one boundary holds for programs that run inside it."""

    level: SandboxName = "none"
    network: NetworkReach = "open"
    writable: tuple[Path, ...] = ()
    """Folders that programs can change; all else is read-only. Without a boundary it says nothing."""
    read_only: tuple[Path, ...] = ()
    """Guarded places inside `writable` that programs cannot change or make."""
    guards_places: bool = False
    """Whether guarded places are read-only to programs: Landlock without mounts cannot do that."""

    @property
    def is_closed(self) -> bool:
        """Whether what a program does stays in `writable`, leaves guarded places alone and asks for hosts."""
        return self.level != "none" and self.guards_places and self.network != "open"


NO_COVERAGE = BoundaryCoverage()
"""No boundary, or commands that run on another machine."""
