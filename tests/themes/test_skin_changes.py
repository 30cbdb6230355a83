"""Seeing that a skin was edited."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from themes.skin_changes import file_state


def _replaced_by_one_of_equal_size_and_time(folder: Path) -> None:
    times = (folder / "mine.yaml").stat()
    new = folder / "mine.yaml.new"
    new.write_text("b")
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.rename(folder / "mine.yaml")


def _beside_it(folder: Path) -> None:
    for name in (".mine.yaml.swp", "mine.yaml~", "4913", ".#mine.yaml", "other.yaml"):
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("edit", "is_change"),
    [
        (lambda folder: (folder / "mine.yaml").write_text("ab"), True),
        (lambda folder: (folder / "mine.yaml").unlink(), True),
        (lambda folder: (folder / "mine.yml").write_text("a"), True),
        (_replaced_by_one_of_equal_size_and_time, True),
        (_beside_it, False),
        (lambda folder: (folder / "mine.yml").mkdir(), False),
        (lambda folder: (folder / "mine.yml").symlink_to("nowhere"), False),
    ],
)
def test_what_happens_to_the_file_of_a_skin_is_seen_and_nothing_else(
    tmp_path: Path, edit: Callable[[Path], object], is_change: bool
) -> None:
    (tmp_path / "mine.yaml").write_text("a")
    before = file_state(tmp_path, "mine")
    assert before == file_state(tmp_path, "mine") != ()
    edit(tmp_path)
    assert (file_state(tmp_path, "mine") != before) == is_change


def test_a_linked_skin_changes_with_its_target(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a")
    (tmp_path / "mine.yaml").symlink_to("elsewhere")
    before = file_state(tmp_path, "mine")
    (tmp_path / "elsewhere").write_text("ab")
    assert file_state(tmp_path, "mine") != before


def test_no_name_leads_out_of_the_folder_and_a_missing_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a")
    (tmp_path / "skins").mkdir()
    assert file_state(tmp_path / "skins", "../mine") == ()
    assert file_state(tmp_path / "none", "mine") == ()
