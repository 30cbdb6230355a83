"""Isolated copies: exact, apart from the workspace, and brought back without losing anybody's bytes."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.plan import plan_back
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.isolated_copies import copy_folders
from agent.workspace.isolated_copies.copy_folders import claim, sweep
from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy, make_copy

Tree = dict[str, tuple[str, int, object]]


@asynccontextmanager
async def recording(folder: Path, limit: int = 1_000_000) -> AsyncIterator[StepRecorder]:
    """A recorder of `folder/work`, which knows all that is in it."""
    root = (folder / "work").resolve()
    root.mkdir(exist_ok=True)
    trouble: list[str] = []
    store = CheckpointStore(folder / "home" / "checkpoints")
    recorder = StepRecorder(store, "s", root, CaptureLimits(limit, 100_000_000), trouble.append)
    recorder.start()
    try:
        await recorder.ready()
        yield recorder
    finally:
        await recorder.stop()
        assert not trouble


@asynccontextmanager
async def copied(recorder: StepRecorder, folder: Path) -> AsyncIterator[WorkspaceCopy]:
    copy = await make_copy(recorder, folder / "home" / "copies")
    try:
        yield copy
    finally:
        await copy.close()


def state(root: Path, *, times: bool = True) -> Tree:
    """All that stands below a folder, `.git` left out."""
    found: Tree = {}
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        for name in (*names, *files):
            path = Path(folder, name)
            status = path.lstat()
            what: object = os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
            moment = status.st_mtime_ns if times else 0
            found[str(path.relative_to(root))] = (str(what), status.st_mode, moment)
    return found


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "tracked").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")


def torture(root: Path) -> None:
    root.mkdir()
    (root / "empty" / "deep").mkdir(parents=True)
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "binary").write_bytes(bytes(range(256)) * 2_000)
    with (root / "sparse").open("wb") as file:
        file.seek(3_000_000)
        file.write(b"end")
    (root / os.fsdecode(b"odd \xff\n name")).write_bytes(b"x")
    (root / "broken").symlink_to("nowhere")
    (root / "outside").symlink_to("/etc/hostname")
    (root / "back").symlink_to(root / "run.sh")
    (root / "closed").mkdir()
    (root / "closed" / "in").write_text("x")
    os.utime(root / "closed" / "in", ns=(1, 1_000_000_000_123))
    (root / "closed").chmod(0o555)
    (root / "one").write_text("shared")
    os.link(root / "one", root / "two")


async def test_a_copy_has_the_same_bytes_modes_links_times_and_empty_folders(tmp_path: Path) -> None:
    torture(tmp_path / "work")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert state(copy.root) == state(recorder.root)
        assert copy.root.name == "work"
        assert (copy.root / "one").samefile(copy.root / "two")
        assert not (copy.root / "one").samefile(recorder.root / "one")
        assert (copy.root / "sparse").stat().st_blocks <= (recorder.root / "sparse").stat().st_blocks
        assert [item.path for item in copy.coverage.left_out] == ["back"]
        assert await copy.changes() == ()
    assert not list((tmp_path / "home" / "copies").iterdir())
    assert (tmp_path / "work" / "closed" / "in").read_text() == "x"


async def test_what_is_no_file_stays_behind_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert copy.coverage.sentence() == "without pipe (is not a file, link or folder)"
        assert not list(copy.root.iterdir())


async def test_work_in_a_copy_does_not_reach_the_workspace(tmp_path: Path) -> None:
    torture(tmp_path / "work")
    before = state(tmp_path / "work")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        for name in ("run.sh", "binary", "one"):
            with (copy.root / name).open("r+b") as file:
                file.write(b"changed")
        (copy.root / "broken").unlink()
        (copy.root / "empty" / "deep").rmdir()
        assert {change.path for change in await copy.changes()} == {
            *("run.sh", "binary", "one", "two", "broken", "empty/deep"),
        }
        assert state(recorder.root) == before


async def test_what_changed_is_brought_back_as_one_step_that_can_be_undone(tmp_path: Path) -> None:
    torture(tmp_path / "work")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        before = state(recorder.root, times=False)
        (copy.root / "run.sh").write_text("new\n")
        (copy.root / "run.sh").chmod(0o600)
        (copy.root / "binary").unlink()
        (copy.root / "broken").unlink()
        (copy.root / "broken").symlink_to("run.sh")
        (copy.root / "fresh" / "deep").mkdir(parents=True)
        (copy.root / "fresh" / "deep" / "file").write_text("x")
        (copy.root / "empty" / "deep").rmdir()
        (copy.root / "one").write_text("shared still")
        plan = await copy.plan_merge()
        assert {item.state for item in plan.items} == {"change"}
        restored = await copy.merge(plan, session="s", label="from a copy")
        assert not restored.skipped
        assert state(recorder.root, times=False) == state(copy.root, times=False)
        assert (recorder.root / "one").samefile(recorder.root / "two")
        assert (await copy.plan_merge()).items == ()
        assert recorder.position == 1
        undo = plan_back(recorder.store.line("s"), recorder.root, 0, recorder.store.objects, limit=10_000_000)
        apply_restore(undo, {}, recorder.store, "s", session="s", label="undo")
        assert state(recorder.root, times=False) == before


async def test_some_paths_come_with_the_folders_they_need(tmp_path: Path) -> None:
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        (copy.root / "a" / "b").mkdir(parents=True)
        (copy.root / "a" / "b" / "c").write_text("c")
        (copy.root / "a" / "other").write_text("o")
        (copy.root / "d").write_text("d")
        plan = await copy.plan_merge(["a/b/c"])
        assert [item.path for item in plan.items] == ["a", "a/b", "a/b/c"]
        await copy.merge(plan, session="s", label="some")
        assert set(state(recorder.root)) == {"a", "a/b", "a/b/c"}
        assert (await copy.plan_merge([])).items == ()
        rest = await copy.plan_merge([""])
        assert [item.path for item in rest.items] == ["a/other", "d"]


async def test_what_the_person_changed_meanwhile_is_a_conflict_and_never_overwritten(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    text = "".join(f"line {number}\n" for number in range(20))
    for name in ("both", "mine", "gone", "same"):
        (root / name).write_text(text)
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        (copy.root / "both").write_text(text.replace("line 2\n", "theirs\n"))
        (copy.root / "gone").write_text("theirs")
        (copy.root / "same").write_text("alike")
        (copy.root / "new").write_text("theirs")
        (root / "both").write_text(text.replace("line 17\n", "person\n"))
        (root / "mine").write_text("person")
        (root / "gone").unlink()
        (root / "same").write_text("alike")
        (root / "new").write_text("person")
        plan = await copy.plan_merge()
        assert {item.path: item.state for item in plan.items} == dict.fromkeys(
            ("both", "gone", "new"), "conflict"
        )
        restored = await copy.merge(plan, {"both": "merge"}, session="s", label="copy")
        assert {item.path for item in restored.skipped} == {"gone", "new"}
        both = (root / "both").read_text()
        assert "theirs\n" in both
        assert "person\n" in both
        assert "<<<" not in both
        assert (root / "mine").read_text() == (root / "new").read_text() == "person"
        assert not (root / "gone").exists()
        (copy.root / "both").write_text((copy.root / "both").read_text() + "more\n")
        again = await copy.plan_merge(["both"])
        await copy.merge(again, {"both": "merge"}, session="s", label="copy")
        assert (root / "both").read_text() == both + "more\n"


async def test_a_person_who_types_while_the_copy_is_made_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    names = [f"f{number:03}" for number in range(60)]
    for name in names:
        (root / name).write_text("begin")
    async with recording(tmp_path) as recorder:
        done = threading.Event()

        def typing() -> None:
            number = 0
            while not done.is_set():
                (root / names[number % len(names)]).write_text(f"person {number}")
                number += 1
                time.sleep(0.0005)

        person = asyncio.create_task(asyncio.to_thread(typing))
        copy = await make_copy(recorder, tmp_path / "home" / "copies")
        done.set()
        await person
        last = {name: (root / name).read_bytes() for name in names}
        had = {name: (copy.root / name).read_bytes() for name in names}
        assert await copy.changes() == ()
        for name in names:
            (copy.root / name).write_text("agent")
        plan = await copy.plan_merge()
        untouched = {item.path for item in plan.items if item.state == "change"}
        assert {item.path for item in plan.items} == set(names)
        assert untouched == {name for name in names if had[name] == last[name]}
        await copy.merge(plan, session="s", label="copy")
        assert {name: (root / name).read_bytes() for name in names} == {
            name: b"agent" if name in untouched else last[name] for name in names
        }
        await copy.close()


async def test_a_file_touched_but_not_changed_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("a")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        (recorder.root / "a").write_text("a")
        (copy.root / "a").write_text("b")
        (change,) = await copy.changes()
        assert change.before is not None
        assert recorder.store.objects.read(change.before.digest or "") == b"a"
        assert [item.state for item in (await copy.plan_merge()).items] == ["change"]


async def test_what_cannot_be_kept_is_not_brought_back(tmp_path: Path) -> None:
    async with recording(tmp_path, limit=1_000) as recorder, copied(recorder, tmp_path) as copy:
        (copy.root / "large").write_bytes(b"x" * 2_000)
        plan = await copy.plan_merge()
        assert [(item.state, item.reason) for item in plan.items] == [
            ("lost", "its contents cannot be kept: it larger than 1,000 bytes")
        ]


async def test_git_works_in_a_copy_and_leaves_the_repository_alone(tmp_path: Path) -> None:
    root = tmp_path / "work"
    repository(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "side")
    refs = git(root, "for-each-ref"), git(root, "status", "--porcelain"), git(root, "worktree", "list")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert copy.coverage.complete
        assert git(copy.root, "status", "--porcelain") == ""
        assert git(copy.root, "rev-parse", "--show-toplevel") == str(copy.root)
        (copy.root / "tracked").write_text("two\n")
        git(copy.root, "commit", "-q", "-am", "second")
        assert git(copy.root, "log", "--format=%s").split() == ["second", "first"]
        assert git(copy.root, "worktree", "list").count("\n") == 0
        git(copy.root, "gc", "-q", "--prune=now")
        assert git(copy.root, "fsck", "--no-dangling") == ""
    assert refs == (
        git(root, "for-each-ref"),
        git(root, "status", "--porcelain"),
        git(root, "worktree", "list"),
    )
    assert git(root, "fsck", "--no-dangling") == ""


@pytest.mark.sample(2)
@pytest.mark.parametrize("value", ["{root}", '"{root}"', "../../work", "/"])
async def test_a_work_tree_in_the_settings_does_not_lead_back(tmp_path: Path, value: str) -> None:
    root = (tmp_path / "work").resolve()
    repository(root)
    with (root / ".git" / "config").open("a") as config:
        config.write(f"[core]\n  WorkTree = {value.format(root=root)}\n")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert git(copy.root, "rev-parse", "--show-toplevel") == str(copy.root)
        (copy.root / "tracked").write_text("two\n")
        git(copy.root, "checkout", "-q", "-f", "main")
        assert (copy.root / "tracked").read_text() == "one\n"


async def test_a_work_tree_beside_its_repository_becomes_one_of_its_own(tmp_path: Path) -> None:
    repository(tmp_path / "main")
    git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "work"), "-b", "side")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert git(copy.root, "rev-parse", "--abbrev-ref", "HEAD") == "side"
        assert git(copy.root, "rev-parse", "--git-common-dir") == ".git"
        (copy.root / "tracked").write_text("two\n")
        git(copy.root, "commit", "-q", "-am", "second")
        assert git(copy.root, "log", "--format=%s").split() == ["second", "first"]
    assert git(tmp_path / "work", "log", "--format=%s") == "first"
    assert git(tmp_path / "main", "branch", "--format=%(refname:short)").split() == ["main", "side"]


async def test_submodules_stay_with_the_copy_and_strange_pointers_stay_behind(tmp_path: Path) -> None:
    repository(tmp_path / "library")
    repository(tmp_path / "work")
    git(tmp_path / "work", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    (tmp_path / "work" / "odd").mkdir()
    (tmp_path / "work" / "odd" / ".git").write_text(f"gitdir: {tmp_path / 'library' / '.git'}\n")
    (tmp_path / "work" / "linked").mkdir()
    (tmp_path / "work" / "linked" / ".git").symlink_to(tmp_path / "library" / ".git")
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert git(copy.root / "lib", "rev-parse", "--show-toplevel") == str(copy.root / "lib")
        assert str(copy.root) in git(copy.root / "lib", "rev-parse", "--absolute-git-dir")
        left = {item.path: item.reason for item in copy.coverage.left_out}
        assert left == dict.fromkeys(("odd/.git", "linked/.git"), "leads to a repository elsewhere")


async def test_git_does_not_find_a_repository_above_a_copy(tmp_path: Path) -> None:
    repository(tmp_path)
    async with recording(tmp_path) as recorder, copied(recorder, tmp_path) as copy:
        assert [item.path for item in copy.coverage.left_out] == [".git"]
        done = subprocess.run(
            ["git", "rev-parse", "--git-dir"], cwd=copy.root, capture_output=True, timeout=100, check=False
        )
        assert done.returncode != 0


async def test_ignored_folders_stay_behind_where_a_copy_would_be_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_folders, "cloned", lambda source, target: False)
    root = tmp_path / "work"
    repository(root)
    (root / ".gitignore").write_text("big/\n")
    for folder in ("big", "node_modules"):
        (root / folder).mkdir()
        (root / folder / "data").write_bytes(b"x" * 3_000_000)
    async with recording(tmp_path) as recorder:
        copies = tmp_path / "home" / "copies"
        copy = await make_copy(recorder, copies, most=4_000_000)
        assert len(copy.coverage.left_out) == 1
        left = copy.coverage.left_out[0]
        assert left.path in ("big", "node_modules")
        assert left.reason == "is ignored by git and has 3 MB"
        assert not (copy.root / left.path).exists()
        (copy.root / left.path).mkdir()
        (copy.root / left.path / "built").write_text("x")
        assert await copy.changes() == ()
        await copy.close()
        (root / "kept").write_bytes(b"x" * 5_000_000)
        with pytest.raises(HermesError, match="copies may have 4 MB"):
            await make_copy(recorder, copies, most=4_000_000)
        assert not list(copies.iterdir())


def test_a_copy_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StoreError, match="No copy can be made"):
            claim(tmp_path / "copies")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "copies").iterdir())


async def test_a_copy_that_nobody_waits_for_any_more_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for number in range(400):
        (tmp_path / "work" / f"{number}").write_text("x")
    async with recording(tmp_path) as recorder:
        for delay in (0.0, 0.005, 0.02):
            task = asyncio.create_task(make_copy(recorder, tmp_path / "home" / "copies"))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            copies = tmp_path / "home" / "copies"
            assert not copies.exists() or not list(copies.iterdir())


def test_copies_of_killed_processes_are_swept_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    program = (
        "import sys, time; from pathlib import Path\n"
        "from agent.workspace.isolated_copies.copy_folders import claim\n"
        "place = claim(Path(sys.argv[1])); (place.folder / 'closed').mkdir()\n"
        "(place.folder / 'closed' / 'file').write_text('x'); (place.folder / 'closed').chmod(0o500)\n"
        "print(place.id, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(copies)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    try:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        mine = claim(copies)
        assert sweep(copies) == 0
        assert {path.name for path in copies.iterdir()} == {
            *(name, f"{name}.lock", mine.id, f"{mine.id}.lock"),
        }
        child.kill()
        child.wait()
        assert sweep(copies) == 1
        assert {path.name for path in copies.iterdir()} == {mine.id, f"{mine.id}.lock"}
        mine.remove()
        mine.remove()
        assert sweep(copies) == 0
        assert sweep(copies / "missing") == 0
        last = copy_folders.claim(copies)
        assert last.folder.stat().st_mode & 0o777 == 0o700
        last.remove()
    finally:
        child.kill()
        child.communicate()
