"""What steps and going back cost beside an older commit: the same work in turns, each in its own process.

python benchmarks/checkpoint_pairs.py --before REVISION [--files 50000] [--rounds 7]

Lines: a step of one command and its undo in a tree of so many files, and the undo of 1,000 files. Each round
runs the old commit and then this one (every second round the other way about); figures are medians, and the
quotient that of the pairs. Only a quiet machine gives figures that count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
WORK = ("step and undo", "step", "undo", "undo of 1,000 files")
BOUND = 0.7


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--before", metavar="REVISION")
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(asyncio.run(measured(Path(args.child), args.files))))
        return 0
    if not args.before:
        parser.error("--before is missing: the commit to compare with")
    with tempfile.TemporaryDirectory() as name:
        old = Path(name) / "before"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", old, args.before], cwd=HERE, check=True)
        try:
            return compared(Path(name), old, args.files, args.rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", old], cwd=HERE, check=False)


def compared(place: Path, old: Path, files: int, rounds: int) -> int:
    found: dict[Path, list[dict[str, float]]] = {old: [], HERE: []}
    for number in range(rounds):
        for checkout in (old, HERE) if number % 2 else (HERE, old):
            found[checkout].append(child(checkout, place / f"{number}-{checkout.name}", files))
    print(f"{files:,} files, {rounds} pairs; milliseconds before and now, and the quotient")
    for work in WORK:
        before, now = ([each[work] for each in found[checkout]] for checkout in (old, HERE))
        quotient = statistics.median(b / a for a, b in zip(before, now, strict=True))
        mark = "" if quotient <= BOUND else f"  above {BOUND}"
        print(
            f"{work:<22} {statistics.median(before) * 1e3:>8.0f} {statistics.median(now) * 1e3:>8.0f} "
            f"{quotient:>6.2f}{mark}"
        )
    return 0


def child(checkout: Path, place: Path, files: int) -> dict[str, float]:
    """The seconds of each piece of work in a checkout."""
    place.mkdir(parents=True)
    command = [sys.executable, __file__, "--child", str(place), "--files", str(files)]
    environ = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    subprocess.run(["rm", "-rf", place], check=True)
    return json.loads(done.stdout.splitlines()[-1])


async def measured(place: Path, files: int) -> dict[str, float]:
    """Do the work in a fresh tree below `place`, by the code that PYTHONPATH leads to."""
    large = await work(place / "large", files, 1)
    many = await work(place / "many", 1_500, 1_000)
    return {
        "step and undo": large["step"] + large["undo"],
        "step": large["step"],
        "undo": large["undo"],
        "undo of 1,000 files": many["undo"],
    }


async def work(place: Path, count: int, differing: int) -> dict[str, float]:
    from agent.workspace.checkpoints.file_register import CaptureLimits
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.restore.plan import plan_restore
    from agent.workspace.checkpoints.store import CheckpointStore
    from benchmarks.checkpoint_store import make_tree
    from tools.services.actions import RunCommand

    root = place / "tree"
    make_tree(root, count)
    limits = CaptureLimits(100_000_000, 1_000_000_000)
    recorder = StepRecorder(CheckpointStore(place / "store"), "bench", root, limits, print)
    recorder.start()
    await recorder.ready()
    await asyncio.sleep(0.2)
    began = time.perf_counter()
    async with recorder.during("c", "terminal", "bench"):
        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
        for at in range(differing):
            with (root / f"d{at // 500}" / f"f{at}.py").open("a") as file:
                file.write("# more\n")
    step = time.perf_counter() - began
    await asyncio.sleep(0.2)
    began = time.perf_counter()
    steps = recorder.store.line("bench").steps()

    def planned():
        return plan_restore(root, steps, 0, recorder.store.objects, limit=limits.file)

    plan = await recorder.run(planned)
    done = await recorder.restore(plan, {}, session="bench", label="back")
    undo = time.perf_counter() - began
    assert done.step is not None
    assert len(done.step.changes) == differing
    await recorder.stop()
    return {"step": step, "undo": undo}


if __name__ == "__main__":
    if "--child" not in sys.argv:
        sys.path.insert(0, str(HERE))
    sys.exit(main())
