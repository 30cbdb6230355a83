"""The folder of checkpoints: private, of one format, and used by many at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import StoreError
from agent.workspace.checkpoints.step_log import BusyError
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.support import add, write


def test_a_store_is_made_where_there_is_none_and_for_its_owner_only(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "deep/checkpoints")
    write(store, "a", b"x")
    with store.sharing():
        pass
    for folder, _, files in os.walk(store.folder):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert {stat.S_IMODE((Path(folder) / name).stat().st_mode) for name in files} <= {0o600}
    assert CheckpointStore(store.folder).line("s").last == 1


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex' and no checkpoints"):
        CheckpointStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("text", [b"hermes-checkpoints 2\n", b"somebody else\n", b"", b"\xff\xfe"])
def test_another_format_is_refused_and_left_alone(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "format").write_bytes(text)
    with pytest.raises(StoreError, match="does not know; update Hermes"):
        CheckpointStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["format"]
    assert (tmp_path / "format").read_bytes() == text


@pytest.mark.parametrize("left", [b"", b"hermes-che", b"hermes-checkpo\0\0\0\0\0\0\0", b"\0" * 21])
def test_a_store_whose_format_a_dying_disk_tore_goes_on(tmp_path: Path, left: bytes) -> None:
    CheckpointStore(tmp_path)
    whole = (tmp_path / "format").read_bytes()
    (tmp_path / "objects").mkdir(exist_ok=True)
    (tmp_path / "format").write_bytes(left)
    CheckpointStore(tmp_path)
    assert (tmp_path / "format").read_bytes() == whole


def test_a_store_whose_making_was_cut_off_is_made_all_the_same(tmp_path: Path) -> None:
    (tmp_path / ".new-0123").write_bytes(b"herm")
    assert CheckpointStore(tmp_path).sessions() == ()


def test_a_file_in_place_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(StoreError, match="Not a directory"):
        CheckpointStore(tmp_path / "checkpoints")


@pytest.mark.thorough
def test_many_may_begin_the_same_store_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from agent.workspace.checkpoints.store import CheckpointStore\n"
        "CheckpointStore(Path(sys.argv[1])).objects.add(sys.argv[1].encode())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "checkpoints")]
    makers = [subprocess.Popen(command, cwd=Path.cwd()) for _ in range(4)]
    assert [maker.wait(60) for maker in makers] == [0] * 4
    assert len(list(CheckpointStore(tmp_path / "checkpoints").objects.names())) == 1


def test_sessions_are_those_with_a_line(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert store.sessions() == ()
    add(store, session="b")
    add(store, session="a")
    (store.lines / "notes.txt").write_text("x")
    (store.lines / ".hidden.log").write_text("x")
    (store.lines / "an odd name.log").write_text("x")
    assert store.sessions() == ("a", "b")
    assert store.line("a") is store.line("a")


def test_who_adds_shares_and_who_clears_is_alone(tmp_path: Path) -> None:
    store, other = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    with store.sharing(), other.sharing(), store.sharing():
        with pytest.raises(BusyError, match="wait for it or end it"), other.alone(0.01):
            pass
        write(store, "a", b"x")
    with store.alone():
        with pytest.raises(BusyError), other.alone(0.01):
            pass
    with other.alone(0):
        pass


def test_the_size_counts_whole_blocks_of_every_file(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    assert store.size() == 4096
    store.objects.add(os.urandom(5000))
    assert store.size() == 4096 + 8192
