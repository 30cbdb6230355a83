"""What an isolated copy of a workspace costs, beside `cp -a --reflink=auto`.

python benchmarks/workspace_copy.py [--files 1000 10000] [--folder FOLDER]

FOLDER is on the file system to be measured; by default the one of temporary files.
"""

from __future__ import annotations

import argparse
import asyncio
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
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.isolated_copies.workspace_copy import make_copy
from benchmarks.checkpoint_store import make_tree

ROUNDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        for count in args.files:
            asyncio.run(measure(Path(name).resolve() / str(count), count))
    return 0


async def measure(folder: Path, count: int) -> None:
    """Ours and `cp` in turn, so that both meet the same machine."""
    root = folder / "work"
    make_tree(root, count)
    store = CheckpointStore(folder / "home" / "checkpoints")
    recorder = StepRecorder(store, "s", root, CaptureLimits(100_000_000, 1_000_000_000), print)
    recorder.start()
    await recorder.ready()
    ours, theirs, changes = [], [], []
    for number in range(ROUNDS):
        begin = time.perf_counter()
        copy = await make_copy(recorder, folder / "home" / "copies")
        ours.append(time.perf_counter() - begin)
        (copy.root / "d0" / "f0.py").write_text("changed")
        begin = time.perf_counter()
        assert len(await copy.changes()) == 1
        changes.append(time.perf_counter() - begin)
        await copy.close()
        theirs.append(copy_by_cp(root, folder / f"cp{number}"))
    await recorder.stop()
    mine, cp, found = map(statistics.median, (ours, theirs, changes))
    print(
        f"{count:>7,} files: copy {mine * 1000:,.0f} ms, cp -a {cp * 1000:,.0f} ms, ratio {mine / cp:.2f}; "
        f"finding one change {found * 1000:,.0f} ms"
    )


def copy_by_cp(root: Path, target: Path) -> float:
    """Seconds `cp` takes."""
    begin = time.perf_counter()
    subprocess.run(["cp", "-a", "--reflink=auto", root, target], check=True)
    seconds = time.perf_counter() - begin
    shutil.rmtree(target)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
