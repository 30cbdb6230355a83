"""Reading patches: strict about what they change, lenient about their frame."""

import subprocess
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.diffs import diff_texts
from tools.files.hunk_application import apply_hunks
from tools.files.patch_text import (
    AddFile,
    DeleteFile,
    Operation,
    PatchError,
    PatchLine,
    UpdateFile,
    parse_patch,
)
from tools.files.text_files import decode

WHOLE = """\
*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ class A
@@ def f(self):
 kept

-old
+new
*** End of File
*** Add File: new.txt
+one
+
+two
*** Delete File: gone.txt
*** Move File: x -> y z
*** End Patch
"""


def test_all_operations_are_read() -> None:
    update, add, delete, move = parse_patch(WHOLE)
    assert isinstance(update, UpdateFile)
    assert (update.path, update.move_to) == ("src/a.py", "src/b.py")
    (hunk,) = update.hunks
    assert hunk.hints == ("class A", "def f(self):")
    assert hunk.lines == (
        PatchLine(" ", "kept"),
        PatchLine(" ", ""),
        PatchLine("-", "old"),
        PatchLine("+", "new"),
    )
    assert hunk.at_end
    assert add == AddFile("new.txt", "one\n\ntwo\n")
    assert delete == DeleteFile("gone.txt")
    assert move == UpdateFile("x", (), "y z")


@pytest.mark.parametrize(
    "framed",
    [
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("*** ", "***"),
        WHOLE.removeprefix("*** Begin Patch\n").removesuffix("*** End Patch\n"),
        f"```diff\n{WHOLE}```\n",
        WHOLE.strip().replace("\n", "\\n"),
        f"apply_patch <<'EOF'\n{WHOLE}EOF\n",
        f"Here is the patch:\n\n{WHOLE}\nDone.\n",
        WHOLE.replace("*** Delete", "\n*** Delete").replace("*** Add", "\n\n*** Add"),
        "```\n" + WHOLE.removeprefix("*** Begin Patch\n").removesuffix("*** End Patch\n") + "```",
    ],
)
def test_the_frame_does_not_matter(framed: str) -> None:
    assert parse_patch(framed) == parse_patch(WHOLE)


def test_two_patches_in_a_row_are_both_read() -> None:
    assert len(parse_patch(WHOLE + "\n" + WHOLE)) == 8


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("", "no operation"),
        ("hello", "no operation"),
        ("*** Begin Patch\n*** End Patch", "no operation"),
        ("*** Update File: a\n", "changes nothing"),
        ("*** Update File: a\n@@\n kept\n", "changes nothing"),
        ("*** Update File: a\n@@ hint\n", "is empty"),
        ("*** Update File:\n-a\n+b", "names no path"),
        ("*** Update File: a\n*** Wrong: b\n-a", "not a known header"),
        ("*** Add File: a\nwithout plus", r"starts with \+"),
        ("*** Delete File: a\n-line", "no lines of its own"),
        ("*** Move File: a", "old -> new"),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch\n*** Update: b", "not a known header"),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch\n+x", "outside"),
        ("*** Add File: a\n+\0", "NUL"),
    ],
)
def test_what_is_wrong_with_a_patch_is_said(patch: str, reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        parse_patch(patch)


PIECES = """\
*** Begin Patch|*** End Patch|*** Update File: a|*** Add File: b|*** Delete File: c|*** Move File: a -> d
*** Move to: e|*** End of File|@@|@@ x|@@ -1,2 +1 @@ y|--- a/f|+++ b/f|--- x|--- /dev/null|+++ /dev/null
diff --git a/f b/f|rename from x|rename to y|new file mode 1|\\ No newline at end of file|```|EOF|+a|-a| a|
"""
LOOSE = st.lists(
    st.one_of(st.sampled_from(PIECES.replace("\n", "|").split("|")), st.text(max_size=8)), max_size=12
).map("\n".join)


@given(LOOSE)
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        operations = parse_patch(text)
    except PatchError as error:
        assert str(error)
    else:
        assert operations


def applied(text: str, operations: tuple[Operation, ...]) -> str:
    (operation,) = operations
    if isinstance(operation, AddFile):
        return operation.content
    if isinstance(operation, DeleteFile):
        return ""
    return apply_hunks(decode(text.encode()), operation.hunks, "f").file.encode().decode()


LINE = st.sampled_from(["a", "b", "", "  a", "-- a/f", "++ b/f", "@@ x", "*** y", "\\ z", "d = {"])
TEXT = st.tuples(st.lists(LINE, max_size=10), st.booleans()).map(
    lambda parts: "\n".join(parts[0]) + ("\n" if parts[1] and parts[0] else "")
)


@given(TEXT, TEXT)
def test_a_unified_diff_gives_the_target(old: str, new: str) -> None:
    if old == new:
        return
    assert applied(old, parse_patch(diff_texts(old, new, "a/f", "b/f").text)) == new


@given(st.lists(LINE, max_size=10), st.lists(LINE, max_size=10))
def test_diffs_of_difflib_give_the_target(old: list[str], new: list[str]) -> None:
    if old == new:
        return
    diff = "\n".join(unified_diff(old, new, "a/f", "b/f", lineterm=""))
    before, after = ("".join(line + "\n" for line in lines) for lines in (old, new))
    assert applied(before, parse_patch(diff)) == after


@given(TEXT, TEXT, st.integers(0, 3))
def test_wrong_line_counts_do_no_harm(old: str, new: str, wrong: int) -> None:
    """Numbers a model made up may make a hunk ambiguous, never put it into a wrong text."""
    if old == new:
        return
    diff = diff_texts(old, new, "a/f", "b/f").text.replace("@@ -1,", f"@@ -{wrong},1{wrong}")
    try:
        result = applied(old, parse_patch(diff))
    except PatchError:
        return
    assert result.split("\n") != old.split("\n")


def test_a_diff_of_git_over_several_files_is_read(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "core.quotepath=true"]

    def run(*arguments: str) -> str:
        return subprocess.run(
            [*git, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    run("init", "-q")
    files = {"a.txt": "1\n2\n3\n", "gone": "x\n", "moved": "same\n" * 5, "ä b": "q\n", "empty": ""}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    run("add", "-A")
    run("commit", "-qm", "x")
    for name, text in {"a.txt": "1\ntwo\n3\n", "ä b": "r\n", "new": "n\n", "blank": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "gone").unlink()
    (tmp_path / "empty").unlink()
    (tmp_path / "moved").rename(tmp_path / "moved2")
    run("add", "-A")

    def read(*arguments: str) -> set[tuple[str, str]]:
        operations = parse_patch(run("diff", "--cached", *arguments))
        return {(type(operation).__name__, operation.path) for operation in operations}

    changed = {("UpdateFile", "a.txt"), ("UpdateFile", "ä b"), ("DeleteFile", "gone"), ("AddFile", "new")}
    empty = {("AddFile", "blank"), ("DeleteFile", "empty")}
    assert read("--no-renames") == changed | empty | {("AddFile", "moved2"), ("DeleteFile", "moved")}
    assert read("-M", "--", "a.txt", "moved", "moved2") == {("UpdateFile", "a.txt"), ("UpdateFile", "moved")}


def test_binary_changes_and_copies_are_refused() -> None:
    with pytest.raises(PatchError, match="binary"):
        parse_patch("diff --git a/x b/x\nBinary files a/x and b/x differ\n")
    with pytest.raises(PatchError, match="copies"):
        parse_patch("diff --git a/x b/y\ncopy from x\ncopy to y\n")


def test_a_hunk_without_a_file_is_refused() -> None:
    with pytest.raises(PatchError, match="no file"):
        parse_patch("@@ -1 +1 @@\n-a\n+b\ndiff --git a/x b/x\n")
