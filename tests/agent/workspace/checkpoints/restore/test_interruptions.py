"""A restore that is killed is finished, and one that meets a person at work takes nothing from them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agent.workspace.checkpoints.entries import PathEntry
from agent.workspace.checkpoints.restore.apply import finish_abandoned
from agent.workspace.checkpoints.restore.path_replacement import Move, Placer
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import LIMIT, Workspace, look

ROOT = Path(__file__).parents[5]

CHILD = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import Workspace
work = Workspace(Path(sys.argv[1]), CheckpointStore(Path(sys.argv[2])))
plan = work.plan(0)
threading.Timer(float(sys.argv[4]), os.kill, (os.getpid(), 9)).start()
work.apply(plan)
time.sleep(5)
"""


def filled(work: Workspace, count: int = 60) -> tuple[dict, dict]:
    """A workspace that one step changed in many ways; how it looked before and after."""
    for number in range(count):
        folder = work.root / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_text(f"old {number}\n" * 200)
    (work.root / "link").symlink_to("d1")
    before, earlier = work.state(), look(work.root)
    for number in range(count):
        path = work.root / f"d{number % 7}" / f"f{number}"
        path.write_text(f"new {number}\n" * 200) if number % 3 else path.unlink()
        if number % 4 == 0:
            (work.root / f"new{number % 5}").mkdir(exist_ok=True)
            (work.root / f"new{number % 5}" / f"n{number}").write_text("made")
    (work.root / "link").unlink()
    (work.root / "link").mkdir()
    work.step(before)
    return earlier, look(work.root)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_a_killed_restore_is_finished_at_the_next_start(work: Workspace, seed: int) -> None:
    earlier, later = filled(work)
    delay = random.Random(seed).uniform(0.0, 0.06)
    arguments = [str(work.root), str(work.store.folder), str(ROOT), f"{delay:f}"]
    ended = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    store = CheckpointStore(work.store.folder)
    was_pending = any(store.pending.iterdir()) if store.pending.is_dir() else False
    told = finish_abandoned(store)
    assert bool(told) <= was_pending
    steps = store.line("session").steps()
    assert look(work.root) == (earlier if len(steps) == 2 else later)
    assert finish_abandoned(store) == ()
    if len(steps) == 2:
        Workspace(work.root, store).undo()
        assert look(work.root) == later


def test_a_restore_that_still_runs_is_not_taken_for_one_that_was_cut_off(work: Workspace) -> None:
    filled(work, 20)
    seen: list[tuple[str, ...]] = []
    plan = work.plan(0)
    from agent.workspace.checkpoints.restore.apply import apply_restore

    def look_in(_path: str, _entry: object) -> None:
        if not seen:
            seen.append(finish_abandoned(CheckpointStore(work.store.folder)))

    apply_restore(plan, {}, work.store, "session", session="session", label="back", expect=look_in)
    assert seen == [()]


class Person:
    """Somebody who edits files in place and by renaming, as editors do, and remembers every word."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.written: dict[str, str] = {}

    def __enter__(self) -> Person:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        count = 0
        while not self._stop.is_set():
            number = self._random.randrange(60)
            path = self._root / f"d{number % 7}" / f"f{number}"
            if path.name in self.written:
                continue
            count += 1
            text = f"mine {count}\n"
            beside = path.with_name(f"{path.name}.tmp")
            beside.write_text(text)
            os.replace(beside, path)
            self.written[path.name] = text
            if len(self.written) == 60:
                return


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(6))
def test_no_byte_of_a_person_who_edits_during_a_restore_is_lost(work: Workspace, seed: int) -> None:
    filled(work)
    plan = work.plan(0)
    with Person(work.root, seed) as person:
        work.apply(plan)
    texts = {path.read_text() for path in work.root.rglob("*") if path.is_file()}
    assert set(person.written.values()) <= texts


def test_a_file_changed_twice_within_the_exchange_is_kept_beside(work: Workspace, monkeypatch) -> None:
    from agent.workspace.checkpoints.restore import path_replacement

    path = work.root / "file"
    path.write_text("two")
    earlier = work.store.objects.add(b"one")
    state = work.state()["file"]
    assert state is not None
    exchanged: list[int] = []

    def while_somebody_types(folder: int, one: str, other: str) -> bool:
        exchanged.append(1)
        if len(exchanged) <= 2:
            beside = work.root / "editor"
            beside.write_text(f"typed {len(exchanged)}")
            beside.replace(path)
        return exchange(folder, one, other)

    exchange = path_replacement.exchange
    monkeypatch.setattr(path_replacement, "exchange", while_somebody_types)
    from dataclasses import replace

    move = Move("file", state, replace(state, digest=earlier, size=3))
    reason = Placer(work.root, work.store.objects, ".hermes-x", LIMIT).place(move, 0)
    assert "changed twice" in reason
    assert path.read_text() == "typed 2"
    assert (work.root / "file.yours-1").read_text() == "typed 1"
    assert sorted(each.name for each in work.root.iterdir()) == ["file", "file.yours-1"]


@pytest.mark.thorough
@pytest.mark.parametrize("has_exchange", [True, False])
def test_file_systems_without_an_exchange_are_served_too(
    work: Workspace, monkeypatch, has_exchange: bool
) -> None:
    from tools.files import atomic_swap

    if not has_exchange:
        monkeypatch.setattr(atomic_swap, "_system", lambda: None)
    earlier, later = filled(work)
    work.restore(0)
    assert look(work.root) == earlier
    work.undo()
    assert look(work.root) == later


@pytest.mark.parametrize("content", ["", "nothing", "[]", '{"format": 1}', '{"format": 9, "moves": []}'])
def test_a_broken_note_of_a_restore_stops_nothing(work: Workspace, content: str) -> None:
    work.store.pending.mkdir(mode=0o700)
    (work.store.pending / "broken.json").write_text(content)
    assert finish_abandoned(work.store) == ()
    assert (work.store.pending / "broken.json").exists()


HALFWAY = """
import os, sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import Workspace
work = Workspace(Path(sys.argv[1]), CheckpointStore(Path(sys.argv[2])))
left = [int(sys.argv[4])]
def expect(path, entry):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
apply_restore(work.plan(0), {}, work.store, "session", session="session", label="back", expect=expect)
"""


@pytest.mark.thorough
def test_a_restore_of_a_workspace_that_is_gone_waits_for_it(work: Workspace, tmp_path: Path) -> None:
    earlier, _ = filled(work)
    arguments = [str(work.root), str(work.store.folder), str(ROOT), "20"]
    ended = subprocess.run([sys.executable, "-c", HALFWAY, *arguments], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    work.root.rename(tmp_path / "away")
    assert finish_abandoned(work.store) == ()
    (tmp_path / "away").rename(work.root)
    assert len(finish_abandoned(work.store)) == 1
    assert look(work.root) == earlier


@pytest.mark.parametrize("shared", [False, True])
def test_what_a_power_cut_damaged_keeps_no_restore_from_its_end(
    work: Workspace, tmp_path: Path, shared: bool
) -> None:
    (work.root / "file").write_text("old\n" * 50)
    if shared:
        os.link(work.root / "file", tmp_path / "elsewhere")
    before = work.state()
    with (work.root / "file").open("r+") as file:
        file.write("new\n" * 50)
    work.step(before)
    arguments = [str(work.root), str(work.store.folder), str(ROOT), "1"]
    ended = subprocess.run([sys.executable, "-c", HALFWAY, *arguments], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    damage(work, work.state()["file"])
    (told,) = finish_abandoned(CheckpointStore(work.store.folder))
    assert "is finished" in told
    assert (work.root / "file").read_text() == "old\n" * 50
    assert not any(work.store.pending.iterdir())


def damage(work: Workspace, entry: PathEntry | None) -> None:
    """Leave of stored contents what a power cut can leave."""
    assert entry is not None
    assert entry.digest is not None
    (work.store.folder / "objects" / entry.digest[:2] / entry.digest).write_bytes(b"")


def test_a_database_of_which_a_part_cannot_come_back_stays_as_a_whole(
    work: Workspace, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as base:
        base.execute("pragma journal_mode = wal")
        base.execute("pragma wal_autocheckpoint = 0")
        for text in ("create table t (x)", "insert into t values (1)", "pragma wal_checkpoint", ""):
            base.execute(text or "insert into t values (2)")
            base.commit()
            for path in tmp_path.glob("app.db*"):
                shutil.copy(path, work.root)
            if text == "insert into t values (1)":
                before = work.state()
    work.step(before)
    later = look(work.root)
    damage(work, before["app.db-wal"])
    restored = work.restore(0)
    assert look(work.root) == later
    assert "app.db-wal" in [item.path for item in restored.skipped]
    with closing(sqlite3.connect(work.root / "app.db")) as base:
        assert base.execute("select x from t").fetchall() == [(1,), (2,)]
