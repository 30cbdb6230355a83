"""Unified diffs drawn as strips."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.diff import READ_CHARS, DiffHunk, changed_words, read_diff, render_diff

PALETTE = Palette(Skin())
MONEY = """\
--- a/src/money.py
+++ b/src/money.py
@@ -40,5 +40,5 @@ class Money:
     digits = 2
-def round(amount, currency):
-    return float(f"{amount:.2f}")
+def round(amount: Decimal, currency):
+    exponent = Decimal(1).scaleb(-DIGITS[currency])

     # the end
@@ -90,2 +90,1 @@ def other():
-x = 1
 y = 2
\\ No newline at end of file
"""


def rows(diff: str, width: int = 60, **options) -> list[str]:
    return [strip.text.rstrip() for strip in render_diff(diff, width, PALETTE, **options)]


def run_with(strips: list[Strip], word: str):
    return next(run for strip in strips for run in strip if word in run.text)


def test_lines_carry_their_numbers_and_signs() -> None:
    assert rows(MONEY) == [
        "40        digits = 2",
        "41  - def round(amount, currency):",
        '42  -     return float(f"{amount:.2f}")',
        "41  + def round(amount: Decimal, currency):",
        "42  +     exponent = Decimal(1).scaleb(-DIGITS[currency])",
        "43",
        "44        # the end",
        " ⋯    def other():",
        "90  - x = 1",
        "90    y = 2",
        "      No newline at end of file",
    ]


def test_changed_lines_have_a_background_over_the_whole_width() -> None:
    strips = render_diff(MONEY, 60, PALETTE)
    for index, role in ((1, "removed"), (3, "added")):
        assert strips[index].cell_length == 60
        marked = PALETTE.style(role, f"{role}_background")
        assert {run.style.bgcolor for run in strips[index] if run.style} >= {marked.bgcolor}
        assert [run.style for run in strips[index]][-1].bgcolor == marked.bgcolor


def test_code_has_the_colours_of_the_language_of_the_file() -> None:
    strips = render_diff(MONEY, 60, PALETTE)
    assert run_with(strips, "return").style.color == PALETTE.style("keyword").color
    other = render_diff(MONEY.replace("money.py", "money.txt"), 60, PALETTE)
    assert run_with(other, "return").style.color == PALETTE.style("text").color
    named = render_diff(MONEY.replace("money.py", "money.txt"), 60, PALETTE, language="python")
    assert run_with(named, "return").style.color == PALETTE.style("keyword").color


def test_words_that_differ_are_marked_in_pairs_of_lines() -> None:
    strips = render_diff(MONEY, 60, PALETTE)
    plain = PALETTE.style("added", "added_background").bgcolor
    marked = [run.text for run in strips[3] if run.style and run.style.bgcolor != plain]
    assert "".join(marked) == ": Decimal"
    assert all(run.style.bgcolor == plain for run in strips[4] if run.style)


def test_lines_with_little_in_common_are_not_marked() -> None:
    (file,) = read_diff("@@ -1 +1 @@\n-import os\n+def something(else_):\n")
    (hunk,) = file.parts
    assert isinstance(hunk, DiffHunk)
    assert changed_words(hunk.lines) == {}


def test_without_backgrounds_the_words_take_the_colour_of_the_change() -> None:
    colors = dict(Skin().colors)
    colors["added_background"] = colors["removed_background"] = colors["background"]
    palette = Palette(replace(Skin(), colors=colors))
    strips = render_diff(MONEY, 60, palette)
    assert run_with(strips, "exponent").style.color == palette.style("added").color


def test_without_true_colours_changed_words_are_underlined() -> None:
    colors = dict.fromkeys(Skin().colors, "ansi_default") | {
        "added": "ansi_green",
        "added_background": "ansi_black",
    }
    palette = Palette(replace(Skin(), colors=colors))
    strips = render_diff(MONEY, 60, palette)
    assert any(run.style and run.style.underline for run in strips[3])


def test_several_files_have_names() -> None:
    diff = (
        "diff --git a/a.py b/a.py\nindex 123..456 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
        "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+n\n"
        "diff --git a/g.py b/g.py\ndeleted file mode 100644\n--- a/g.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
        "diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n"
    )
    assert rows(diff) == [
        "a.py",
        "1  - a",
        "1  + b",
        "",
        "old.py → new.py",
        "",
        "n.py · new file",
        "1  + n",
        "",
        "g.py · deleted",
        "1  - g",
        "",
        "i.png",
        "Binary files a/i.png and b/i.png differ",
    ]


def test_files_without_a_git_line_are_parted_too() -> None:
    one = "--- a/{0}\t2024-01-01\n+++ b/{0}\t2024-01-02\n@@ -1 +1 @@\n-a\n+b\n"
    assert [file.path for file in read_diff(one.format("x.py") + one.format("y.py"))] == ["x.py", "y.py"]


def test_lines_that_look_like_headers_within_a_hunk_are_lines() -> None:
    diff = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new\n same\n"
    assert rows(diff) == ["1  - -- old comment", "1  + ++ new", "2    same"]


def test_a_hunk_without_numbers_is_drawn_without_them() -> None:
    assert rows("@@ def a():\n-x\n+y\n") == ["   - x", "   + y"]


def test_what_is_no_diff_is_shown_all_the_same() -> None:
    assert rows("fatal: not a repository\nsecond") == ["fatal: not a repository", "second"]
    assert rows("") == []
    assert rows("\n\n") == []


def test_a_diff_that_was_cut_in_the_middle_goes_on() -> None:
    diff = "@@ -1,9 +1,9 @@\n-a\n\n[… 5 of 9 characters left out …]\n+b\n"
    found = rows(diff)
    assert "[… 5 of 9 characters left out …]" in found
    assert any(row.endswith("+ b") for row in found)


def test_a_huge_diff_says_how_much_is_left_out() -> None:
    body = "".join(f"+line {number}\n" for number in range(5_000))
    found = rows(f"--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,5000 @@\n{body}", max_rows=100)
    assert len(found) == 101
    assert found[-1] == "… 4,900 more rows"


@pytest.mark.thorough
def test_what_was_not_read_is_counted() -> None:
    count = READ_CHARS
    found = rows(f"--- /dev/null\n+++ b/x.txt\n@@ -0,0 +1,{count} @@\n" + "+x\n" * count, max_rows=10)
    left = int(found[-1].split()[1].replace(",", ""))
    assert abs(left - (count - 10)) <= 1


def test_long_lines_are_cut_at_the_edge() -> None:
    strips = render_diff("@@ -1 +1 @@\n-" + "x" * 300 + "\n+" + "日" * 300 + "\n", 20, PALETTE)
    assert [strip.cell_length for strip in strips] == [20, 20]
    assert all("›" in strip.text for strip in strips)


def test_tabs_are_blanks_before_words_are_compared() -> None:
    strips = render_diff("@@ -1 +1 @@\n-\ta = 1\n+\ta = 2\n", 30, PALETTE)
    assert [strip.text.rstrip() for strip in strips] == ["1  -     a = 1", "1  +     a = 2"]
    plain = PALETTE.style("added", "added_background").bgcolor
    assert [run.text for run in strips[1] if run.style and run.style.bgcolor != plain] == ["2"]


def test_line_endings_of_other_systems_are_not_drawn() -> None:
    assert rows("@@ -1 +1 @@\r\n-a\r\n+b\r\n") == ["1  - a", "1  + b"]


LINES = ["a = 1", "b = 2", "", "    c", "--- x", "+++ y", "@@ z", "日本"]
BROKEN = ["+a", "-b", " c", "@@ -1 +1 @@", "@@ x", "--- a/x", "+++ b/x", "\\ no", "?", ""]
SOURCES = st.lists(st.sampled_from(LINES), max_size=12)


@pytest.mark.thorough
@given(SOURCES, SOURCES, st.integers(1, 50))
def test_every_changed_line_is_drawn_with_its_number(old: list[str], new: list[str], width: int) -> None:
    diff = "\n".join(difflib.unified_diff(old, new, "a/x.py", "b/x.py", lineterm="")) + "\n"
    if old == new:
        return
    hunks = [part for part in read_diff(diff)[0].parts if isinstance(part, DiffHunk)]
    lines = [line for hunk in hunks for line in hunk.lines]
    assert all(old[line.number - 1] == line.text for line in lines if line.sign == "-")
    assert all(new[line.number - 1] == line.text for line in lines if line.sign in "+ ")
    strips = render_diff(diff, width, PALETTE)
    assert len(strips) == len(lines) + len(hunks) - 1
    assert all(strip.cell_length <= width for strip in strips)


@given(st.lists(st.sampled_from(BROKEN)))
def test_no_line_of_a_broken_diff_is_lost(lines: list[str]) -> None:
    found = "\n".join(rows("\n".join(lines), 80))
    for line in lines:
        if line[:1] in "+- ?" and line[:3] not in ("---", "+++"):
            assert line.strip("+- ") in found


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "pair", [("a " * 400, "b " * 400), ("a " * 400, "a b " * 200), ("(" * 900, ")(" * 450)]
)
def test_hostile_pairs_of_lines_are_drawn(pair: tuple[str, str]) -> None:
    diff = "@@ -1,200 +1,200 @@\n" + f"-{pair[0]}\n" * 200 + f"+{pair[1]}\n" * 200
    assert len(render_diff(diff, 80, PALETTE)) == 400
