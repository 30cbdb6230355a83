"""What it costs to find out what a command changed, to begin in a workspace, and to take things back.

python benchmarks/checkpoint_sweep.py [--files 10000] [--rounds 7] [--large 50000]

Each figure stands beside its baseline of the same run: a bare walk with one `stat`
for each path (the floor of any sweep), or `git add -A` into an empty store.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.plan import plan_restore
from agent.workspace.checkpoints.store import CheckpointStore
from benchmarks.checkpoint_store import make_tree
from tools.services.actions import RunCommand

LIMITS = CaptureLimits(100_000_000, 1_000_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", type=int, default=50_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        asyncio.run(changes(place / "a", args.files, args.rounds))
        asyncio.run(beginning(place / "b", args.files, args.rounds))
        asyncio.run(back(place / "c", 1_500, 1_000, "undo of 1,000 files"))
        asyncio.run(back(place / "d", args.large, 100, f"switch over {args.large:,} files, 100 differing"))
    return 0


def floor(root: Path) -> float:
    """Seconds of one walk that looks at every path."""
    began = time.perf_counter()
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return time.perf_counter() - began


async def opened(place: Path, root: Path, number: int = 0) -> StepRecorder:
    recorder = StepRecorder(CheckpointStore(place / f"store{number}"), "bench", root, LIMITS, print)
    recorder.start()
    return recorder


async def changes(place: Path, count: int, rounds: int) -> None:
    root = place / "tree"
    make_tree(root, count)
    recorder = await opened(place, root)
    await recorder.ready()
    await asyncio.sleep(0.1)
    looks: list[float] = []
    floors: list[float] = []
    chance = random.Random(3)
    for number in range(rounds):
        floors.append(floor(root))
        async with recorder.during(f"c{number}", "terminal", "bench"):
            await recorder.acting(f"c{number}", RunCommand(tool="terminal", command="x", cwd=root))
            for at in chance.sample(range(count), 5):
                with (root / f"d{at // 500}" / f"f{at}.py").open("a") as file:
                    file.write(f"# {number}\n")
            await asyncio.sleep(0.06)
            began = time.perf_counter()
        looks.append(time.perf_counter() - began)
    await recorder.stop()
    told("change set of a command", count, looks, floors, "the sweep floor", "≤ 1.3")


async def beginning(place: Path, count: int, rounds: int) -> None:
    root = place / "tree"
    make_tree(root, count)
    await asyncio.sleep(0.1)
    commit(root)
    adding: list[float] = []
    seeing: list[float] = []
    keeping: list[float] = []
    for number in range(max(3, rounds // 2)):
        adding.append(added(root, place / f"empty{number}"))
        began = time.perf_counter()
        recorder = await opened(place, root, number)
        await recorder._surveyed.wait()
        seeing.append(time.perf_counter() - began)
        left = [item.reason for item in recorder.coverage().left_out if item.path != ".git"]
        if left:
            print(f"not at hand after the first look: {left[:3]}")
        await recorder.ready()
        keeping.append(time.perf_counter() - began)
        await recorder.stop()
    told("first usable state in a git repository", count, seeing, adding, "`git add -A`", "< 0.1")
    told("the same, everything compared and linked", count, keeping, adding, "`git add -A`", "–")


def commit(root: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run([*git, *command], cwd=root, check=True)


def added(root: Path, empty: Path) -> float:
    """Seconds of `git add -A` into an empty store."""
    environment = {**os.environ, "GIT_DIR": str(empty), "GIT_WORK_TREE": str(root)}
    subprocess.run(["git", "init", "-q"], env=environment, check=True)
    began = time.perf_counter()
    subprocess.run(["git", "add", "-A"], cwd=root, env=environment, check=True)
    seconds = time.perf_counter() - began
    shutil.rmtree(empty)
    return seconds


async def back(place: Path, count: int, differing: int, what: str) -> None:
    root = place / "tree"
    make_tree(root, count)
    recorder = await opened(place, root)
    await recorder.ready()
    times: list[float] = []
    async with recorder.during("c", "terminal", "bench"):
        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
        for at in random.Random(4).sample(range(count), differing):
            (root / f"d{at // 500}" / f"f{at}.py").write_text(f"# changed {at}\n")
    for position in (0, 1, 0):
        began = time.perf_counter()
        steps = recorder.store.line("bench").steps()
        plan = plan_restore(root, steps, position, recorder.store.objects, limit=LIMITS.file)
        done = await recorder.run(
            lambda plan=plan: apply_restore(plan, {}, recorder.store, "bench", session="bench", label="back")
        )
        await recorder.adopt(change.path for change in (done.step.changes if done.step else ()))
        times.append(time.perf_counter() - began)
        if done.step is None or len(done.step.changes) != differing or done.skipped:
            print(f"not everything was taken back: {done.sentence()}")
    await recorder.stop()
    print(f"{what}: median {statistics.median(times):.2f} s, worst {max(times):.2f} s (target < 1 s)")


def told(what: str, count: int, ours: list[float], theirs: list[float], against: str, target: str) -> None:
    one, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"{what}, {count:,} files: {one * 1000:.0f} ms, {one / other:.3f} of {against} "
        f"({other * 1000:.0f} ms; target {target})"
    )


if __name__ == "__main__":
    sys.exit(main())
