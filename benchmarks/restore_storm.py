"""`kill -9` at random moments of recording, restoring and clearing, and a person who edits meanwhile.

python benchmarks/restore_storm.py [--kills 200] [--edits 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.restore_storm import (
    LIMIT,
    Typed,
    act,
    change,
    edited_during_commands,
    fill,
    kill_once,
    typed_during_restore,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad = kills(args.kills, args.seed) + asyncio.run(edits(args.edits, args.seed))
    for problem in bad[:20]:
        print(problem)
    return 1 if bad else 0


def kills(count: int, seed: int) -> list[str]:
    chance, began = random.Random(seed), time.monotonic()
    bad: list[str] = []
    finished = 0
    for place in range(0, count, 20):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name).resolve() / "work"
            root.mkdir()
            fill(root)
            for number in range(place, min(place + 20, count)):
                kill = kill_once(root, Path(name) / "store", seed + number * 1000, chance.uniform(0, 0.8))
                finished += kill.finished
                bad += [f"kill {number}: {problem}" for problem in kill.problems]
    print(f"{count} kills in {time.monotonic() - began:.0f} s: {finished} restores were finished afterwards")
    print(f"things that were not as they should be: {len(bad)}")
    return bad


async def edits(count: int, seed: int) -> list[str]:
    """Until `count` edits fell into restores, and as many into commands."""
    bad: list[str] = []
    during = {"restores": 0, "commands": 0}
    while min(during.values()) < count:
        seed += 1
        with tempfile.TemporaryDirectory() as name:
            in_restores = during["restores"] < count
            typed = await one_round(Path(name), seed, in_restores=in_restores)
            during["restores" if in_restores else "commands"] += typed.written
            bad += [f"seed {seed}: lost {text!r}" for text in typed.lost]
    for where, number in during.items():
        print(f"{number} edits during {where}")
    print(f"words of the person that were lost: {len(bad)}")
    return bad


async def one_round(folder: Path, seed: int, *, in_restores: bool) -> Typed:
    root = (folder / "work").resolve()
    root.mkdir()
    store = CheckpointStore(folder / "store")
    recorder = StepRecorder(store, "session", root, CaptureLimits(LIMIT, LIMIT), print)
    if in_restores:
        fill(root)
    recorder.start()
    await recorder.ready()
    if in_restores:
        await act(recorder, lambda: change(root, seed))
        typed = typed_during_restore(root, store, seed)
    else:
        typed = await edited_during_commands(recorder, 20, seed)
    await recorder.stop()
    return typed


if __name__ == "__main__":
    sys.exit(main())
