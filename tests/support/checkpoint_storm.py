"""A child that puts, appends, prunes and collects until it is killed, and what is left afterwards."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.garbage_collection import verify
from agent.workspace.checkpoints.store import CheckpointStore

WORK = """
import itertools, random, sys, time
from pathlib import Path
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.garbage_collection import collect
store = CheckpointStore(Path(sys.argv[1]))
chance = random.Random(int(sys.argv[2]))
before = None
print("ready", flush=True)
for number in itertools.count():
    with store.sharing():
        digest = store.objects.add(chance.randbytes(chance.choice([10, 3000, 200_000])))
        if number % 3 == 0:
            store.objects.add(chance.randbytes(500))
        after = PathEntry(PathKind.FILE, 0o644, 1, 1, digest)
        names = 1200 if number % 9 == 8 else 1
        changes = [PathChange(f"file-{name}", before, after) for name in range(names)]
        step = store.line("s").append(
            kind="tool", session="s", call="", label="", root="/", changes=changes, created=time.time()
        )
    before = after
    print(step.number, flush=True)
    if number % 6 == 5:
        # As if it were tomorrow, so that nothing counts as young.
        done = collect(store, max_bytes=1_500_000, max_age=1e9, now=time.time() + 86_400)
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill left."""

    told: int
    """Number of the last step the child had been told of."""
    last: int
    problems: tuple[str, ...]


def kill_once(folder: Path, seed: int, delay: float) -> Kill:
    """Let a child work in the store of `folder`, kill it after `delay` seconds of work, and look."""
    command = [sys.executable, "-c", WORK, str(folder), str(seed)]
    child = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.kill()
        told = [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    store = CheckpointStore(folder)
    report = verify(store)
    line = store.line("s")
    problems = [f"{finding.place}: {finding.sentence}" for finding in report.problems]
    if told and line.last < told[-1]:
        problems.append(f"step {told[-1]} was acknowledged, but the line ends at {line.last}")
    numbers = [step.number for step in line.steps()]
    if numbers != list(range(line.floor + 1, line.last + 1)):
        problems.append(f"steps are missing between {line.floor} and {line.last}")
    return Kill(told[-1] if told else 0, line.last, tuple(problems))


def delays(count: int, seed: int, longest: float = 0.25) -> list[float]:
    """Seconds after which to kill, most of them early."""
    chance = random.Random(seed)
    return [chance.uniform(0, longest) for _ in range(count)]
