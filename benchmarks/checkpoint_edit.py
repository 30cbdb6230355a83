"""What a step costs beside the tool itself: a known change in small and large trees, and a second session.

python benchmarks/checkpoint_edit.py [--small 1000] [--large 20000] [--second 25000] [--rounds 20]

A file tool names its path, so a step must cost the same in any tree, also while the
contents of the tree are still being read. A second session knows the tree from the
first one: its first command must not wait for more than a look.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.workspace.checkpoints.recorder import StepRecorder
from benchmarks.checkpoint_store import make_tree
from benchmarks.checkpoint_sweep import commit, floor, opened
from tools.services.actions import RunCommand, WritePath

PAUSE = 0.05
"""Seconds between two edits: the background goes on meanwhile, as it does beside a model."""


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=20_000)
    parser.add_argument("--second", type=int, default=25_000)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        small = asyncio.run(edits(place / "small", args.small, args.rounds))
        large = asyncio.run(edits(place / "large", args.large, args.rounds))
        for what, one, other in zip(("in the first seconds", "afterwards"), large, small, strict=True):
            print(
                f"edit step {what}: {one * 1000:.1f} ms with {args.large:,} files, "
                f"{other * 1000:.1f} ms with {args.small:,}: {one / other:.2f} × (target 1)"
            )
        asyncio.run(second(place / "second", args.second))
    return 0


async def edits(place: Path, count: int, rounds: int) -> tuple[float, float]:
    """Median seconds of an edit step while the tree is being read, and when it was."""
    root = place / "tree"
    make_tree(root, count)
    recorder = await opened(place, root)
    first = [await edit(recorder, root / f"d{n % (count // 500)}" / f"new{n}.py", n) for n in range(rounds)]
    await recorder.ready()
    after = [await edit(recorder, root / f"d{n % (count // 500)}" / f"late{n}.py", n) for n in range(rounds)]
    await recorder.stop()
    return statistics.median(first), statistics.median(after)


async def edit(recorder: StepRecorder, path: Path, number: int) -> float:
    await asyncio.sleep(PAUSE)
    began = time.perf_counter()
    async with recorder.during(f"c{number}", "write_file", "bench"):
        await recorder.acting(f"c{number}", WritePath(tool="write_file", path=path, creates=True))
        path.write_text(f"# {number}\n")  # noqa: ASYNC240
    return time.perf_counter() - began


async def second(place: Path, count: int) -> None:
    """The first command of a first and of a second session over the same tree."""
    root = place / "tree"
    make_tree(root, count)
    commit(root)
    await asyncio.sleep(0.1)
    times: list[float] = []
    for number in range(3):
        recorder = await opened(place, root)
        began = time.perf_counter()
        async with recorder.during(f"c{number}", "terminal", "bench"):
            await recorder.acting(f"c{number}", RunCommand(tool="terminal", command="x", cwd=root))
            (root / "d0" / "f0.py").write_text(f"# {number}\n")
        times.append(time.perf_counter() - began)
        await recorder.ready()
        await recorder.stop()
    walked = min(floor(root) for _ in range(3))
    for what, seconds in zip(("first", "second", "third"), times, strict=True):
        print(
            f"first command of the {what} session, {count:,} files: {seconds * 1000:.0f} ms, "
            f"{seconds / walked:.1f} × a bare walk ({walked * 1000:.0f} ms)"
        )


if __name__ == "__main__":
    sys.exit(main())
