"""The `hermes` command as a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hermes_launcher import run_and_exit; run_and_exit()"
)
HERMES = [sys.executable, "-I", "-c", START]
"""The command; a test gets a fork of one that was started (`tests.support.forks`)."""
STARTED = [*HERMES[:-1], f"{START}  # started"]
"""The command with the start of its own interpreter, for tests of that."""


def environment(home: Path, base_url: str = "", **more: str) -> dict[str, str]:
    """A clean environment: nothing of the person who runs the tests leaks in."""
    kept = {
        name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in os.environ
    }
    environ = {**kept, "HOME": str(home.parent), "HERMES_HOME": str(home), "TERM": "dumb"}
    if base_url:
        environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "test-key", "HERMES_MODEL": "scripted"}
    return environ | more


def run(*arguments: str, env: dict[str, str], cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `hermes` to its end, in a process of its own."""
    given = stdin.encode("utf-8", "surrogateescape")
    done = subprocess.run(
        [*HERMES, *arguments], input=given, capture_output=True, cwd=cwd, env=env, timeout=100, check=False
    )
    out, err = (each.decode().replace("\r\n", "\n") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess([*arguments], done.returncode, out, err)


def events(output: str) -> list[dict[str, Any]]:
    """The events of a `--json` run; a last line that was cut off is left out."""
    lines = output.split("\n")[:-1]
    return [json.loads(line) for line in lines]
