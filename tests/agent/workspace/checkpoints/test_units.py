"""Units are known by their contents, and the table says what becomes of each file in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.workspace.checkpoints.scan import scan
from agent.workspace.checkpoints.units import (
    NO_UNITS,
    ORDINARY,
    Units,
    kind_of,
    kinds,
    uncovered,
    units_among,
)

ROLES = {
    "HEAD": "state",
    "refs/heads/main": "state",
    "refs/heads/objects": "state",
    "index": "state",
    "logs/refs/heads/lfs": "state",
    "index.lock": "passing",
    "worktrees/w/index.lock": "passing",
    "objects/ab": "objects",
    "objects/ab/cd": "objects",
    "objects/pack/pack-1.idx": "objects",
    "objects/pack/tmp_pack_x": "passing",
    "objects/pack/multi-pack-index": "beside",
    "objects/info/commit-graph": "beside",
    "objects/pack": "store",
    "modules/a/b/objects/ab/cd": "objects",
    "lfs/objects/ab/cd/abcd": "contents",
    "annex/objects/x/y/KEY/KEY": "contents",
    "lfs/tmp/x": "bookkeeping",
    "FETCH_HEAD": "bookkeeping",
    "config": "alone",
    "hooks/pre-commit": "alone",
    "info/sparse-checkout": "state",
}


@pytest.mark.parametrize("rest", ROLES)
def test_each_file_of_a_repository_has_a_role(rest: str) -> None:
    for units, folder in ((NO_UNITS, "lib/.git"), (Units({"lib/.bare": "git"}), "lib/.bare")):
        assert units.role(f"{folder}/{rest}") == ROLES[rest]
        grouped = ROLES[rest] != "alone"
        assert units.group(f"{folder}/{rest}") == (folder if grouped else "")
        assert bool(uncovered(units, f"{folder}/{rest}")) is (ROLES[rest] in ("objects", "passing"))


def test_folders_are_of_a_kind_by_what_is_in_them(tmp_path: Path) -> None:
    for place in (".bare", "plain.git", "lib/.git", "proj"):
        for part in ("objects/ab", "refs/heads"):
            (tmp_path / place / part).mkdir(parents=True)
        (tmp_path / place / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "proj" / "main").mkdir()
    (tmp_path / "proj" / "main" / ".git").write_text("gitdir: ../worktrees/main\n")
    (tmp_path / "proj" / "main" / "refs").write_text("mine")
    (tmp_path / "notes" / "objects").mkdir(parents=True)
    (tmp_path / "notes" / "HEAD").write_text("no repository")
    (tmp_path / "lib" / ".git" / "objects" / "ab" / "cd").write_text("x")
    found = scan(tmp_path, {})
    assert found.units == {
        ".bare": "git",
        "plain.git": "git",
        "lib/.git": "git",
        "proj": "git",
        "proj/main": ORDINARY,
    }
    units = Units(found.units)
    assert "proj/main/refs" in found.changed and units.group("proj/main/refs") == ""
    assert units.group("proj/refs/heads/x") == "proj"
    assert "lib/.git/objects/ab/cd" not in found.changed and "lib/.git/objects" in found.changed
    assert units_among(found.changed).places.keys() == {".bare", "plain.git", "lib/.git", "proj"}


def test_a_repository_that_loses_its_head_stays_one(tmp_path: Path) -> None:
    (tmp_path / "bare" / "objects" / "ab").mkdir(parents=True)
    (tmp_path / "bare" / "objects" / "ab" / "cd").write_text("x")
    found = scan(tmp_path, {}, units=Units({"bare": "git"}))
    assert found.units == {"bare": "git"} and "bare/objects/ab/cd" not in found.changed


def test_the_top_of_a_workspace_can_be_a_repository_with_work_trees_in_it() -> None:
    units = Units({".": "git", "main": ORDINARY})
    assert units.group("refs/heads/main") == "." and units.role("objects/ab") == "objects"
    assert units.part("main/src/a.py") is None


def test_every_kind_of_the_table_can_be_found() -> None:
    for kind in kinds().values():
        entries = {sign.rstrip("/").replace("*", "1"): sign.endswith("/") for sign in kind.holds}
        assert kind_of("folder", entries) == kind.name
