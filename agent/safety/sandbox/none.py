"""No boundary: for systems that offer none, and for those who switched it off."""

from __future__ import annotations

from collections.abc import Sequence

from tools.sandbox import Policy, SandboxName, Wrapped


class NoSandbox:
    """Starts programs as they are."""

    name: SandboxName = "none"
    own_tmp = False

    def wrap(self, argv: Sequence[str], policy: Policy) -> Wrapped:
        return Wrapped(argv=list(argv), terminal=policy.terminal)
