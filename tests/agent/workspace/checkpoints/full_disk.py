"""Snapshots, restores and collections on a disk that is really full; prints what went wrong as JSON.

Run in namespaces of its own, as root of them: it mounts a small file system.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from agent.errors import StoreError
from agent.workspace.checkpoints.garbage_collection import collect, verify
from agent.workspace.checkpoints.restore.apply import Restored, finish_abandoned
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import Tree, Workspace, look
from tests.agent.workspace.checkpoints.support import write

SIZE = 3_000_000
LEFT = (0, 12_288, 102_400, 600_000)
"""Bytes that are free when something is tried."""
FILES = 10


class Disk:
    """The small file system, and what fills it."""

    def __init__(self, place: Path) -> None:
        self._filler = place / "filler"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=True)

    def fill(self, left: int) -> None:
        """Leave so many bytes free."""
        status = os.statvfs(self._filler.parent)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(status.f_bavail * status.f_bsize - left, 1))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


class Trial:
    """One workspace and store, of which one or both are on the small disk."""

    def __init__(self, disk: Disk, tree: Path, store: Path, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._disk = disk
        self._random = random.Random(seed)
        for folder in (tree, store):
            shutil.rmtree(folder, ignore_errors=True)
        tree.mkdir()
        self._store = CheckpointStore(store)
        self._work = Workspace(tree, self._store)
        for number in range(4):
            write(
                self._store, "x", self._random.randbytes(3_000) + bytes([number]), session="old", created=1.0
            )
        self._change()
        self._earlier = look(tree)
        before = self._work.state()
        self._change()
        (tree / "link").symlink_to("nowhere")
        shutil.rmtree(tree / "folder")
        self._work.step(before)
        self._later = look(tree)

    def _change(self) -> None:
        root = self._work.root
        (root / "folder").mkdir(exist_ok=True)
        (root / "folder" / "inner").write_bytes(self._random.randbytes(9_000))
        for number in range(FILES):
            (root / f"file{number}").write_bytes(self._random.randbytes(9_000))

    def run(self, left: int) -> None:
        self._disk.fill(left)
        self._snapshot()
        self._restore()
        self._collect()
        self._disk.free()
        for sentence in finish_abandoned(self._store):
            self.seen["finished"] += bool(sentence)
        self._sound("once there is room")
        self._between(look(self._work.root), None)
        self._work.restore(0)
        self._same(self._earlier, "cannot go back once there is room")
        self._work.restore(1)
        self._same(self._later, "cannot be undone once there is room")

    def _snapshot(self) -> None:
        line = self._store.line("other")
        count = len(line.steps()) if "other" in self._store.sessions() else 0
        try:
            write(self._store, "y", self._random.randbytes(9_000), session="other", created=2e9)
        except StoreError as error:
            self.seen["no snapshot"] += 1
            if "\n" in str(error):
                self.wrong.append(f"no sentence: {error}")
        else:
            self.seen["snapshot"] += 1
            count += 1
        if "other" in self._store.sessions() and len(line.steps()) != count:
            self.wrong.append("the line has other steps than were told")
        self._sound("after a snapshot")

    def _restore(self) -> None:
        done: Restored | None = None
        try:
            done = self._work.restore(0)
        except StoreError as error:
            self.seen["no restore"] += 1
            if "\n" in str(error):
                self.wrong.append(f"no sentence: {error}")
        found = look(self._work.root)
        if done is None and found != self._later and not list(self._store.pending.glob("*.json")):
            self.wrong.append("a restore that was refused left the tree between, and says nothing")
        if done is not None:
            self.seen["part of a restore" if done.skipped else "restore"] += 1
        self._between(found, done)
        self._sound("after a restore")

    def _between(self, found: Tree, done: Restored | None) -> None:
        """Each path is as it was before or after, and what is not as wanted was named."""
        for path in self._earlier.keys() | self._later.keys() | found.keys():
            stands, then, now = found.get(path), self._earlier.get(path), self._later.get(path)
            if stands not in (then, now):
                self.wrong.append(f"{path} is neither as before nor as after")
            elif done is not None and stands != then and path not in {item.path for item in done.skipped}:
                self.wrong.append(f"{path} was not restored and not named")

    def _collect(self) -> None:
        try:
            done = collect(self._store, max_bytes=10**9, max_age=3_600, living={"session", "old", "other"})
        except StoreError:
            self.seen["no collection"] += 1
        else:
            self.seen["collection" if done.steps else "idle collection"] += 1
        self._sound("after a collection")

    def _sound(self, when: str) -> None:
        report = verify(self._store)
        self.wrong += [f"{when}: {problem.place} {problem.sentence}" for problem in report.problems]

    def _same(self, expected: Tree, words: str) -> None:
        found = look(self._work.root)
        odd = [path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path)]
        if odd:
            self.wrong.append(f"{words}: {odd}")


def main(place: Path) -> dict[str, object]:
    disk = Disk(place / "small")
    small, large = place / "small", place
    layouts = {
        "both": (small / "work", small / "store"),
        "store": (large / "work", small / "store"),
        "tree": (small / "work", large / "store"),
    }
    result: dict[str, object] = {}
    for name, (tree, store) in layouts.items():
        seen: Counter[str] = Counter()
        wrong: list[str] = []
        for seed, left in enumerate(LEFT):
            trial = Trial(disk, tree, store, seed)
            trial.run(left)
            seen += trial.seen
            wrong += [f"with {left:,} bytes free, {each}" for each in trial.wrong]
        shutil.rmtree(tree)
        shutil.rmtree(store)
        result[name] = {"seen": seen, "wrong": wrong}
    return result


print(json.dumps(main(Path(sys.argv[2]).resolve())))
