"""The cache of paths during a decision."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.places import PathCache, cached_paths, current


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "file").write_text("x")
        (root / "up").symlink_to("a/b")
        (root / "a" / "b" / "back").symlink_to("../../up/..")
        (root / "gone").symlink_to("nowhere/at/all")
        (root / "loop").symlink_to("loop")
        (root / "full").symlink_to(root / "a")
        yield root


NAMES = st.sampled_from(["a", "b", "file", "up", "back", "gone", "full", "nowhere", "..", ".", "", "x"])


@given(st.lists(st.lists(NAMES, max_size=7), min_size=1, max_size=6))
def test_paths_lead_where_the_system_says(tree: Path, paths: list[list[str]]) -> None:
    look = PathCache()
    for names in paths:
        path = "/".join([str(tree), *names])
        assert look.real(path) == os.path.realpath(path)
        if look.missing(path):
            assert not os.path.lexists(os.path.realpath(path))


def test_a_link_to_itself_ends(tree: Path) -> None:
    assert PathCache().real(f"{tree}/loop/x").endswith("loop/x")


def test_a_very_deep_path_is_followed_too(tree: Path) -> None:
    assert PathCache().real(f"{tree}/up" + "/x" * 300) == f"{tree}/a/b" + "/x" * 300


def test_what_no_path_can_be_is_not_missing() -> None:
    assert PathCache().missing("/a\0b") is False


def test_the_disk_is_asked_once_while_a_look_lasts_and_anew_after_it(tmp_path: Path) -> None:
    root = str(tmp_path.resolve())
    with cached_paths() as look:
        assert look.real(f"{root}/x") == f"{root}/x"
        (tmp_path / "y").mkdir()
        (tmp_path / "x").symlink_to("y")
        with cached_paths():
            assert current().real(f"{root}/x") == f"{root}/x"
    assert current().real(f"{root}/x") == f"{root}/y"


def test_very_deep_paths_lead_where_the_system_says(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "there").mkdir()
    (folder / "link").symlink_to(folder / "there")
    look = PathCache()
    for start in ("there", "link", "missing"):
        for name in ("x", "..", ".", "link"):
            deep = f"{folder}/{start}" + f"/{name}" * 200
            assert look.real(deep) == os.path.realpath(deep)
    assert look.missing(f"{folder}/missing" + "/x" * 200)
    assert not look.missing(f"{folder}/there" + "/." * 200)


def test_a_path_is_itself_unless_a_link_or_a_second_name_is_on_the_way(tree: Path) -> None:
    (tree / "a" / "one").write_text("x")
    os.link(tree / "a" / "one", tree / "a" / "other")
    look = PathCache()
    told = {path: look.is_itself(f"{tree}/{path}") for path in ("a", "a/file", "a/b", "a/new", "a/new/er")}
    assert all(told.values()), told
    told = {
        path: look.is_itself(f"{tree}/{path}") for path in ("up", "full/file", "full/new", "gone", "loop")
    }
    assert not any(told.values()), told
    assert not look.is_itself(f"{tree}/a/one")
    assert not look.is_itself(f"{tree}/a/./file")
    assert not look.is_itself("a/file")


def test_many_names_of_one_folder_lead_where_the_system_says(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "there").mkdir()
    (folder / "link").symlink_to("there")
    (folder / ".hidden").symlink_to("there")
    (folder / "Weiß").symlink_to("there")
    look = PathCache()
    names = [f"new{number}" for number in range(100)]
    for name in (*names, "there", "link", ".hidden", "Weiß", "LINK", "link~1", "new", "*", "a\ue001"):
        path = f"{folder}/{name}"
        assert look.real(path) == os.path.realpath(path)
        assert look.missing(path) == (not os.path.lexists(path))
        assert look.real(f"{path}/x") == os.path.realpath(f"{path}/x")


def test_a_folder_of_which_many_names_are_asked_is_listed_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path.resolve())
    asked: list[object] = []
    lstat = os.lstat
    monkeypatch.setattr("agent.safety.places._LISTS_ALL", True)
    monkeypatch.setattr(os, "lstat", lambda path: asked.append(path) or lstat(path))
    look = PathCache()
    assert all(look.missing(f"{folder}/f{number}") for number in range(1_000))
    assert len(asked) < 100


@pytest.mark.sample(1)
@pytest.mark.parametrize("made", [5_000, 0])
def test_a_folder_too_full_to_list_or_not_to_be_read_is_asked_for_each_name(
    tmp_path: Path, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path.resolve()
    for number in range(made):
        (folder / f"f{number}").touch()
    if not made:
        monkeypatch.setattr(os, "scandir", _refused)
    (folder / "link").symlink_to("f1")
    look = PathCache()
    assert all(look.missing(f"{folder}/new{number}") for number in range(100))
    assert look.real(f"{folder}/link") == f"{folder}/f1"


def _refused(path: str) -> None:
    raise PermissionError(path)


def test_a_link_that_must_not_be_read_leads_to_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = tmp_path.resolve() / "link"
    link.symlink_to("x")
    monkeypatch.setattr(os.path, "realpath", _refused)
    look = PathCache()
    assert look.real(str(link)) == str(link)
    assert not look.is_itself(str(link))
    assert not look.missing(str(link))
