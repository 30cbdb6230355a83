"""Restores and recordings that are killed or meet a person at work, and what is left afterwards."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.garbage_collection import verify
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore, finish_abandoned
from agent.workspace.checkpoints.restore.plan import plan_restore
from agent.workspace.checkpoints.store import CheckpointStore
from tools.services.actions import RunCommand

LIMIT = 10_000_000
FILES = 60

CHILD = """
import asyncio, sys
from pathlib import Path
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.restore.apply import apply_restore, finish_abandoned
from agent.workspace.checkpoints.restore.plan import plan_restore
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.garbage_collection import collect
from tests.support.restore_storm import LIMIT, act, change
async def main():
    root, store, seed = Path(sys.argv[1]), CheckpointStore(Path(sys.argv[2])), int(sys.argv[3])
    recorder = StepRecorder(store, "session", root, CaptureLimits(LIMIT, LIMIT), print)
    print("ready", flush=True)
    for number in range(1000):
        if number == 0:
            recorder.start()
            await recorder.ready()
        if number % 2 == 0:
            await act(recorder, lambda: change(root, seed + number))
        else:
            steps = store.line("session").steps()
            plan = plan_restore(root, steps, max(0, recorder.position - 1), store.objects, limit=LIMIT)
            done = await recorder.run(
                lambda: apply_restore(plan, {}, store, "session", session="session", label="back"))
            await recorder.adopt(each.path for each in (done.step.changes if done.step else ()))
        if number % 5 == 4:
            await asyncio.to_thread(collect, store, max_bytes=10**9, max_age=1e9)
asyncio.run(main())
"""


def fill(root: Path) -> None:
    """A small project."""
    for number in range(FILES):
        folder = root / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_text(f"old {number}\n" * 200)
    (root / "link").symlink_to("d1")


def change(root: Path, seed: int) -> None:
    """What a command might do."""
    chance = random.Random(seed)
    for number in chance.sample(range(FILES), 30):
        path = root / f"d{number % 7}" / f"f{number}"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True) if chance.random() < 0.2 else path.write_text(f"{seed} {number}\n" * 200)
        if chance.random() < 0.2:
            (root / f"made{number}").mkdir(exist_ok=True)


async def act(recorder: StepRecorder, work) -> None:
    """Record `work` as a command."""
    async with recorder.during("c", "terminal", "session"):
        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=recorder.root))
        await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill left."""

    finished: int
    """Restores that the next start finished."""
    problems: tuple[str, ...]


def kill_once(root: Path, folder: Path, seed: int, delay: float) -> Kill:
    """Let a child record and restore in `root`, kill it after `delay` seconds of work, and look."""
    command = [sys.executable, "-c", CHILD, str(root), str(folder), str(seed)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
    store = CheckpointStore(folder)
    pending = len(list(store.pending.glob("*.json"))) if store.pending.is_dir() else 0
    before = len(store.line("session").steps())
    told = finish_abandoned(store)
    problems = [f"{item.place}: {item.sentence}" for item in verify(store).problems]
    problems += [f"left behind: {path}" for path in root.rglob(".hermes-*")]
    problems += [sentence for sentence in told if "left as " in sentence]
    steps = store.line("session").steps()
    if pending > 1 or len(told) > pending:
        problems.append(f"{pending} restores were under way, {len(told)} were finished")
    # A restore that was under way is whole now: every path stands where its step says.
    if len(steps) > before:
        plan = plan_restore(root, steps, steps[-1].number, store.objects, limit=LIMIT)
        back = plan_restore(root, steps, steps[-1].number - 1, store.objects, limit=LIMIT)
        problems += [f"{item.path} is {item.state}" for item in (*plan.items, *back.having("conflict"))]
    return Kill(len(told), tuple(problems))


@dataclass(frozen=True, slots=True)
class Typed:
    """What became of what a person wrote."""

    written: int
    lost: tuple[str, ...]


class Person:
    """Somebody who edits each file once at a random moment, in place or by renaming, and remembers it."""

    def __init__(self, root: Path, seed: int, pause: float) -> None:
        self._root = root
        self._chance = random.Random(seed)
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.written: list[str] = []

    def __enter__(self) -> Person:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        for number in self._chance.sample(range(FILES), FILES):
            if self._stop.wait(self._chance.uniform(0, self._pause)):
                return
            self._edit(self._root / f"d{number % 7}" / f"f{number}", number)

    def _edit(self, path: Path, number: int) -> None:
        text = f"typed {number} {self._chance.random()}\n"
        if not path.parent.is_dir():
            return
        if number % 2:
            with path.open("a") as file:
                file.write(text)
        else:
            beside = path.with_name(f"{path.name}.tmp")
            beside.write_text(text)
            beside.replace(path)
        self.written.append(text)


def typed_during_restore(root: Path, store: CheckpointStore, seed: int) -> Typed:
    """Restore to the beginning while a person edits the same files; which of their words are gone?"""
    steps = store.line("session").steps()
    plan = plan_restore(root, steps, 0, store.objects, limit=LIMIT)
    with Person(root, seed, 0.002) as person:
        apply_restore(plan, {}, store, "session", session="session", label="back")
    return Typed(len(person.written), _lost(root, store, person.written))


async def edited_during_commands(recorder: StepRecorder, rounds: int, seed: int) -> Typed:
    """Commands, then everything taken back, while and after a person edits other files."""
    root = recorder.root
    fill(root)
    with Person(root, seed, 0.02) as person:
        for number in range(rounds):
            await act(recorder, lambda number=number: _made(root, number))
    steps = recorder.store.line("session").steps()
    plan = plan_restore(root, steps, 0, recorder.store.objects, limit=LIMIT)
    await recorder.run(
        lambda: apply_restore(plan, {}, recorder.store, "session", session="session", label="back")
    )
    return Typed(len(person.written), _lost(root, recorder.store, person.written))


def _made(root: Path, number: int) -> None:
    (root / f"made{number % 5}").write_text(f"{number}\n")
    time.sleep(0.01 * (number % 4))


def _lost(root: Path, store: CheckpointStore, written: list[str]) -> tuple[str, ...]:
    there = [path.read_text() for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    kept = [store.objects.read(digest).decode("utf-8", "replace") for digest in store.objects.names()]
    everything = "".join((*there, *kept))
    return tuple(text for text in written if text not in everything)
