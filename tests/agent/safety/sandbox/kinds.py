"""The boundaries this machine can draw; tests run against each of them."""

from __future__ import annotations

import shutil

from agent.safety.sandbox.landlock import SCOPES_SINCE, Landlock, landlock_version
from agent.safety.sandbox.opening import Bubblewrap, is_effective
from tools.services.sandbox import Sandbox


def _present() -> dict[str, Sandbox]:
    kinds: dict[str, Sandbox] = {}
    if program := shutil.which("bwrap"):
        kinds["bubblewrap"] = Bubblewrap(program)
    if landlock_version() >= 1:
        kinds["landlock"] = Landlock(spaces=True)
    if landlock_version() >= SCOPES_SINCE:
        kinds["landlock-alone"] = Landlock(spaces=False)
    return {name: sandbox for name, sandbox in kinds.items() if is_effective(sandbox)}


KINDS = _present()
"""By a name for test ids. `landlock-alone` is what remains where namespaces are forbidden."""

WITH_NAMESPACES = {name: sandbox for name, sandbox in KINDS.items() if name != "landlock-alone"}
