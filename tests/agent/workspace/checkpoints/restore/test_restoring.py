"""Files go back exactly, and nothing that somebody else wrote is overwritten without being asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind
from agent.workspace.checkpoints.restore.apply import finish_abandoned, new_restore, record_restore
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.restore.ref_plan import CHANGED_BETWEEN, CHANGED_SINCE, Choice
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import LINE, Workspace, look

ODD = [
    "plain",
    "with space",
    "-dash",
    "new\nline",
    "naïve",
    os.fsdecode(b"\xff\xfe"),
    "ümlaut",
    '"quote"',
    "*",
]
MEMORY = Path("/dev/shm")
ROOT = Path(__file__).parents[5]


def grow(root: Path, choices: list[tuple[int, int, int]]) -> None:
    """Make and change things below a folder, as the numbers say."""
    for name, kind, more in choices:
        parts = [ODD[name % len(ODD)], *([ODD[more % len(ODD)]] if more % 3 == 0 else [])]
        path = root.joinpath(*parts)
        with_parents(path, root)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        match kind % 6:
            case 0 | 1:
                path.write_bytes(bytes([more % 256]) * (more % 5_000))
                path.chmod((0o644, 0o755, 0o600, 0o444, 0o4755)[more % 5])
            case 2:
                path.symlink_to(("nowhere", "../../escape", ODD[more % len(ODD)])[more % 3])
            case 3:
                path.mkdir()
                path.chmod((0o755, 0o700, 0o1777)[more % 3])
            case 4:
                path.mkdir()
                (path / "inner").write_text(str(more))
                path.chmod((0o755, 0o555)[more % 2])
            case _:
                pass


def with_parents(path: Path, root: Path) -> None:
    for parent in reversed([p for p in path.parents if p != root and root in p.parents]):
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            parent.unlink()
        parent.mkdir(exist_ok=True)


numbers = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 9_999))
changes = st.lists(numbers, max_size=12)


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(st.lists(changes, min_size=2, max_size=4))
def test_every_position_is_reached_exactly_and_left_again(rounds: list[list[tuple[int, int, int]]]) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        work = Workspace(folder / "work", CheckpointStore(folder / "home" / "checkpoints"))
        work.root.mkdir()
        positions = [(0, look(work.root))]
        for each in rounds:
            before = work.state()
            grow(work.root, each)
            positions.append((work.step(before).number, look(work.root)))
        for position, expected in [*reversed(positions), *positions]:
            now = look(work.root)
            restored = work.restore(position)
            assert restored.skipped == ()
            assert look(work.root) == expected
            if restored.step is not None:
                assert work.undo().skipped == ()
                assert look(work.root) == now
                assert work.undo().skipped == ()
                assert look(work.root) == expected
    finally:
        shutil.rmtree(folder)


def edited(work: Workspace, name: str = "a.txt") -> Path:
    """A file that a step of ours changed from `one` to `two`."""
    path = work.root / name
    path.write_text("head\none\nmiddle\ntail\n")
    before = work.state()
    path.write_text("head\ntwo\nmiddle\ntail\n")
    work.step(before)
    return path


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("mine", "head\ntwo\nmiddle\nTAIL\n"),
        ("checkpoint", "head\none\nmiddle\ntail\n"),
        ("merge", "head\none\nmiddle\nTAIL\n"),
    ],
)
def test_what_the_person_changed_since_is_theirs_to_decide(
    work: Workspace, choice: Choice, expected: str
) -> None:
    path = edited(work)
    path.write_text("head\ntwo\nmiddle\nTAIL\n")
    (item,) = work.plan(0).items
    assert (item.state, item.reason) == ("conflict", CHANGED_SINCE)
    work.restore(0, {"a.txt": choice})
    assert path.read_text() == expected
    if choice != "mine":
        work.undo()
        assert path.read_text() == "head\ntwo\nmiddle\nTAIL\n"


def test_a_conflict_nobody_decided_stays_as_it_is(work: Workspace) -> None:
    path = edited(work)
    path.write_text("mine")
    restored = work.restore(0)
    assert path.read_text() == "mine"
    assert restored.step is None
    assert [item.path for item in restored.skipped] == ["a.txt"]
    assert "1 left as it is: a.txt changed since" in restored.sentence()


def test_what_the_person_changed_between_two_steps_survives_a_merge(
    work: Workspace,
) -> None:
    path = edited(work)
    path.write_text("head\ntwo\nmiddle\nTAIL\n")
    before = work.state()
    path.write_text("HEAD\ntwo\nmiddle\nTAIL\n")
    work.step(before)
    (item,) = work.plan(0).items
    assert (item.state, item.reason) == ("conflict", CHANGED_BETWEEN)
    work.restore(0, {"a.txt": "merge"})
    assert path.read_text() == "head\none\nmiddle\nTAIL\n"


def test_a_file_the_person_put_into_a_folder_of_ours_keeps_the_folder(work: Workspace) -> None:
    before = work.state()
    (work.root / "made").mkdir()
    (work.root / "made" / "ours").write_text("x")
    work.step(before)
    (work.root / "made" / "theirs").write_text("y")
    restored = work.restore(0)
    assert look(work.root).keys() == {"made", "made/theirs"}
    assert [(item.path, item.reason) for item in restored.skipped] == [
        ("made", "holds something else and stays")
    ]


def test_a_folder_the_person_turned_into_a_link_is_not_followed(work: Workspace, tmp_path: Path) -> None:
    (work.root / "sub").mkdir()
    (work.root / "sub" / "file").write_text("one")
    before = work.state()
    (work.root / "sub" / "file").write_text("two")
    work.step(before)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("not yours")
    shutil.rmtree(work.root / "sub")
    (work.root / "sub").symlink_to(outside)
    restored = work.restore(0, {"sub/file": "checkpoint"})
    assert (outside / "file").read_text() == "not yours"
    assert restored.step is None


def test_single_files_and_folders_are_restored_alone(work: Workspace) -> None:
    for name in ("a/one", "a/two", "ab", "c"):
        (work.root / name).parent.mkdir(exist_ok=True)
        (work.root / name).write_text("old")
    before = work.state()
    for name in ("a/one", "a/two", "ab", "c"):
        (work.root / name).write_text("new")
    work.step(before)
    work.apply(work.plan(0, ["a", "c"]))
    texts = {name: (work.root / name).read_text() for name in ("a/one", "a/two", "ab", "c")}
    assert texts == {"a/one": "old", "a/two": "old", "ab": "new", "c": "old"}


def test_contents_that_are_gone_from_the_store_are_named_and_nothing_is_touched(work: Workspace) -> None:
    path = edited(work)
    (change,) = work.store.line("session").steps()[0].changes
    assert change.before is not None and change.before.digest is not None
    work.store.objects.discard(change.before.digest)
    (item,) = work.plan(0).items
    assert item.state == "lost"
    work.restore(0)
    assert path.read_text() == "head\ntwo\nmiddle\ntail\n"


def test_damaged_contents_never_reach_the_workspace(work: Workspace) -> None:
    path = edited(work)
    (change,) = work.store.line("session").steps()[0].changes
    assert change.before is not None and change.before.digest is not None
    stored = work.store.objects.folder / change.before.digest[:2] / change.before.digest
    stored.write_bytes(b"\0head\nONE\n")
    restored = work.restore(0)
    assert path.read_text() == "head\ntwo\nmiddle\ntail\n"
    assert "damaged" in restored.skipped[0].reason
    assert list(work.root.iterdir()) == [path]


MOUNTED = """
import sys
from pathlib import Path
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import Workspace
root, home = map(Path, sys.argv[1:])
work = Workspace(root, CheckpointStore(home))
before = work.state()
(root / "a").write_text("newer and longer")
work.step(before)
print(work.restore(0).skipped, (root / "a").read_text())
"""


@pytest.mark.skipif(not shutil.which("bwrap"), reason="nothing here mounts files")
def test_a_file_that_is_mounted_by_itself_goes_back_in_place(work: Workspace, tmp_path: Path) -> None:
    (work.root / "a").write_text("below")
    (tmp_path / "outside").write_text("old")
    mounted = ["bwrap", "--dev-bind", "/", "/", "--bind", tmp_path / "outside", work.root / "a"]
    script = [sys.executable, "-c", MOUNTED, work.root, tmp_path / "home" / "checkpoints"]
    done = subprocess.run([*mounted, *script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "() old\n"
    assert sorted(path.name for path in work.root.iterdir()) == ["a"]


def test_hard_links_are_one_file_again(work: Workspace) -> None:
    from dataclasses import replace

    from agent.workspace.checkpoints.entries import PathChange

    one, two = work.root / "one", work.root / "two"
    one.write_text("both")
    two.hardlink_to(one)
    before = work.state()
    entries = {name: replace(before[name], twin=twin) for name, twin in (("one", "two"), ("two", "one"))}  # type: ignore[type-var]
    two.unlink()
    two.write_text("apart")
    after = work.state()
    line = work.store.line("session")
    changes = [PathChange(name, entries[name], after[name]) for name in ("one", "two")]
    line.append(kind="tool", session="s", call="c", label="l", root=str(work.root), changes=changes)
    work.restore(0)
    assert one.read_text() == two.read_text() == "both"
    assert one.stat().st_ino == two.stat().st_ino


def test_objects_of_git_are_never_touched(work: Workspace) -> None:
    place = work.root / ".git" / "objects" / "ab"
    place.mkdir(parents=True)
    (place / "one").write_text("one")
    before = {".git/objects/ab/one": work.state().get(".git/objects/ab/one")}
    (place / "one").write_text("two")
    work.step(before)
    assert ".git/objects/ab/one" not in {item.path for item in work.plan(0).items}


@pytest.mark.thorough
def test_a_thousand_files_leave_no_temporary_ones_behind(work: Workspace) -> None:
    for number in range(300):
        (work.root / f"{number}").write_text("old")
    before = work.state()
    for number in range(300):
        (work.root / f"{number}").write_text("new")
    work.step(before)
    restored = work.restore(0)
    assert restored.step is not None and len(restored.step.changes) == 300
    assert len(list(work.root.iterdir())) == 300
    assert not list(work.store.pending.iterdir())


def forged(work: Workspace, paths: list[str], twin: str = "") -> None:
    """Write a step into the log that says that `paths` were something else before."""
    earlier = PathEntry(PathKind.FILE, 0o600, 4, 0, work.store.objects.add(b"evil"), twin=twin)
    changes = [PathChange(path, earlier, take_now(path)) for path in paths]
    work.store.line(LINE).append(
        kind="tool", session=LINE, call="forged", label="a step", root=str(work.root), changes=changes
    )


def take_now(path: str) -> PathEntry | None:
    return PathEntry(PathKind.FILE, 0o644, 3, 0, "0" * 64) if Path(path).is_file() else None


def test_a_forged_log_leads_nowhere_but_to_notes_and_skills(work: Workspace, tmp_path: Path) -> None:
    home, victim = tmp_path / "home", tmp_path / "victim"
    for folder in (home / "memories", home / "skills" / "own", victim):
        folder.mkdir(parents=True)
    for name in ("file", ".bashrc"):
        (victim / name).write_text("as")
    (home / "config.yaml").write_text("as")
    (home / "skills" / "out").symlink_to(victim)
    wrong = [
        str(victim / "file"),
        str(victim / "new"),
        str(home / "config.yaml"),
        str(home / "memories"),
        f"{home}/memories/../config.yaml",
        f"{home}/memories/../../victim/new",
        f"{home}/skills/out/file",
        f"{home}/skills/out/new",
        "../victim/new",
        "lib/../../victim/file",
    ]
    right = [f"{home}/memories/note.md", f"{home}/skills/own/SKILL.md", "code"]
    before = look(victim)
    forged(work, [*wrong, *right])
    restored = work.restore(0)
    assert {item.path for item in restored.skipped} == set(wrong)
    assert all("left alone" in item.reason for item in restored.skipped)
    assert look(victim) == before and (home / "config.yaml").read_text() == "as"
    assert [Path(work.root, path).read_text() for path in right] == ["evil"] * 3
    assert "left alone" in restored.sentence()


def test_a_forged_log_makes_no_second_name_of_a_file_elsewhere(work: Workspace, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("evil")
    (tmp_path / "victim").chmod(0o600)
    forged(work, ["code"], twin=str(tmp_path / "victim"))
    assert [item.path for item in work.restore(0).skipped] == ["code"]
    assert (tmp_path / "victim").stat().st_nlink == 1


def test_a_forged_restore_that_was_cut_off_is_not_finished(work: Workspace, tmp_path: Path) -> None:
    wanted = PathEntry(PathKind.FILE, 0o600, 4, 0, work.store.objects.add(b"evil"))
    pending = new_restore(LINE, LINE, "back", str(work.root), [Move(str(tmp_path / "victim"), None, wanted)])
    with suppress(KeyboardInterrupt), record_restore(work.store.pending, pending):
        raise KeyboardInterrupt
    [told] = finish_abandoned(work.store)
    assert "victim" in told and "left alone" in told
    assert not (tmp_path / "victim").exists() and finish_abandoned(work.store) == ()
