"""A few kills and edits at random moments; `benchmarks/restore_storm.py` makes hundreds."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.restore_storm import LIMIT, act, change, fill, kill_once, typed_during_restore


def test_kills_while_recording_restoring_and_clearing_leave_a_tree_that_is_one_or_the_other(
    root: Path, tmp_path: Path
) -> None:
    fill(root)
    chance = random.Random(4)
    for seed in range(4):
        kill = kill_once(root, tmp_path / "home" / "checkpoints", seed * 1000, chance.uniform(0.0, 0.4))
        assert kill.problems == ()


def test_no_word_of_a_person_who_edits_during_a_restore_is_lost(tmp_path: Path) -> None:
    for seed in range(4):
        root = (tmp_path / str(seed)).resolve()
        root.mkdir()
        fill(root)
        store = CheckpointStore(tmp_path / f"store-{seed}")

        async def recorded(root: Path = root, store: CheckpointStore = store, seed: int = seed) -> None:
            recorder = StepRecorder(store, "session", root, CaptureLimits(LIMIT, LIMIT), print)
            recorder.start()
            await recorder.ready()
            await act(recorder, lambda: change(root, seed))
            await recorder.stop()

        asyncio.run(recorded())
        typed = typed_during_restore(root, store, seed)
        assert typed.lost == ()
