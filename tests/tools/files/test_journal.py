"""A patch over several files that is killed in between is finished by whoever starts next."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tools.files.committing import Finished, finish_all, written_down
from tools.files.planning import Delete, OnDisk, Rename, Write

CHILD = """
import os, signal, sys
from pathlib import Path
root, journal, moment = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
import tools.files.committing as committing
from tests.tools.files.test_journal import effects
from tools.files.committing import written_down
count = 0
def dying(act):
    def counted(*arguments, **options):
        global count
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        return act(*arguments, **options)
    return counted
os.replace, os.rename, os.unlink = map(dying, (os.replace, os.rename, os.unlink))
with written_down(journal, effects(root), "session", root) as token:
    committing.commit(effects(root), str, token)
"""


def effects(root: Path) -> list[Write | Rename | Delete]:
    """Four files changed, one made in a new folder, one moved, one deleted, one that is unread replaced."""

    def disk(name: str, *, read: bool = True) -> OnDisk:
        path = root / name
        return OnDisk(path.lstat(), path.read_bytes() if read else None)

    return [
        *(Write(root / f"f{n}", b"new %d\n" % n, disk(f"f{n}")) for n in range(4)),
        Write(root / "made" / "here", b"made\n", None, root / "f0", executable=True),
        Rename(root / "from", root / "made" / "to", disk("from", read=False)),
        Delete(root / "gone", disk("gone", read=False)),
        Write(root / "unread", b"other\n", disk("unread", read=False)),
    ]


def plant(root: Path) -> None:
    root.mkdir()
    for name in ("f0", "f1", "f2", "f3", "from", "gone", "unread"):
        (root / name).write_text(f"old {name}\n")


def tree(root: Path) -> dict[str, str]:
    return {str(each.relative_to(root)): each.read_text() for each in root.rglob("*") if each.is_file()}


OLD = {name: f"old {name}\n" for name in ("f0", "f1", "f2", "f3", "from", "gone", "unread")}
NEW = {
    **{f"f{n}": f"new {n}\n" for n in range(4)},
    "made/here": "made\n",
    "made/to": "old from\n",
    "unread": "other\n",
}


@pytest.mark.thorough
@pytest.mark.parametrize("moment", [0, 1, 3, 5, 6, 7, 8, 9])
def test_a_patch_that_was_killed_is_whole_after_the_next_start(tmp_path: Path, moment: int) -> None:
    root, journal = tmp_path / "work", tmp_path / "edits"
    plant(root)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), str(journal), str(moment)],
        cwd=Path(__file__).resolve().parents[3],
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    finished = finish_all(journal)
    if moment == 0:
        # Killed before the plan was on the disk: nothing was begun.
        assert finished == [] and tree(root) == OLD and not list(journal.iterdir())
        return
    (done,) = finished
    assert tree(root) == NEW
    assert stat.S_IMODE((root / "made" / "here").stat().st_mode) & 0o100
    assert done.task == "session" and not done.left
    assert done.sentence().startswith("A patch was cut off; it is finished now: f0, f1, f2, f3, made/here, ")
    assert finish_all(journal) == [] and not list(journal.iterdir())


def test_what_somebody_changed_since_stays_and_is_named(tmp_path: Path) -> None:
    root, journal = tmp_path / "work", tmp_path / "edits"
    plant(root)
    cut_off(root, journal)
    (root / "f1").write_text("theirs\n")
    (root / "gone").write_text("theirs\n")
    (done,) = finish_all(journal)
    assert tree(root) == {**NEW, "f1": "theirs\n", "gone": "theirs\n"}
    assert done.left == ("f1", "gone")
    assert done.sentence().endswith(" f1, gone changed since and stay as found.")


def test_a_patch_at_work_is_let_be_and_one_that_ended_leaves_nothing(tmp_path: Path) -> None:
    root, journal = tmp_path / "work", tmp_path / "edits"
    plant(root)
    with written_down(journal, effects(root), "session", root):
        (file,) = journal.glob("*.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(journal.stat().st_mode) == 0o700
        assert finish_all(journal) == []
    assert tree(root) == OLD and not list(journal.iterdir())


@pytest.mark.parametrize("text", ["", "null", "[]", '{"format": 1}', '{"format": 2}', "{" * 10_000])
def test_a_broken_journal_does_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert finish_all(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_one_file_or_no_folder_needs_no_journal(tmp_path: Path) -> None:
    root, journal = tmp_path / "work", tmp_path / "edits"
    plant(root)
    with written_down(journal, effects(root)[:1], "s", root), written_down(None, effects(root), "s", root):
        assert not journal.exists()


def test_many_files_are_counted() -> None:
    text = Finished("s", "/w", tuple(map(str, range(20))), ()).sentence()
    assert text.endswith("10, 11 and 8 more.")


def cut_off(root: Path, journal: Path) -> None:
    """Leave a journal as a killed process does."""
    with written_down(journal, effects(root), "session", root):
        (file,) = journal.glob("*.json")
        data = file.read_bytes()
    (journal / file.name).write_bytes(data)
    assert os.path.lexists(journal / file.name)
