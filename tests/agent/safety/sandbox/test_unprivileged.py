"""The boundary under an ordinary user. These tests exist where root can become one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from agent.safety.sandbox.filtered import nsenter_path
from tests.agent.safety.sandbox.kinds import KINDS

ROOT = Path(__file__).parents[4]
NOBODY = 65534
SYSTEM = shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""

if os.geteuid() == 0 and SYSTEM:

    def test_an_ordinary_user_does_not_get_out_either():
        with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hermes-code-") as made:
            code, work = Path(made, "code"), Path(made, "work")
            Path(made).chmod(0o755)
            work.mkdir()
            os.chown(work, NOBODY, NOBODY)
            leave = shutil.ignore_patterns("__pycache__")
            for part in ("agent", "tools", "tests/agent/safety/sandbox", "tests/agent/core/net"):
                shutil.copytree(ROOT / part, code / part, ignore=leave)
            subprocess.run(["chmod", "-R", "a+rX", code], check=True)
            done = subprocess.run(
                [SYSTEM, "-I", "-B", str(code / "tests/agent/safety/sandbox/unprivileged.py"), code, work],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                cwd=work,
                env={"HOME": str(work), "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                timeout=200,
            )
        assert done.returncode == 0, done.stderr
        expected: dict[str, list[str]] = {kind: [] for kind in KINDS}
        if "bubblewrap" in KINDS and nsenter_path() is not None:
            expected["filtered"] = ["yes200", "no403", "inside", "outside"]
        assert json.loads(done.stdout) == expected
