"""The prompt offers the files of the project."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from app.tui.conversation import mentions
from app.tui.conversation.mentions import files_of
from tools.files import searching
from tools.files.searching import SearchRequest


def test_files_are_listed_without_ignored_ones_and_noise(tmp_path: Path) -> None:
    for name in ("src/main.py", "node_modules/x.js", "build/out.o", ".env.example", "odd name\n.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert sorted(files_of(tmp_path)()) == [".env.example", ".gitignore", "odd name\n.txt", "src/main.py"]


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert files_of(tmp_path / "gone")() == []


def test_of_very_many_files_some_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number}.c").write_text("")
    monkeypatch.setattr(mentions, "MAX_FILES", 20)
    found = files_of(tmp_path)()
    assert len(found) == len(set(found)) == 20
    assert set(found) < {f"{number}.c" for number in range(50)}


def test_where_time_runs_out_what_was_found_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        (tmp_path / f"{number}.c").write_text("")
    monkeypatch.setattr(mentions, "SECONDS", -1.0)
    assert len(files_of(tmp_path)()) == 1


def test_a_listing_that_breaks_off_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(request: SearchRequest, ending: object, stop: object) -> Generator[bytes, None, None]:
        yield b"./found.c"
        raise OSError("the disk is gone")

    monkeypatch.setattr(searching, "records", breaks)
    assert files_of(tmp_path)() == ["found.c"]


def test_pipes_sockets_and_loops_of_links_hold_up_no_listing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "here").symlink_to("here")
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "plain.c").write_text("")
    assert "plain.c" in files_of(tmp_path)()


def test_without_ripgrep_files_in_folders_are_listed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").write_text("")
    monkeypatch.setattr(searching, "find_ripgrep", lambda: None)
    assert files_of(tmp_path)() == ["a/b/c.py"]
