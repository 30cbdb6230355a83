"""The confinement of a command by the operating system, as far as the gate counts on it."""

from __future__ import annotations

from agent.safety.sandbox.coverage import NO_COVERAGE, BoundaryCoverage, NetworkReach
from tools.sandbox import NetworkMode, SandboxName

_REACH: dict[NetworkMode, NetworkReach] = {
    "on": "open",
    "filtered": "filtered",
    "ask": "closed",
    "off": "closed",
}


def confinement(sandbox: SandboxName, network: NetworkMode, *, elsewhere: bool = False) -> BoundaryCoverage:
    """What holds for commands in a sandbox; `elsewhere` are commands on another machine or in a container."""
    if sandbox == "none" or elsewhere:
        return NO_COVERAGE
    return BoundaryCoverage(level=sandbox, network=_REACH[network], guards_places=sandbox == "bubblewrap")
