"""The search path of the program is its own."""

from __future__ import annotations

from pathlib import Path

import hermes_launcher
from hermes_launcher import own_search_path

OWN = str(Path(hermes_launcher.__file__).parent)


def test_the_current_folder_and_pythonpath_leave_the_search_path(tmp_path: Path) -> None:
    project, library = tmp_path / "project", tmp_path / "library"
    path = ["", str(project), str(library), "/usr/lib/python3"]
    assert own_search_path(path, {"PYTHONPATH": str(library)}, str(project)) == ["/usr/lib/python3"]


def test_a_link_to_the_current_folder_leaves_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert own_search_path([str(tmp_path / "link")], {}, str(tmp_path / "real")) == []


def test_our_own_folder_stays_even_as_the_current_one() -> None:
    assert own_search_path([OWN, "x"], {"PYTHONPATH": OWN}, OWN) == [OWN, "x"]
