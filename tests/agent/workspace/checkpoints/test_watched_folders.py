"""A look that reads only the folders with events gives what a look at everything gives."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.workspace.checkpoints import scan as scanning
from agent.workspace.checkpoints import watched_folders
from agent.workspace.checkpoints.entries import KnownPath, PathEntry, PathKind, is_settled, stamp_of
from agent.workspace.checkpoints.scan import ManifestScan, scan
from agent.workspace.checkpoints.units import NO_UNITS, Units
from agent.workspace.checkpoints.watched_folders import WatchedFolders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems give no watches")

ENTRY = PathEntry(PathKind.FILE, 0o644)
FOLDERS = ("a", "a/b", "a/b/c", "a-b", "d", "d/e", ".git", ".git/refs/heads", "d/.git", "n/m")
FILES = ("x", "y", "HEAD", "index", ".git")


class Looker:
    """What a register knows of a workspace, by looks of both kinds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, KnownPath] = {}
        self.units: Units = NO_UNITS
        self.watches = WatchedFolders(root)

    def look(self) -> ManifestScan:
        """Look at what has events, hold it against a look at everything, and return it."""
        found = scan(self.root, self.known, units=self.units, watches=self.watches)
        whole = scan(self.root, self.known, units=self.units)
        assert found.changed.keys() == whole.changed.keys()
        assert sorted(found.gone) == sorted(whole.gone)
        assert set(found.left_out) == set(whole.left_out)
        assert found.units == whole.units
        assert {key: sorted(names) for key, names in found.linked.items()} == {
            key: sorted(names) for key, names in whole.linked.items()
        }
        return found

    def accept(self, found: ManifestScan, settled: bool = True) -> None:
        """Take what was found as known; as if it had been so for long, with `settled`."""
        for path in found.gone:
            del self.known[path]
        for path, status in found.changed.items():
            self.known[path] = KnownPath(stamp_of(status), settled or is_settled(status), ENTRY)
        self.units = Units(found.units)


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The folders whose names were read."""
    read: list[str] = []
    listed = scanning._list_folder

    def noting(descriptor: int, prefix: str, found: ManifestScan) -> list[tuple[str, os.stat_result]]:
        read.append(prefix.rstrip("/"))
        return listed(descriptor, prefix, found)

    monkeypatch.setattr(scanning, "_list_folder", noting)
    yield read


def _tree(root: Path) -> Looker:
    for folder in ("", *FOLDERS):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "x").write_text(f"in {folder}")
    looker = Looker(root)
    looker.accept(scan(root, {}, watches=looker.watches))
    looker.accept(looker.look())
    return looker


def _act(root: Path, chance: random.Random) -> bool:
    """Do something that a program may do to a tree; return whether a file got another name by it.

    One that also loses that name before the next look leaves no trace where the file is.
    """
    folder, other = root / chance.choice(("", *FOLDERS)), root / chance.choice(FOLDERS)
    file = folder / chance.choice(FILES)
    kind = chance.randrange(13)
    match kind:
        case 0 | 1 | 2:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(str(chance.random()))
        case 3:
            file.unlink()
        case 4:
            shutil.rmtree(other)
        case 5 | 6:
            other.rename(root / chance.choice(FOLDERS))
        case 7:
            file.rename(other / chance.choice(FILES))
        case 8:
            os.link(file, other / chance.choice(FILES))
        case 9:
            os.symlink("x", folder / chance.choice(FILES))
        case 10:
            # A folder of that name must stay open to those who are not root.
            file.chmod(chance.choice((0o700, 0o755) if file.is_dir() else (0o600, 0o644, 0o755)))
        case 11:
            other.chmod(chance.choice((0o700, 0o755)))
        case 12:
            with file.open("a") as written:
                written.write("more")
    return kind == 8


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_both_looks_find_the_same(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    root = tmp_path_factory.mktemp("tree")
    looker = _tree(root)
    for _ in range(12):
        for _ in range(chance.randrange(4)):
            try:
                if _act(root, chance):
                    break
            except OSError:
                continue
        found = looker.look()
        if chance.random() < 0.7:
            looker.accept(found, settled=chance.random() < 0.8)
    looker.watches.close()
    shutil.rmtree(root)


def test_a_program_s_changes_are_all_found_when_it_has_ended(tmp_path: Path) -> None:
    looker = _tree(tmp_path)
    for line in (
        "git init -q . && git add a && git -c user.name=n -c user.email=e@f commit -qm one",
        "git checkout -q -b side && git mv a/x a/z && mkdir -p new/deep/er && echo 1 > new/deep/er/f",
        "mv new d/new && cp -r d d2 && rm -rf a && ln -s d2 a",
        "tar cf t.tar d && rm -r d && tar xf t.tar && touch -d '2001-01-01' d/x && chmod 700 d2",
    ):
        subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        found = looker.look()
        assert found.changed or found.gone
        looker.accept(found)
    looker.watches.close()


def test_only_folders_with_events_are_read(tmp_path: Path, folders: list[str]) -> None:
    looker = _tree(tmp_path)
    folders.clear()
    scan(tmp_path, looker.known, units=looker.units, watches=looker.watches)
    assert folders == []
    (tmp_path / "a/b/x").write_text("changed")
    assert list(scan(tmp_path, looker.known, units=looker.units, watches=looker.watches).changed) == ["a/b/x"]
    assert folders == ["a/b"]


def test_a_difference_is_found_again_until_it_is_known(tmp_path: Path) -> None:
    looker = _tree(tmp_path)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "d/x").write_text("changed")
    first = looker.look()
    again = looker.look()
    assert first.changed.keys() == again.changed.keys()
    assert first.gone == again.gone
    assert "a/b/c/x" in first.gone
    looker.accept(again)
    assert not looker.look().gone


def test_a_file_that_changes_under_its_other_name_is_found(tmp_path: Path) -> None:
    looker = _tree(tmp_path / "root")
    os.link(tmp_path / "root/a/x", tmp_path / "root/d/e/further")
    looker.accept(looker.look())
    os.link(tmp_path / "root/a/x", tmp_path / "outside")
    (tmp_path / "outside").write_text("written outside")
    assert sorted(looker.look().changed) == ["a/x", "d/e/further"]


def test_lost_events_have_everything_read(tmp_path: Path, folders: list[str]) -> None:
    looker = _tree(tmp_path)
    for number in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 10):
        (tmp_path / "n" / str(number % 2)).touch()
    folders.clear()
    looker.accept(scan(tmp_path, looker.known, units=looker.units, watches=looker.watches))
    assert "a/b/c" in folders
    folders.clear()
    scan(tmp_path, looker.known, units=looker.units, watches=looker.watches)
    assert "a/b/c" not in folders


def test_without_watches_everything_is_read(
    tmp_path: Path, folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MOST", 3), ("LOCAL", frozenset()), ("LASTS", -1.0)):
        with monkeypatch.context() as patch:
            patch.setattr(watched_folders, name, value)
            looker = _tree(tmp_path / name)
            (tmp_path / name / "d/x").write_text("changed")
            folders.clear()
            assert list(
                scan(looker.root, looker.known, units=looker.units, watches=looker.watches).changed
            ) == ["d/x"]
            assert "a/b/c" in folders


def test_a_workspace_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    looker = _tree(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "old")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/other").write_text("here")
    found = looker.look()
    assert "other" in found.changed
    assert "a/b/c/x" in found.gone
