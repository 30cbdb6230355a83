"""No boundary: for systems that offer none, and for those who switched it off."""

from __future__ import annotations

from collections.abc import Sequence

from tools.services.sandbox import SandboxName, SandboxPolicy, Wrapped


class NoSandbox:
    """Starts programs as they are."""

    name: SandboxName = "none"
    has_mounts = False
    lays_read_only = False

    def wrap(self, argv: Sequence[str], policy: SandboxPolicy) -> Wrapped:
        return Wrapped(argv=list(argv), terminal=policy.terminal)
