"""The guard of the terminal: what it prints after a kill, for whom it stays silent, and when it ends."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from app.tui.terminal.tty_modes import start_guard
from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, signal, subprocess, sys
from app.tui.terminal.tty_modes import start_guard
guard = start_guard(1)
guard.stdin.write(b"put back\\n")
guard.stdin.flush()
print(f"guard {guard.pid}.", flush=True)
sys.stdin.readline()
"""
TO_ANOTHER = """
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
other = subprocess.Popen(["sleep", "60"], process_group=0)
os.tcsetpgrp(0, other.pid)
print(f"other {other.pid}.", flush=True)
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


class OwnTerminal:
    """A program that a shell runs on the terminal that controls both.

    The shell remains: the kernel takes the terminal from everybody when the first process of a session ends.
    """

    def __init__(self, script: str) -> None:
        self.outer, inner = os.openpty()
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", '"$@"; echo over; sleep 60', "sh", sys.executable, "-c", script],
            cwd=ROOT,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)
        self.painted = ""

    def until(self, text: str) -> None:
        while text not in self.painted:
            assert select.select([self.outer], [], [], PATIENCE)[0], self.painted
            self.painted += os.read(self.outer, 1 << 16).decode()

    def number(self, name: str) -> int:
        self.until(".")
        return int(self.painted.partition(f"{name} ")[2].partition(".")[0])

    def rest(self) -> str:
        """What was printed until now."""
        os.set_blocking(self.outer, False)
        try:
            while piece := os.read(self.outer, 1 << 16):
                self.painted += piece.decode()
        except BlockingIOError:
            pass
        return self.painted

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.outer)


def lives(pid: int) -> bool:
    """True if a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while lives(pid):
        assert time.monotonic() < end, f"{pid} still runs"
        time.sleep(0.02)


def test_a_killed_program_has_its_terminal_put_back() -> None:
    terminal = OwnTerminal(PROGRAM + KILL)
    try:
        guard = terminal.number("guard")
        os.write(terminal.outer, b"\n")
        terminal.until("put back")
        wait_for_end(guard)
    finally:
        terminal.close()


def test_a_terminal_that_another_program_uses_by_then_gets_nothing() -> None:
    terminal = OwnTerminal(PROGRAM + TO_ANOTHER + KILL)
    other = 0
    try:
        guard = terminal.number("guard")
        os.write(terminal.outer, b"\n")
        terminal.until("other ")
        other = terminal.number("other")
        terminal.until("over")
        wait_for_end(guard)
        assert "put back" not in terminal.rest()
    finally:
        terminal.close()
        if other:
            os.kill(other, signal.SIGKILL)


def test_on_a_terminal_that_reads_nothing_the_guard_still_ends() -> None:
    fill = "os.set_blocking(1, False)\ntry:\n    while os.write(1, b'x' * 512): pass\nexcept OSError: pass\n"
    terminal = OwnTerminal(PROGRAM + fill + "os.set_blocking(1, True)\n" + KILL)
    try:
        guard = terminal.number("guard")
        os.write(terminal.outer, b"\n")
        wait_for_end(guard)
    finally:
        terminal.close()


def test_without_a_terminal_there_is_no_guard(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as file:
        assert start_guard(file.fileno()) is None


@pytest.mark.parametrize("way", ["leave", "hang up"])
def test_the_guard_knows_no_secret_and_ends_with_the_terminal_or_the_program(
    way: str, tmp_path: Path
) -> None:
    env = environment(tmp_path / "home", OPENROUTER_API_KEY="sk-of-a-test")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        children = Path(f"/proc/{shown.process.pid}/task/{shown.process.pid}")
        guard: list[int] = []

        def has_guard() -> bool:
            for task in children.parent.glob("*/children"):
                for pid in task.read_text().split():
                    if b"stty sane" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        guard.append(int(pid))
            return bool(guard)

        shown.until(has_guard)
        variables = Path(f"/proc/{guard[0]}/environ").read_bytes()
        assert [each.partition(b"=")[0] for each in variables.split(b"\0") if each] == [b"PATH"]
        if way == "leave":
            shown.press("/quit\r")
            shown.drain()
        else:
            os.close(shown.fd)
            shown.fd = os.open(os.devnull, os.O_RDONLY)
        wait_for_end(guard[0])
