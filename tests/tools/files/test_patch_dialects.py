"""The tool `patch` on the diffs of other programs: each has its effect, or one sentence and no effect."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.tools.files.conftest import Call

FIVE = "a\nb\nc\nd\ne\n"
NAMES = "--- a/f\n+++ b/f\n"
CHANGE = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
CHANGED = {"f": "a\nB\nc\nd\ne\n"}
EPOCHS = (
    "1969-12-31 16:00:00.000000000 -0800",
    "1970-01-01 00:00:00.000000000 +0000",
    "1970-01-01 09:00:00.000000000 +0900",
    "1969-12-31 16:00:00 -08:00",
)
LATER = "1982-09-16 07:00:00.000000000 -0800"


def lay_out(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def found(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


GIT = {
    "reversed prefixes": ("diff --git b/f a/f\n--- b/f\n+++ a/f\n" + CHANGE, {"f": FIVE}, CHANGED),
    "mnemonic prefixes": ("diff --git i/f w/f\n--- i/f\n+++ w/f\n" + CHANGE, {"f": FIVE}, CHANGED),
    "a new file with mnemonic prefixes": (
        "diff --git c/n w/n\nnew file mode 100644\n--- /dev/null\n+++ w/n\n@@ -0,0 +1 @@\n+x\n",
        {},
        {"n": "x\n"},
    ),
    "no prefixes, in a folder called a": (
        "diff --git a/f a/f\n--- a/f\n+++ a/f\n" + CHANGE,
        {"a/f": FIVE},
        {"a/f": CHANGED["f"]},
    ),
    "mail around it": (
        "From 12 Mon Sep 17\nSubject: x\n\n- a point\n---\n f | 2 +-\n\ndiff --git a/f b/f\n"
        + NAMES
        + CHANGE
        + "-- \n2.40.1\n\n",
        {"f": FIVE},
        CHANGED,
    ),
    "an empty file with a space at the end of its folder": (
        "diff --git a/odd /x b/odd /x\nnew file mode 100644\nindex 0..e\n",
        {},
        {"odd /x": ""},
    ),
    "two names that change places": (
        "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/y b/x\nrename from y\nrename to x\n",
        {"x": "X\n", "y": "Y\n"},
        {"x": "Y\n", "y": "X\n"},
    ),
    "three names in a ring": (
        "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/y b/z\nrename from y\nrename to z\n"
        "diff --git a/z b/x\nrename from z\nrename to x\n",
        {"x": "X\n", "y": "Y\n", "z": "Z\n"},
        {"x": "Z\n", "y": "X\n", "z": "Y\n"},
    ),
}

GNU = {
    **{
        f"a file made at {epoch}": (
            f"diff -ruN a/f b/f\n--- a/f\t{epoch}\n+++ b/f\t{LATER}\n@@ -0,0 +1 @@\n+x\n",
            {},
            {"f": "x\n"},
        )
        for epoch in EPOCHS
    },
    **{
        f"a file removed at {epoch}": (
            f"--- a/f\t{LATER}\n+++ b/f\t{epoch}\n@@ -1 +0,0 @@\n-x\n",
            {"f": "x\n", "k": ""},
            {"k": ""},
        )
        for epoch in EPOCHS
    },
    "a file that only became empty": (
        f"--- a/f\t{LATER}\n+++ b/f\t{LATER}\n@@ -1 +0,0 @@\n-x\n",
        {"f": "x\n"},
        {"f": ""},
    ),
    "a backup beside the file": ("--- f.orig\n+++ f\n" + CHANGE, {"f": FIVE}, CHANGED),
    "a new version beside the file": ("--- f\n+++ f.new\n" + CHANGE, {"f": FIVE}, CHANGED),
    "two folders compared": (
        f"--- v1/s/f {LATER}\n+++ v2/s/f {LATER}\n" + CHANGE,
        {"s/f": FIVE},
        {"s/f": CHANGED["f"]},
    ),
    "two folders that are only names": (
        "--- original/s/f\n+++ modified/s/f\n" + CHANGE,
        {"s/f": FIVE},
        {"s/f": CHANGED["f"]},
    ),
    "revisions of Subversion": (
        "Index: f\n===\n--- f\t(revision 13)\n+++ f\t(working copy)\n" + CHANGE,
        {"f": FIVE},
        CHANGED,
    ),
    "a change of Mercurial": (
        "# HG changeset patch\ndiff -r 1 -r 2 f\n--- a/f\tThu Jan 01 00:00:00 1970 +0000\n"
        "+++ b/f\tThu Jan 01 00:00:00 1970 +0000\n" + CHANGE,
        {"f": FIVE},
        CHANGED,
    ),
}

MODELS = {
    "a forgotten space": (
        NAMES + "@@ -1,4 +1,4 @@\n a\n-b\n+B\nc\n-d\n+D\n",
        {"f": FIVE},
        {"f": "a\nB\nc\nD\ne\n"},
    ),
    "several forgotten spaces": (
        NAMES + "@@ -1,5 +1,5 @@\n-a\n+A\nb\nc\nd\n-e\n+E\n",
        {"f": FIVE},
        {"f": "A\nb\nc\nd\nE\n"},
    ),
    "no @@ line": (NAMES + "-b\n+B\n", {"f": FIVE}, CHANGED),
    "a name in @@": (
        NAMES + "@@ def g @@\n-  x\n+  y\n",
        {"f": "def f\n  x\n1\ndef g\n  x\n2\n"},
        {"f": "def f\n  x\n1\ndef g\n  y\n2\n"},
    ),
    "dots in @@": (NAMES + "@@ ... @@\n-b\n+B\n", {"f": FIVE}, CHANGED),
    "a file that is only added to": (NAMES + "@@ -0,0 +1,2 @@\n+x\n+y\n", {}, {"f": "x\ny\n"}),
    "points of a list below it": (NAMES + CHANGE + "\nWhat it does:\n- better\n", {"f": FIVE}, CHANGED),
    "a removed comment that looks like a header": (
        NAMES + "@@ -1,3 +1,3 @@\n x\n--- old\n+-- new\n y\n",
        {"f": "x\n-- old\ny\n"},
        {"f": "x\n-- new\ny\n"},
    ),
    "a byte-order mark quoted from the file": (
        NAMES + "@@ -1,2 +1,2 @@\n-\ufeffa\n+\ufeffA\n b\n",
        {"f": "\ufeffa\nb\n"},
        {"f": "\ufeffA\nb\n"},
    ),
    "V4A with a padded frame": (
        "   *** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n   *** End Patch  ",
        {"f": FIVE},
        CHANGED,
    ),
    "V4A with a padded header": (
        "*** Begin Patch\n  *** Update File: f\n@@\n-b\n+B\n*** End Patch",
        {"f": FIVE},
        CHANGED,
    ),
    "V4A, all of it indented": (
        "  *** Begin Patch\n  *** Update File: f\n  @@\n   a\n  -b\n  +B\n  *** End Patch",
        {"f": FIVE},
        CHANGED,
    ),
    "V4A with the headers of a diff": (
        "*** Begin Patch\n*** Update File: f\n" + NAMES + CHANGE + "*** End Patch",
        {"f": FIVE},
        CHANGED,
    ),
    "V4A, two names that change places": (
        "*** Begin Patch\n*** Move File: x -> y\n*** Move File: y -> x\n*** End Patch",
        {"x": "X\n", "y": "Y\n"},
        {"x": "Y\n", "y": "X\n"},
    ),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("diff", "before", "after"), [pytest.param(*case, id=name) for name, case in (GIT | GNU | MODELS).items()]
)
async def test_a_diff_has_the_effect_it_has_elsewhere(
    work: Path, call: Call, diff: str, before: dict[str, str], after: dict[str, str]
) -> None:
    lay_out(work, before)
    result = await call("patch", mode="patch", patch=diff)
    assert "error" not in result, result["error"]
    assert found(work) == after


REFUSED = {
    "a link": (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+..\n",
        {},
        "symbolic link",
    ),
    "a file that becomes a link": (
        "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+k\n",
        {"f": "x\n"},
        "symbolic link",
    ),
    "another target of a link": (
        "diff --git a/f b/f\nindex 1..2 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n",
        {"f": "x\n"},
        "symbolic link",
    ),
    "a submodule": (
        "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject 1\n",
        {},
        "submodule",
    ),
    "a copy with changes": (
        "diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n" + CHANGE,
        {"f": FIVE},
        "copies",
    ),
    "a binary file among others": (
        NAMES + CHANGE + "Binary files d/i.png and e/i.png differ\n",
        {"f": FIVE},
        "binary",
    ),
    "a merge": (
        "diff --cc f\n" + NAMES + "@@@ -1,3 -1,3 +1,3 @@@\n  a\n- b\n -x\n++B\n  c\n",
        {"f": FIVE},
        "merge",
    ),
    "two names for one file": (
        "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+1\n",
        {},
        "same names",
    ),
    "a file to be made that is there": (
        f"--- a/f\t{EPOCHS[0]}\n+++ b/f\t{LATER}\n@@ -0,0 +1 @@\n+x\n",
        {"f": ""},
        "exists already",
    ),
    "a file to be removed that holds something else": (
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        {"f": "other\n"},
        "does not fit",
    ),
    "a file to be removed that holds more": (
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        {"f": "x\nmore\n"},
        "holds more than",
    ),
    "lines added at the end once more": (
        NAMES + "@@ -1,2 +1,3 @@\n a\n b\n+c\n",
        {"f": "a\nb\nc\n"},
        "already",
    ),
    "lines added at the beginning once more": (
        "*** Begin Patch\n*** Update File: f\n@@\n+import x\n import y\n*** End Patch",
        {"f": "import x\nimport y\n"},
        "already",
    ),
    "a change made before": (
        "*** Begin Patch\n*** Update File: f\n@@\n-old\n+new\n*** End Patch",
        {"f": "new\n"},
        "done already",
    ),
    "a line number that names another place than the end": (
        NAMES + "@@ -4 +4,2 @@\n x\n+y\n",
        {"f": "1\nx\n2\nx\nx\n"},
        "2 places|3 places",
    ),
    "a hunk as far from one place as from the other": (
        NAMES + "@@ -1 +1,2 @@\n p\n+q\n@@ -4,2 +5,3 @@\n x\n+y\n z\n",
        {"f": "p\n2\nx\nz\nx\nz\n"},
        "2 places",
    ),
    "an unknown header before a known one": (
        "*** Begin Patch\n*** Frobnicate File: g\n*** Update File: f\n@@\n-b\n+B\n*** End Patch",
        {"f": FIVE},
        "not a known header",
    ),
    "a name taken by a file that stays after all": (
        "*** Begin Patch\n*** Move File: x -> y\n*** Move File: y -> z\n*** End Patch",
        {"x": "X\n", "y": "Y\n", "z": "Z\n"},
        "exists already",
    ),
    "one file moved twice": (
        "*** Begin Patch\n*** Move File: x -> y\n*** Move File: x -> z\n*** End Patch",
        {"x": "X\n"},
        "not exist",
    ),
}


@pytest.mark.sample(14)
@pytest.mark.parametrize(
    ("diff", "before", "reason"), [pytest.param(*case, id=name) for name, case in REFUSED.items()]
)
async def test_what_a_diff_cannot_mean_here_is_said_and_nothing_changes(
    work: Path, call: Call, diff: str, before: dict[str, str], reason: str
) -> None:
    lay_out(work, before)
    result = await call("patch", mode="patch", patch=diff)
    assert re.search(reason, result["error"])
    assert found(work) == before


async def test_a_diff_makes_programs_of_files_and_files_of_programs(work: Path, call: Call) -> None:
    lay_out(work, {"run.sh": "a\n", "data": "b\n", "old.sh": "c\n"})
    (work / "data").chmod(0o755)
    result = await call(
        "patch",
        mode="patch",
        patch="diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/data b/data\nold mode 100755\nnew mode 100644\n"
        "--- a/data\n+++ b/data\n@@ -1 +1 @@\n-b\n+B\n"
        "diff --git a/old.sh b/new.sh\nold mode 100644\nnew mode 100755\n"
        "rename from old.sh\nrename to new.sh\n"
        "diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n",
    )
    assert "error" not in result
    assert found(work) == {"run.sh": "a\n", "data": "B\n", "new.sh": "c\n", "n": "x\n"}
    runs = {name: bool((work / name).stat().st_mode & 0o100) for name in found(work)}
    assert runs == {"run.sh": True, "data": False, "new.sh": True, "n": True}


async def test_git_and_the_tool_agree_on_diffs_of_git(work: Path, call: Call) -> None:
    """Each change at the head and at the tail of a file, with context and without."""
    lines = [f"line {number}" for number in range(30)]
    targets = (
        ["new", *lines], [lines[0], "new", *lines[1:]], ["new", *lines[1:]], lines[1:],
        [*lines, "new"], [*lines[:-1], "new"], lines[:-1], [*lines[:-1], "new", lines[-1]],
    )  # fmt: skip
    (work / "there").mkdir()
    for target in targets:
        for context in ("-U3", "-U0"):
            lay_out(work, {"f": "\n".join(lines) + "\n", "there/f": "\n".join(target) + "\n"})
            diff = subprocess.run(
                ["git", "diff", "--no-index", "--no-color", context, "f", "there/f"],
                cwd=work, capture_output=True, text=True, check=False,
            ).stdout.replace("there/f", "f")  # fmt: skip
            result = await call("patch", mode="patch", patch=diff)
            assert "error" not in result, (diff, result)
            assert (work / "f").read_text() == (work / "there/f").read_text()
