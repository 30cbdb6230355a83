"""Lines of diffs in a text have the roles of a diff; everything else stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from tools.text.safe_text import clean
from widgets.rows.reader import PIECE, ReaderRows, diff_tones
from widgets.transcript.wrap import WideRows

DIFF = "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ def f():\n a\n-b\n+c\n+d"
INKS = {"added": Style(color="green"), "removed": Style(color="red"), "dim": Style(dim=True)}


def told(text: str) -> str:
    """A letter for each line: that of its role, or a dot."""
    tones = diff_tones(text.split("\n"))
    return "".join(tones.get(number, ".")[0] for number in range(text.count("\n") + 1))


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        (DIFF, "ddd.raa"),
        (f"edit src/x\npath  x\n{DIFF}\n- a list behind it\n+ and more", "..ddd.raa.."),
        (f"{DIFF}\n{DIFF}", "ddd.raaddd.raa"),
        ("- a list\n- with dashes\n+ and a plus", "..."),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file", "dr.a."),
        ("@@ -0,0 +1,2 @@\n+a\n+b\n+c", "daa."),
        ("@@ -1,2 +0,0 @@\n-a\n--- b\n--- c", "drr."),
        ("@@ -1,3 +1,3 @@\n a\n\n b\n-c", "d...."),
        ("@@ -1,9 +1,9 @@\n a\ncut off here\n-not of it", "d..."),
        ("@@ -1,9 +1,9 @@\n a\n@@ -20 +20 @@\n-b\n+c", "d.dra"),
        ("@@ -x +y @@\n-a\n+b", "..."),
        ("", "."),
    ],
)
def test_only_the_lines_a_hunk_counts_have_its_roles(text: str, roles: str) -> None:
    assert told(text) == roles


@given(st.lists(st.sampled_from(["@@ -1,2 +1,2 @@", "-a", "+b", " c", "", "\\ x", "--- a", "+++ b", "d"])))
def test_roles_belong_to_lines_that_look_like_them(lines: list[str]) -> None:
    for number, role in diff_tones(lines).items():
        starts = {"added": ("+",), "removed": ("-",), "dim": ("@@", "---", "+++")}
        assert lines[number].startswith(starts[role])


def test_a_reader_draws_them_in_their_styles_also_where_a_line_takes_several_pieces() -> None:
    text = f"before\n@@ -1 +1 @@\n-{'word' * PIECE}\n+new\n- a list"
    rows = ReaderRows(text, clean, diffs=True)
    plain = Style(bold=True)
    rows.look(60, WideRows(wrap=True), plain, Style(), Style(), INKS)
    *first, new, listed = [
        {run.style for row in rows.rows(at) for run in row if run.text.strip()}
        for at in range(len(rows.pieces))
    ]
    assert first[:2] == [{plain}, {INKS["dim"]}]
    assert len(first) > 4
    assert all(INKS["removed"] in styles and plain not in styles for styles in first[2:])
    assert (new, listed) == ({INKS["added"]}, {plain})


def test_a_reader_that_was_not_told_to_leaves_diffs_as_they_are() -> None:
    rows = ReaderRows(DIFF, clean)
    rows.look(60, WideRows(wrap=True), Style(bold=True), Style(), Style(), INKS)
    assert {run.style for at in range(7) for run in rows.rows(at)[0]} == {Style(bold=True)}
