"""Differences are right, can be applied by others, and stay cheap."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.diffs import changed_blocks, diff_texts, shorten_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "x = 1"]), max_size=12).map("\n".join)


@given(TEXTS, TEXTS)
def test_the_blocks_turn_one_side_into_the_other(old: str, new: str) -> None:
    a, b = old.split("\n"), new.split("\n")
    built: list[str] = []
    here = 0
    for block in changed_blocks(a, b):
        assert a[block.a_start : block.a_stop] != b[block.b_start : block.b_stop]
        built += a[here : block.a_start] + b[block.b_start : block.b_stop]
        here = block.a_stop
    assert built + a[here:] == b


def test_git_applies_the_diffs(tmp_path: Path) -> None:
    cases = [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n12\n13\n"),
        ("x\n", ""),
        ("a\n\n\nb\n", "a\n\nb\n\n"),
    ]
    file = tmp_path / "f"
    for old, new in cases:
        file.write_text(old)
        diff = diff_texts(old, new, "a/f", "b/f").text
        subprocess.run(
            ["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True, capture_output=True
        )
        assert file.read_text() == new


def test_added_and_removed_lines_are_counted() -> None:
    diff = diff_texts("a\nb\nc\n", "a\nx\ny\nc\n", "a/f", "b/f")
    assert (diff.added, diff.removed) == (2, 1)


def test_equal_texts_have_no_diff() -> None:
    assert diff_texts("a\n", "a\n", "a/f", "b/f").text == ""


@pytest.mark.thorough
def test_scattered_changes_in_a_large_file_stay_separate() -> None:
    old = [f"line {index}" for index in range(50_000)]
    new = [line + "!" if index % 500 == 0 else line for index, line in enumerate(old)]
    assert len(changed_blocks(old, new)) == 100


def test_a_large_file_of_repeated_lines_is_compared() -> None:
    old = [f"line {index % 50}" for index in range(60_000)]
    new = [*old[:30_000], "new", *old[30_000:]]
    assert sum(block.b_stop - block.b_start for block in changed_blocks(old, new)) == 1
    new = [line if index % 997 else "changed" for index, line in enumerate(old)]
    assert len(changed_blocks(old, new)) == 61


def test_a_long_diff_is_cut_at_a_line_and_says_so() -> None:
    diff = diff_texts("", "line\n" * 1000, "/dev/null", "b/f").text
    short = shorten_diff(diff, 200)
    assert len(short) < 260
    assert short.rstrip().endswith("more lines of diff")
    assert all(line.startswith(("+", "-", "@", "…")) for line in short.splitlines())
