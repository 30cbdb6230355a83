from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def explain(tmp_path: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environ = os.environ | {"HERMES_HOME": str(tmp_path / "own"), "PYTHONPATH": str(ROOT)}
    (tmp_path / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "app.main", "permissions", "explain", *arguments],
        cwd=tmp_path / "work",
        env=environ,
        input=given,
        capture_output=True,
        timeout=200,
        check=False,
    )


def test_each_line_of_stdin_gets_one_line_of_json(tmp_path: Path) -> None:
    lines = [
        b"git status",
        b'"cat <<X\\nrm -rf /\\nX"',
        b"rm -rf /",
        b"",
        b"\xff",
        b'"not closed',
        b"rm -rf src",
    ]
    done = explain(tmp_path, "--json", "--stdin", given=b"\n".join(lines) + b"\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and done.stderr == b""
    verdicts = [each["verdict"] for each in found]
    # What is not shell passes where there is a boundary.
    assert verdicts[:5] + verdicts[6:] == ["allow", "allow", "hardline", "ask", "ask", "allow"]
    assert found[1]["command"] == "cat <<X\nrm -rf /\nX"
    assert all(set(each) == {"command", "verdict", "reasons", "parts"} for each in found)
    assert all(each["reasons"] for each in found if each["verdict"] != "allow")


@pytest.mark.thorough
def test_one_command_is_explained_in_words(tmp_path: Path) -> None:
    done = explain(tmp_path, "--", "ls && rm -rf ../src")
    assert done.returncode == 0
    assert b"outside of the workspace" in done.stdout
    assert not (tmp_path / "work" / "src").exists()


def test_nothing_to_explain_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    done = explain(tmp_path, "--json")
    assert done.returncode != 0
    assert done.stderr.count(b"\n") == 1 and b"--stdin" in done.stderr
