"""Tests of `tools.kit.process_exit`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import ROOT

PROGRAM = """
import atexit, sys, tempfile, threading, time, weakref
sys.path.insert(0, sys.argv[1])
from tools.kit.process_exit import exit_process
class Left:
    def __del__(self): print("taken apart")
left = Left()
work = tempfile.TemporaryDirectory(dir=sys.argv[2])
atexit.register(print, "handler")
def slow():
    time.sleep(0.2)
    print("thread")
threading.Thread(target=slow).start()
print("main", end=" ")
exit_process(int(sys.argv[3]))
"""


def ended(folder: Path, code: int, *flags: str, **streams: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", PROGRAM, str(ROOT), str(folder), str(code)]
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {}} | streams
    return subprocess.run(command, text=True, timeout=60, check=False, **given)


@pytest.mark.parametrize("code", [0, 3])
def test_threads_and_exit_handlers_end_as_usual_but_no_module_is_taken_apart(
    tmp_path: Path, code: int
) -> None:
    done = ended(tmp_path, code)
    assert (done.returncode, done.stdout, done.stderr) == (code, "main thread\nhandler\n", "")
    assert list(tmp_path.iterdir()) == []


def test_in_development_mode_python_ends_and_warns_as_it_does(tmp_path: Path) -> None:
    done = ended(tmp_path, 3, "-X", "dev")
    assert done.returncode == 3 and done.stdout.startswith("main thread\nhandler\n")
    assert "taken apart" in done.stdout and "ResourceWarning" in done.stderr


def test_output_that_nobody_reads_does_not_change_the_code(tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = ended(tmp_path, 3, stdout=full.fileno())
    assert (done.returncode, done.stderr) == (3, "")


def test_the_last_words_reach_a_terminal_that_the_end_of_the_process_closes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(ROOT), str(tmp_path), "3"]
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, command, {})
    said = b""
    with suppress(OSError):  # the terminal is closed
        while data := os.read(terminal, 1000):
            said += data
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert said.split() == [b"main", b"thread", b"handler"]
