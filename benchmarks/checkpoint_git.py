"""What keeping git under undo costs a command: the look with and without it, in pairs, and room on the disk.

python benchmarks/checkpoint_git.py [--files 10000] [--refs 50] [--rounds 25]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.workspace.checkpoints.entries import KnownPath, is_settled, stamp_of
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.git_keep import without_repository
from agent.workspace.checkpoints.scan import scan
from benchmarks.checkpoint_store import make_tree
from benchmarks.checkpoint_sweep import LIMITS, commit, opened
from tools.services.actions import RunCommand

_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--refs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "tree"
        make_tree(root, args.files)
        commit(root)
        for number in range(args.refs):
            git(root, "update-ref", f"refs/heads/branch/{number}", "HEAD")
        time.sleep(0.2)
        looks(root, args.rounds, f"{args.refs} loose refs")
        git(root, "pack-refs", "--all", "--prune")
        time.sleep(0.2)
        looks(root, args.rounds, "packed refs")
        asyncio.run(room(root))
    return 0


def git(root: Path, *arguments: str) -> None:
    subprocess.run([*_GIT, *arguments], cwd=root, check=True, capture_output=True)


def looks(root: Path, rounds: int, what: str) -> None:
    """Looks at all of a workspace in which nothing changed, as every command takes two of them."""
    known: dict[bool, dict[str, KnownPath]] = {}
    for with_git in (False, True):
        found = scan(root, {}, versions=with_git)
        known[with_git] = {
            path: KnownPath(
                stamp_of(status), is_settled(status), capture_path(root, path, None, limit=LIMITS.file)
            )
            for path, status in found.changed.items()
        }
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * rounds):
        for with_git in (False, True) if number % 2 else (True, False):
            # Time of this process: others share the cores.
            began = time.process_time()
            found = scan(root, known[with_git], versions=with_git)
            times[with_git].append(time.process_time() - began)
            assert not found.changed and not found.gone
    ratio = statistics.median(b / a for a, b in zip(times[False], times[True], strict=True))
    one, other = statistics.median(times[False]), statistics.median(times[True])
    print(
        f"look with git, {what}: {other * 1000:.1f} ms, without {one * 1000:.1f} ms: {ratio:.3f} × (≤ 1.05)"
    )


async def room(root: Path) -> None:
    """What the store takes for a repository, before and after its history is thrown away."""
    place = root.parent
    recorder = await opened(place, root)
    await recorder.ready()
    size = recorder.store.size()
    packed = sum(path.stat().st_size for path in (root / ".git" / "objects").rglob("*") if path.is_file())
    began = time.perf_counter()
    async with recorder.during("c", "run git", "bench"):
        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
        (root / "d0" / "f0.py").write_text("# changed\n")
        git(root, "commit", "-qam", "second")
        git(root, "reset", "-q", "--hard", "HEAD~1")
        git(root, "reflog", "expire", "--expire=now", "--all")
        git(root, "gc", "-q", "--prune=now")
    seconds = time.perf_counter() - began
    only = sum(bytes_ for _, bytes_, _ in without_repository(recorder.store.borrowed_folder))
    print(
        f"store beside {packed / 1e6:.1f} MB of git's objects: {size / 1e6:.2f} MB; after commit, reset and "
        f"`gc --prune=now` ({seconds:.1f} s) {recorder.store.size() / 1e6:.2f} MB, "
        f"{only / 1e6:.2f} MB of it objects that only the store has"
    )
    await recorder.stop()


if __name__ == "__main__":
    sys.exit(main())
