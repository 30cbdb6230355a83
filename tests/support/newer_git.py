"""A git that knows tables for refs: the machine's own, or the one whose `bin` folder HERMES_TEST_GIT names.

    make test-newer-git GIT=/place/of/git/bin

Build it from the public source with a prefix outside of /tmp, which commands have one of their own of.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_FOLDER = os.environ.get("HERMES_TEST_GIT", "")
_KNOWS = (2, 45)


def _version(program: str | None) -> tuple[int, ...]:
    if program is None:
        return ()
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", told)[:2]))


def newer_path() -> str:
    """`PATH` with that git first. Skips the test where there is none."""
    path = os.pathsep.join(filter(None, (_FOLDER, os.environ["PATH"])))
    if _version(shutil.which("git", path=path)) < _KNOWS:
        pytest.skip("refs in tables need git 2.45; see tests/support/newer_git.py")
    return path


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this test, and what Hermes reads repositories with, use it. Skips where there is none."""
    path = newer_path()
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr("agent.workspace.git.SYSTEM_PATH", path)


def folder() -> Path:
    """Where it lies."""
    return Path(str(shutil.which("git", path=newer_path()))).parent
