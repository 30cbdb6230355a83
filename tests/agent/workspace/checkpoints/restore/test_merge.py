"""Three-way merges against git, and against what a merge has to keep."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.checkpoints.restore.merge import MAX_LINES, merge

BASE = b"a\nb\nc\nd\ne\nf\ng\nh\n"
texts = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\r\n"]), max_size=8).map(b"".join)


def test_changes_in_different_places_come_together() -> None:
    result = merge(BASE, BASE.replace(b"b", b"B"), BASE.replace(b"g", b"G"))
    assert result is not None
    assert (result.data, result.overlaps) == (BASE.replace(b"b", b"B").replace(b"g", b"G"), 0)


def test_different_changes_of_the_same_line_stand_between_marks() -> None:
    result = merge(b"a\nb\nc\n", b"a\nmine\nc\n", b"a\ntheirs\nc\n")
    assert result is not None
    assert result.overlaps == 1
    assert result.data == b"a\n<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> checkpoint\nc\n"


def test_marks_stand_on_lines_of_their_own_where_the_last_line_has_no_end() -> None:
    result = merge(b"a", b"b", b"c")
    assert result is not None
    assert result.data == b"<<<<<<< yours\nb\n=======\nc\n>>>>>>> checkpoint\n"


@pytest.mark.parametrize("data", [b"a\0b", b"\0" * 9])
def test_binary_files_are_not_merged(data: bytes) -> None:
    assert merge(b"a\n", data, b"b\n") is None


def test_very_long_texts_are_not_merged() -> None:
    assert merge(b"a\n", b"x\n" * MAX_LINES, b"") is None


@given(texts, texts)
def test_what_only_one_side_changed_is_taken_whole(base: bytes, changed: bytes) -> None:
    for one, other in ((base, changed), (changed, base), (changed, changed)):
        result = merge(base, one, other)
        assert result is not None
        assert (result.data, result.overlaps) == (changed, 0)


def words(text: bytes) -> set[bytes]:
    return {line.rstrip() for line in text.splitlines()}


@given(texts, texts, texts)
def test_no_line_of_either_side_that_the_base_lacks_is_lost(base: bytes, mine: bytes, theirs: bytes) -> None:
    result = merge(base, mine, theirs)
    assert result is not None
    lines = {line.rstrip() for line in result.data.splitlines()}
    for side in (mine, theirs):
        assert {line.rstrip() for line in side.splitlines()} - {
            line.rstrip() for line in base.splitlines()
        } <= lines


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (BASE + b"i\n", b"0\n" + BASE),
        (BASE.replace(b"d\n", b""), BASE.replace(b"a\n", b"A\n")),
        (b"x\n" + BASE, BASE.replace(b"h\n", b"")),
    ],
)
def test_clean_merges_are_those_of_git(tmp_path: Path, mine: bytes, theirs: bytes) -> None:
    for name, data in (("mine", mine), ("base", BASE), ("theirs", theirs)):
        (tmp_path / name).write_bytes(data)
    command = ["git", "merge-file", "-p", "mine", "base", "theirs"]
    expected = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    result = merge(BASE, mine, theirs)
    assert result is not None and result.data == expected
