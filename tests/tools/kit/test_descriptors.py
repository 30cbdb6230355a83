"""Waiting for descriptors."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.command import ROOT
from tools.kit.descriptors import wait_until_ready

MANY = """
import os, resource
from tools.kit.descriptors import wait_until_ready
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_100)]
given, taken = os.pipe()
print(given > 1_023, wait_until_ready(given, seconds=0), wait_until_ready(taken, writes=True))
os.write(taken, b"x")
print(wait_until_ready(given))
"""


def test_descriptors_of_high_numbers_are_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert (done.stdout, done.stderr) == ("True False True\nTrue\n", "")


def test_the_end_of_the_other_side_counts_as_something_to_read() -> None:
    given, taken = os.pipe()
    os.close(taken)
    assert wait_until_ready(given)
    assert os.read(given, 1) == b""
    os.close(given)
