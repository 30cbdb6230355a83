"""Gates for tests of rules and modes, without a home of Hermes to guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.core.messages import ModeName
from agent.safety.gate import Approver, Gate
from agent.safety.grants import Grants
from agent.safety.permissions.policy import AgentFolders, Decider
from agent.safety.places import Places
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage


def plain_gate(
    workspace: Path,
    mode: ModeName = "ask",
    approver: Approver | None = None,
    *,
    home: Path | None = None,
    grants: Grants | None = None,
    coverage: BoundaryCoverage = NO_COVERAGE,
    **hears: Any,
) -> Gate:
    """Return a gate for `workspace`; `home` is that of the person, `hears` are `audit` and `adviser`."""
    user = home or Path.home()
    places = Places(home=str(user), other_homes=(str(user.resolve()),))
    decider = Decider(
        AgentFolders(workspace), places, mode=mode, chosen=None, permissions=None, coverage=coverage
    )
    return Gate(decider, grants or Grants(workspace), approver, **hears)
