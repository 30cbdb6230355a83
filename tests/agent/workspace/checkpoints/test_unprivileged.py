"""Files that an ordinary user cannot read or write. These tests exist where root can become one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[4]
NOBODY = 65534
SYSTEM = shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""

if os.geteuid() == 0 and SYSTEM:

    def test_what_cannot_be_read_is_named_beforehand_and_read_only_folders_are_restored():
        with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hermes-code-") as made:
            code, work = Path(made, "code"), Path(made, "work")
            Path(made).chmod(0o755)
            work.mkdir()
            os.chown(work, NOBODY, NOBODY)
            leave = shutil.ignore_patterns("__pycache__")
            for part in ("agent", "tools", "tests/agent/workspace/checkpoints"):
                shutil.copytree(ROOT / part, code / part, ignore=leave)
            subprocess.run(["chmod", "-R", "a+rX", code], check=True)
            script = code / "tests/agent/workspace/checkpoints/unprivileged.py"
            done = subprocess.run(
                [SYSTEM, "-I", "-B", str(script), code, work],
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
        assert json.loads(done.stdout) == {
            "beforehand": ["closed", "listed-only/file", "shut"],
            "changed": [
                ".",
                "closed",
                "new",
                "new/file",
                "plain",
                "readonly",
                "readonly/file",
                "readonly/made",
            ],
            "skipped": ["closed", "plain"],
            "readonly": "0o555",
            "workspace": "0o755",
            "file": "old",
            "there": ["listed-only", "plain", "readonly", "shut"],
        }
