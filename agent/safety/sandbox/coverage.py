"""Facts about the boundary that a decision can count on: what it keeps from commands and scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.services.sandbox import NetworkMode, Sandbox, SandboxName

NetworkReach = Literal["open", "filtered", "closed"]
"""`open`: every host, and nothing asks. `filtered`: listed hosts; each other one asks a person, whatever
was decided about the command. `closed`: none."""
_REACH: dict[NetworkMode, NetworkReach] = {
    "on": "open",
    "filtered": "filtered",
    "ask": "closed",
    "off": "closed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryCoverage:
    """What one boundary holds for programs that run inside it."""

    level: SandboxName = "none"
    network: NetworkReach = "open"
    guards_places: bool = False
    """Whether programs change no guarded place: those that stand are read-only, others are taken back."""

    @property
    def is_closed(self) -> bool:
        """Whether a program stays in the workspace, leaves guarded places alone and asks for hosts."""
        return self.level != "none" and self.guards_places and self.network != "open"


NO_COVERAGE = BoundaryCoverage()
"""No boundary, or commands that run on another machine."""


def coverage_of(sandbox: Sandbox, network: NetworkMode, *, steps: bool) -> BoundaryCoverage:
    """What `sandbox` holds; `steps` tells whether steps are kept, without which nothing is taken back.

    Landlock by itself cannot take a part out of what is writable.
    """
    if sandbox.name == "none":
        return NO_COVERAGE
    return BoundaryCoverage(
        level=sandbox.name, network=_REACH[network], guards_places=sandbox.lays_read_only and steps
    )
