"""The files that cost the most are named at the end of a run, with what the programs they start cost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = ("-p", "xdist", "-p", "tests.support.dearest")
WORK = """
import subprocess, sys, time

WORK = "import time; end = time.process_time() + 0.4\\nwhile time.process_time() < end: pass"

"""
FILES = {
    "test_child.py": f"{WORK}def test_child(): subprocess.run([sys.executable, '-Ic', WORK], check=True)",
    "test_waiting.py": f"{WORK}def test_waiting(): time.sleep(1)",
    "test_work.py": f"{WORK}def test_work(): exec(WORK)",
}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_dearest_files_are_named_by_work_and_not_by_waiting(tmp_path: Path, workers: int) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", str(workers), "--dearest", "3", *PLUGINS],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    named = re.findall(r"^ +([\d.]+) s (.+)$", ended.stdout, re.MULTILINE)
    costs = {name: float(seconds) for seconds, name in named}
    assert costs.keys() == {"test_child.py", "test_work.py", "reading and collecting the tests"}
    assert min(costs["test_child.py"], costs["test_work.py"]) >= 0.35
    assert len(re.findall(r"^=+ dearest of \d+ s of work =+$", ended.stdout, re.MULTILINE)) == 1
