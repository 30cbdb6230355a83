"""Whose folder a step was made in."""

from __future__ import annotations

from pathlib import Path

from agent.workspace.checkpoints.entries import Step
from agent.workspace.checkpoints.root_identity import identity, strangers


def made_in(root: Path, place: str) -> Step:
    return Step(1, "tool", "s", "", "", 0.0, str(root), (), place=place)


def test_a_renamed_folder_is_known_again(tmp_path: Path) -> None:
    (root := tmp_path / "work").mkdir()
    step = made_in(root, identity(root))
    assert strangers([step], root.rename(tmp_path / "renamed")) == ()


def test_a_folder_that_got_the_number_of_the_one_around_it_is_another_one(tmp_path: Path) -> None:
    # As after a backup was put back: file systems give the numbers of removed folders to new ones.
    inner = tmp_path / "work" / "out"
    inner.mkdir(parents=True)
    step = made_in(inner.parent, identity(inner))
    assert strangers([step], inner) == (step,)
    assert strangers([made_in(inner, identity(inner))], inner) == ()
