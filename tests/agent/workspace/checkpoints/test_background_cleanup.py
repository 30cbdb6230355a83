"""The store is brought under its limits in the background."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agent.core.config.schema import CheckpointSettings
from agent.workspace.checkpoints import garbage_collection
from agent.workspace.checkpoints.garbage_collection import keep_tidy
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import write

SETTINGS = CheckpointSettings.model_construct()


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_no_session_needs_is_cleared_while_another_goes_on(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    write(store, "file", b"gone", session="dead", created=1.0)
    write(store, "file", b"here", session="alive", created=4e9)
    for path in store.folder.rglob("*"):
        os.utime(path, (1, 1))
    task = asyncio.create_task(keep_tidy(store, SETTINGS, {"alive"}, first=0.0))
    await until(lambda: len(list(store.objects.names())) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert store.sessions() == ("alive",)


async def test_a_store_that_cannot_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    write(store, "file", b"x", session="s")
    path = store.lines / "s.log"
    whole = path.read_bytes()
    path.write_bytes(b"not a line of steps\n")
    monkeypatch.setattr(garbage_collection, "BUSY_SECONDS", 0.0)
    task = asyncio.create_task(keep_tidy(store, SETTINGS, set(), first=0.0))
    await until(lambda: "could not be cleared" in caplog.text)
    path.write_bytes(whole)
    os.utime(path, (1, 1))
    await until(lambda: not path.exists())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
