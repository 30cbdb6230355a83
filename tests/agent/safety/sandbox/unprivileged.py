"""The attempts of `attempts.py`, made under an ordinary user; prints what passed as JSON by boundary.

Run with two folders: one that holds `agent`, `tools` and these tests, and one to work in.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from agent.safety.sandbox.filtered import nsenter_path
from tests.agent.safety.sandbox.attempts import CALLS, READS, WRITES
from tests.agent.safety.sandbox.cell import Cell, picture
from tests.agent.safety.sandbox.filtering import gets_through
from tests.agent.safety.sandbox.kinds import KINDS


class _Environment:
    def setenv(self, name: str, value: str) -> None:
        os.environ[name] = value


def main() -> None:
    passed: dict[str, list[str]] = {}
    for kind, sandbox in KINDS.items():
        cell = Cell(sandbox, Path(sys.argv[2]) / kind, _Environment())
        names = {"out": cell.outside, "ws": cell.workspace, "user": cell.user, "pid": os.getpid()}
        passed[kind] = []
        before = picture(cell)
        with cell.prisoner() as attempt:
            for language, attempts in (("shell", WRITES | READS), ("python", CALLS)):
                for name, text in attempts.items():
                    output = attempt(language, text.format(**names)).output
                    if picture(cell) != before or "PRIVATE KEY" in output or output == "passed":
                        passed[kind].append(name)
            if attempt("shell", "echo x > ../own && cat ../own").output != "x\n":
                passed[kind].append("no work")
    if "bubblewrap" in KINDS and nsenter_path() is not None:
        cell = Cell(KINDS["bubblewrap"], Path(sys.argv[2]) / "filtered", _Environment())
        passed["filtered"] = gets_through(cell)
    print(json.dumps(passed))


main()
