"""Another Hermes in the same workspace: draws a boundary around a shell that writes where it should not.

Arguments: kind of sandbox, workspace, private folder. Says `ready` once the shell is at work, which continues
until its input ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from agent.core.home import Home
from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary
from agent.safety.sandbox.landlock import Landlock
from agent.safety.sandbox.opening import Bubblewrap
from tools.services.sandbox import Need

WRITES = """
places='.git/hooks/evil .git/commondir .git/config.worktree .envrc'
try() { for place in $places; do echo evil > $place; done; }
try 2> /dev/null
echo ready
while read -r line; do try; done 2> /dev/null
"""


def main() -> None:
    kind, workspace, private = sys.argv[1:]
    bwrap = shutil.which("bwrap") or ""
    sandbox = Bubblewrap(bwrap) if kind == "bubblewrap" else Landlock(spaces=True)
    boundary = SessionBoundary(
        sandbox, BoundaryFolders(Path(workspace), Path(private), Home(Path(private, "home")))
    )
    wrapped = boundary.wrap(["/bin/bash", "-c", WRITES], Need(dies_with_parent=True))
    shell = subprocess.Popen(
        wrapped.argv, cwd=workspace, pass_fds=wrapped.fds, start_new_session=True, env=dict(wrapped.env)
    )
    wrapped.started()
    shell.wait()
    wrapped.ended()


if __name__ == "__main__":
    main()
