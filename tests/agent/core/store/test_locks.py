from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.core.store.locks import SessionLock
from agent.errors import StoreError

HOLD = (
    "import sys, time; from pathlib import Path; from agent.core.store.locks import SessionLock\n"
    "lock = SessionLock(Path(sys.argv[1]), 's'); assert lock.acquire()\n"
    "print('held', flush=True); time.sleep(60)"
)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    one, two = SessionLock(tmp_path / "run", "s"), SessionLock(tmp_path / "run", "s")
    assert one.acquire()
    assert one.acquire()
    assert not two.acquire()
    assert two.holder() == os.getpid()
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.path.parent.stat().st_mode) == 0o700
    one.release()
    one.release()
    assert not one.path.exists()
    assert two.acquire()
    two.release()


def test_sessions_do_not_block_each_other(tmp_path: Path) -> None:
    with SessionLock(tmp_path, "one"), SessionLock(tmp_path, "two"):
        assert len(list(tmp_path.iterdir())) == 2


def test_a_living_process_keeps_others_out_and_a_killed_one_does_not(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    lock = SessionLock(tmp_path, "s")
    assert lock.is_held() and not lock.acquire()
    with pytest.raises(StoreError, match=f"in use by process {child.pid}"), lock:
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not lock.is_held()
    with lock:
        assert lock.holder() == os.getpid()


@pytest.mark.parametrize("name", ["", "../x", "a\0b"])
def test_a_session_id_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="slashes"):
        SessionLock(tmp_path, name)


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Cannot use"):
        SessionLock(tmp_path / "file", "s").acquire()
