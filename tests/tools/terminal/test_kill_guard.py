"""Nothing outlives Hermes, however it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.terminal.conftest import Task, processes_with, until, until_now
from tools.terminal.process_tree import kill, relatives

HOST = """
import asyncio, sys
from pathlib import Path
from tests.tools.terminal.conftest import Task
from tools.terminal.terminals import Terminals

async def main():
    task = Task(Path(sys.argv[1]), Terminals())
    await task.run("setsid sleep 5555.5 & (sleep 5555.5 &); true")
    await task.run("trap '' TERM HUP; sleep 5555.5", background=True)
    await task.run("sleep 5555.5", background=True, pty=True)
    print("started", flush=True)
    await task.run("sleep 5555.5; sleep 5555.5")

asyncio.run(main())
"""


@pytest.mark.thorough
def test_when_hermes_is_killed_the_hard_way_nothing_survives(tmp_path: Path):
    root = Path(__file__).parents[3]
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, cwd=root, start_new_session=True
    )
    try:
        assert host.stdout is not None and host.stdout.readline() == b"started\n"
        until_now(lambda: len(processes_with("5555.5")) >= 5)
    finally:
        host.kill()
        host.communicate()
    until_now(lambda: not processes_with("5555.5"))
    until_now(lambda: not [pid for pid in processes_with("hermes-guard") if parent(pid) == host.pid])


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


async def test_the_guard_ends_with_the_engine(task: Task):
    await task.run("true")
    (guard,) = [pid for pid in processes_with("hermes-guard") if parent(pid) == os.getpid()]
    await task.context.terminals.aclose()
    assert not Path(f"/proc/{guard}").exists()


async def test_a_killed_guard_is_replaced(task: Task):
    await task.run("true")
    (guard,) = [pid for pid in processes_with("hermes-guard") if parent(pid) == os.getpid()]
    os.kill(guard, signal.SIGKILL)
    await until(lambda: guard not in processes_with("hermes-guard"))
    await task.run("true")
    await task.run("true")
    assert [pid for pid in processes_with("hermes-guard") if parent(pid) == os.getpid()] != []


def test_relatives_are_found_by_session_parentage_and_mark(tmp_path: Path):
    script = (
        "setsid sleep 4444.5 & sleep 4444.5 & env -i setsid -w sleep 4444.5 &"
        " env -i sh -c 'exec sleep 4444.5' & wait"
    )
    shell = subprocess.Popen(
        ["bash", "-c", script], env={**os.environ, "HERMES_CALL": "test.1"}, start_new_session=True
    )
    try:
        until_now(lambda: len(processes_with("sleep\x004444.5")) >= 4)
        found = {relative.pid for relative in relatives(shell.pid, "test.1")}
        assert set(processes_with("sleep\x004444.5")) <= found
        assert shell.pid in found and os.getpid() not in found
        assert relatives(shell.pid, "test.1")[0].name == "bash"
    finally:
        kill(shell.pid, "test.1")
        shell.wait()
    assert processes_with("4444.5") == []
    assert relatives(shell.pid, "test.1") == []


def test_a_mark_is_compared_whole():
    sleeper = subprocess.Popen(["sleep", "4445.5"], env={"HERMES_CALL": "test.12"})
    try:
        until_now(lambda: processes_with("4445.5"))
        assert relatives(1 << 30, "test.1") == []
        assert [one.pid for one in relatives(1 << 30, "test.12")] == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()
