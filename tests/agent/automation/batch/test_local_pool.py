"""Workers of this machine: folders of tasks that cannot be made, answers that are none."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.automation.batch import run
from agent.automation.batch.attempt import (
    AssignedTask,
    Conditions,
    ResultFolder,
    WorkspaceNotLaidError,
    lay_workspace,
)
from agent.automation.batch.run import LocalPool, WorkerDiedError
from agent.automation.batch.task import task_of

_SAYS = "import sys; [sys.stdin.readline() for _ in range(2)]; print({line!r}, flush=True); sys.stdin.read()"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "line",
    ["no JSON", "[]", "1", "{}", '{"number": 0}', '{"number": 0, "result": {"key": "a"}}', "[" * 100_000],
)
async def test_a_worker_whose_answer_is_none_is_ended_so_that_its_task_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
):
    """The process lives on after its line, as one does in which a library prints to the wrong place."""
    program = [sys.executable, "-c", _SAYS.format(line=line)]
    monkeypatch.setattr(run, "module_command", lambda _module: program)
    folder = ResultFolder(tmp_path)
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    pool = LocalPool(Conditions(folder=folder, settings={}, environ={}), 1, lock)
    tasks = [AssignedTask(task=task_of({"prompt": name}), name=name, shown=name) for name in ("a", "b")]
    try:
        ended = await asyncio.gather(*map(pool.attempt, tasks), return_exceptions=True)
    finally:
        await pool.aclose()
        os.close(lock)
    told = [str(each) for each in ended if isinstance(each, WorkerDiedError)]
    assert told == ["The worker of this task was killed by SIGKILL."] * 2


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (os.mkfifo, "source/x cannot be copied for the task: "),
        (_socket, "source/x cannot be copied for the task: "),
        (lambda path: path.mkdir(), "The folder of the task cannot be made: "),
        (lambda path: path.parent.rename(path.parent.with_name("away")), "source: No such file"),
    ],
)
def test_a_folder_that_cannot_be_made_is_told_in_one_sentence(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
):
    source = tmp_path / "source"
    source.mkdir()
    spoil(source / "x")
    folder = tmp_path / "work" / "a"
    with pytest.raises(WorkspaceNotLaidError) as told:
        lay_workspace(folder, {"x": "text"}, str(source))
    assert said in str(told.value) and not set("[]()") & set(str(told.value))
    assert not folder.exists()
