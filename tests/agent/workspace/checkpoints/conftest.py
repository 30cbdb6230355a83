"""A workspace with recorders in it."""

from __future__ import annotations

import asyncio
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.workspace.checkpoints import file_register
from agent.workspace.checkpoints.entries import Step
from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.store import CheckpointStore
from tools.services.actions import RunCommand

LIMITS = CaptureLimits(file=1_000_000, beforehand=10_000_000)
Open = Callable[..., StepRecorder]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
async def opened(
    tmp_path: Path, root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens recorders, each at its own session if wanted, and closes them.

    In half of the tests they look as in a large workspace, only where something happened.
    """
    recorders: list[StepRecorder] = []
    is_large = bool(zlib.crc32(request.node.nodeid.encode()) & 1)
    monkeypatch.setattr(file_register, "WATCHED", 0 if is_large else file_register.WATCHED)

    def make(
        limits: CaptureLimits = LIMITS, troubles: list[str] | None = None, line: str = "session"
    ) -> StepRecorder:
        store = CheckpointStore(tmp_path / "home" / "checkpoints")
        told = troubles if troubles is not None else []
        recorders.append(StepRecorder(store, line, root, limits, told.append))
        recorders[-1].links_stay = is_large
        return recorders[-1]

    yield make
    for recorder in recorders:
        await recorder.stop()


async def command(recorder: StepRecorder, text: str, call: str = "c1") -> Step | None:
    """Run a shell command as a call of the agent would."""
    async with recorder.during(call, f"terminal {text}", "session") as recording:
        await recorder.acting(call, RunCommand(tool="terminal", command=text, cwd=recorder.root))
        await asyncio.to_thread(subprocess.run, ["sh", "-c", text], cwd=recorder.root, check=False)
    return recording.step
