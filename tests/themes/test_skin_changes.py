"""Seeing that a skin was edited."""

from __future__ import annotations

import os
from pathlib import Path

from themes.skin_changes import changed


def test_the_first_look_at_a_folder_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a")
    assert changed(tmp_path).changed == frozenset()


def test_new_edited_and_removed_skins_are_named_once(tmp_path: Path) -> None:
    (tmp_path / "edited.yaml").write_text("a")
    (tmp_path / "removed.yml").write_text("a")
    (tmp_path / "same.yaml").write_text("a")
    look = changed(tmp_path)
    (tmp_path / "edited.yaml").write_text("ab")
    (tmp_path / "removed.yml").unlink()
    (tmp_path / "new.yaml").write_text("a")
    look = changed(tmp_path, look.known)
    assert look.changed == {"edited", "removed", "new"}
    assert changed(tmp_path, look.known).changed == frozenset()


def test_a_file_replaced_by_one_of_equal_size_and_time_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("one")
    look = changed(tmp_path)
    times = path.stat()
    (tmp_path / "mine.yaml.new").write_text("two")
    os.utime(tmp_path / "mine.yaml.new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "mine.yaml.new").rename(path)
    assert changed(tmp_path, look.known).changed == {"mine"}


def test_a_linked_skin_changes_with_its_target(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a")
    (tmp_path / "mine.yaml").symlink_to("elsewhere")
    look = changed(tmp_path)
    (tmp_path / "elsewhere").write_text("ab")
    assert changed(tmp_path, look.known).changed == {"mine"}


def test_editor_leftovers_broken_links_and_missing_folders_are_nothing(tmp_path: Path) -> None:
    look = changed(tmp_path)
    for name in (".mine.yaml.swp", "mine.yaml~", "4913", ".#mine.yaml"):
        (tmp_path / name).write_text("x")
    (tmp_path / "broken.yaml").symlink_to("nowhere")
    (tmp_path / "folder.yaml").mkdir()
    look = changed(tmp_path, look.known)
    assert look.changed == frozenset()
    assert changed(tmp_path / "none", None).known == {}
