"""A few kills and edits at random moments; `benchmarks/restore_storm.py` makes hundreds."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.restore_storm import LIMIT, act, change, fill, kill_once, typed_during_restore
from tests.support.thorough import thoroughly


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments", ["2 7 git database", *thoroughly(*(f"20 {seed}" for seed in range(1000, 1300, 20)))]
)
def test_repositories_and_databases_are_wholly_before_or_wholly_after_a_kill(
    arguments: str, tmp_path: Path
) -> None:
    count, seed, *kinds = arguments.split()
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.unit_storm", count, seed, str(tmp_path), *kinds],
        cwd=Path(__file__).parents[4],
        stdout=subprocess.PIPE,
        check=False,
    )
    assert json.loads(done.stdout) == {"kills": int(count), "problems": []}
