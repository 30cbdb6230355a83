"""Jobs in fast time: processes race and are killed, the clock jumps, due times are told by other means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.thorough import thoroughly

PROGRAM = Path(__file__).parents[4] / "benchmarks" / "schedule_year.py"
LIGHT = "--jobs 36 --days 8 --month 11 --processes 3 --kills 4 --jumps 3"
"""The clocks of New York go back in these days."""


@pytest.mark.parametrize("size", [LIGHT, *thoroughly("--jobs 200 --days 366 --processes 8 --kills 50")])
def test_each_due_time_is_run_once_or_by_its_policy(size: str) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), *size.split()], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0 and "\n0 wrong" in ended.stdout, ended.stdout + ended.stderr
