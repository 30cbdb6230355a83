"""What a snapshot of one known change costs, by the size of the tree, and what a thousand of them take.

python benchmarks/checkpoint_store.py [--files 1000 100000] [--steps 1000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.store import CheckpointStore

LIMIT = 100_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    medians: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for count in args.files:
            root = Path(name).resolve() / str(count)
            make_tree(root, count)
            store = CheckpointStore(Path(name) / f"store-{count}")
            times, changed = snapshots(store, root, count, args.steps)
            medians.append(statistics.median(times) * 1000)
            p95 = statistics.quantiles(times, n=20)[18] * 1000
            print(f"{count:>7,} files: snapshot of one change {medians[-1]:.2f} ms, p95 {p95:.2f} ms")
            held = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
            print(
                f"{'':>14} store after {args.steps:,} steps {held / 1e6:.2f} MB, {held / changed:.2f} of the "
                f"compressed changed bytes ({store.size() / 1e6:.1f} MB in whole blocks)"
            )
    if len(medians) > 1:
        print(f"ratio largest to smallest tree {medians[-1] / medians[0]:.2f}")
    return 0


def make_tree(root: Path, count: int) -> None:
    """`count` files of source-like text, 500 to a folder, about 5 KB each."""
    chance = random.Random(1)
    bodies = ["".join(f"def f{n}(): return {chance.random()!r}\n" for n in range(130)) for _ in range(50)]
    for number in range(count):
        folder = root / f"d{number // 500}"
        if number % 500 == 0:
            folder.mkdir(parents=True)
        (folder / f"f{number}.py").write_text(f"# {number}\n{bodies[number % 50]}")


def snapshots(store: CheckpointStore, root: Path, count: int, steps: int) -> tuple[list[float], int]:
    """Seconds that each snapshot took, and the compressed bytes of all that changed."""
    chance = random.Random(2)
    times: list[float] = []
    changed = 0
    seen: set[bytes] = set()
    for number in range(steps):
        at = chance.randrange(count)
        path = f"d{at // 500}/f{at}.py"
        old = (root / path).read_bytes()
        began = time.perf_counter()
        before = capture_path(root, path, store.objects, limit=LIMIT)
        middle = time.perf_counter()
        new = old + f"# change {number}: {chance.random()}\n".encode()
        (root / path).write_bytes(new)
        resumed = time.perf_counter()
        after = capture_path(root, path, store.objects, limit=LIMIT)
        store.line("bench").append(
            kind="tool",
            session="bench",
            call=f"call-{number}",
            label=f"patch {path}",
            root=str(root),
            changes=[PathChange(path, before, after)],
        )
        times.append(time.perf_counter() - resumed + middle - began)
        changed += sum(len(zlib.compress(data, 1)) for data in {old, new} - seen)
        seen |= {old, new}
    return times, changed


if __name__ == "__main__":
    sys.exit(main())
