"""A patch of two positions, applied by git itself in a real folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.session.export.patch import Patch, patch_between, quote_name
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.state_listings import alike, difference
from agent.workspace.checkpoints.store import CheckpointStore

Tree = dict[str, tuple[str, bytes]]
"""`file`, `program` or `link` and contents, by path."""

HOSTILE = (
    'say "hi"',
    "tab\there",
    "two\nlines",
    "back\\slash",
    " leading",
    "trailing ",
    "a b/c d",
    "x b/x",
    "-n",
    "--- a",
    "diff --git",
    "héllo",
    os.fsdecode(b"\xff\xfe"),
    "日本",
    "dev/null",
    "\x01",
    "\x7f",
    "*?[",
)


def build(root: Path, tree: Tree) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, (kind, data) in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(os.fsdecode(data))
        else:
            path.write_bytes(data)
            path.chmod(0o755 if kind == "program" else 0o644)


def look(root: Path) -> Tree:
    found: Tree = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            found[name] = ("program" if path.stat().st_mode & 0o100 else "file", path.read_bytes())
    return found


def entries(root: Path, store: CheckpointStore) -> dict[str, PathEntry | None]:
    paths = [str(path.relative_to(root)) for path in root.rglob("*")]
    return {path: capture_path(root, path, store.objects, limit=10**7) for path in paths}


def changes(before: dict[str, PathEntry | None], after: dict[str, PathEntry | None]) -> list[PathChange]:
    paths = sorted({*before, *after})
    found = [PathChange(path, before.get(path), after.get(path)) for path in paths]
    return [each for each in found if not alike(each.before, each.after)]


def apply(folder: Path, data: bytes, *options: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        ["git", "apply", *options], cwd=folder, input=data, env=environ, capture_output=True, timeout=200
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")


def patched(folder: Path, before: Tree, after: Tree) -> Patch:
    """The patch from one tree to the other, after git took one to the other and back with it."""
    shutil.rmtree(folder, ignore_errors=True)
    store = CheckpointStore(folder / "store")
    build(folder / "old", before)
    build(folder / "new", after)
    old, new = entries(folder / "old", store), entries(folder / "new", store)
    patch = patch_between(changes(old, new), store.objects)
    if patch.files:
        apply(folder / "old", patch.data)
        assert look(folder / "old") == after
        apply(folder / "old", patch.data, "-R")
    assert look(folder / "old") == (before if patch.files else after)
    return patch


CASES: dict[str, tuple[Tree, Tree]] = {
    "a changed line": ({"a": ("file", b"1\n2\n3\n")}, {"a": ("file", b"1\ntwo\n3\n")}),
    "a new file": ({}, {"deep/down/a": ("file", b"1\n")}),
    "a file that goes": ({"deep/down/a": ("file", b"1\n")}, {}),
    "an empty file": ({"gone": ("file", b"")}, {"with space": ("file", b"")}),
    "no newline at the end": ({"a": ("file", b"1\n2")}, {"a": ("file", b"1\n2\n")}),
    "no newline any more": ({"a": ("file", b"1\n2\n")}, {"a": ("file", b"1\n3")}),
    "lines that end as in DOS": ({"a": ("file", b"1\r\n2\r\n")}, {"a": ("file", b"1\r\n2\n3\r\n")}),
    "lone carriage returns": ({"a": ("file", b"1\r2\r")}, {"a": ("file", b"1\r3\r\r")}),
    "a program": ({"a": ("file", b"1\n")}, {"a": ("program", b"1\n")}),
    "a program with new lines": ({"a b": ("program", b"1\n")}, {"a b": ("file", b"2\n")}),
    "binary": ({"a": ("file", b"\0\1\2" * 99)}, {"a": ("file", b"\0\1\3" * 200)}),
    "binary out of nothing": ({}, {"a b": ("program", bytes(range(256)) * 300)}),
    "binary into text": ({"a": ("file", b"\0" * 27)}, {"a": ("file", b"text\n")}),
    "bytes of no encoding": ({"a": ("file", b"\xff\xfe\n\x80\n")}, {"a": ("file", b"\xff\n\x81\n")}),
    "separators of other encodings": (
        {"a": ("file", "1\x0b2\x0c3\x1c4\x85\u2028".encode())},
        {"a": ("file", "1\x0b2\x0c5\x1c4\x85\u2028\n".encode())},
    ),
    "a link": ({}, {"a": ("link", b"nowhere/at all")}),
    "a link elsewhere": ({"a": ("link", b"one")}, {"a": ("link", b"two\nlines")}),
    "a file becomes a link": ({"a": ("file", b"1\n")}, {"a": ("link", b"1")}),
    "a link becomes a file": ({"a": ("link", b"1")}, {"a": ("program", b"1\n")}),
    "a file becomes a folder": ({"a": ("file", b"1\n")}, {"a/b": ("file", b"1\n")}),
    "a folder becomes a file": ({"a/b": ("file", b"1\n"), "a/c": ("file", b"")}, {"a": ("file", b"1\n")}),
    "a link becomes a folder": ({"a": ("link", b".")}, {"a/b": ("file", b"1\n")}),
    "a folder becomes a link": ({"a/b": ("file", b"1\n")}, {"a": ("link", b".")}),
    "lines that look like a patch": (
        {"a": ("file", b"-- a\n++ b\n@@ -1 +1 @@\ndiff --git a/x b/x\n")},
        {"a": ("file", b"--- a\n+++ b\n@@ -1 +1 @@\n\\ No newline at end of file\n")},
    ),
    "trailing blanks": ({"a": ("file", b"1  \n\t\n")}, {"a": ("file", b"1 \n \t\n\n\n")}),
    "hostile names": (
        dict.fromkeys(HOSTILE, ("file", b"old\n")),
        dict.fromkeys(HOSTILE, ("file", b"new\n")),
    ),
    "hostile names of empty files": ({}, dict.fromkeys(HOSTILE, ("file", b""))),
    "hostile names of binaries": (dict.fromkeys(HOSTILE, ("file", b"\x00")), {}),
    "hostile names of programs": (
        dict.fromkeys(HOSTILE, ("file", b"")),
        dict.fromkeys(HOSTILE, ("program", b"")),
    ),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize("case", CASES)
def test_git_takes_a_folder_there_and_back(case: str, tmp_path: Path) -> None:
    assert not patched(tmp_path / "case", *CASES[case]).left_out


LINES = st.lists(
    st.sampled_from([b"a", b"b", b"", b"\r", b"+", b"-x", b" ", b"\xff", b"c" * 40]), max_size=12
)
TEXTS = st.tuples(LINES, st.booleans()).map(lambda each: b"\n".join(each[0]) + b"\n" * each[1])
CONTENTS = st.one_of(TEXTS, TEXTS, st.binary(max_size=200))
KINDS = st.one_of(
    st.tuples(st.sampled_from(["file", "program"]), CONTENTS),
    st.tuples(st.just("link"), st.sampled_from([b"x", b"../..", b"a/b", b"\xff \n"])),
)
PARTS = st.sampled_from(["a", "b", "c d", 'q"', "\n", os.fsdecode(b"\xf0"), "ü", "z\\"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


def leads_below_itself(path: str, target: bytes) -> bool:
    """Whether a link at `path` can be followed only through itself."""
    return os.path.join(os.path.dirname(path), os.fsdecode(target)).startswith(f"{path}/")


def possible(tree: Tree) -> Tree:
    """Without paths below one that is not a folder, and links to what is below themselves.

    Where such a link becomes a folder git refuses every patch: to look below it leads nowhere.
    """
    return {
        path: what
        for path, what in tree.items()
        if not any(path.startswith(f"{other}/") for other in tree)
        and not (what[0] == "link" and leads_below_itself(path, what[1]))
    }


TREES = st.dictionaries(PATHS, KINDS, max_size=6).map(possible)


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(before=TREES, after=TREES)
def test_git_takes_any_tree_to_any_other_and_back(tmp_path: Path, before: Tree, after: Tree) -> None:
    assert not patched(tmp_path / "case", before, after).left_out


@pytest.mark.thorough
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(before=TEXTS, after=TEXTS, more=st.integers(0, 30))
def test_hunks_fit_wherever_they_stand(tmp_path: Path, before: bytes, after: bytes, more: int) -> None:
    around = b"".join(b"line %d\n" % number for number in range(more))
    one, other = around + before + b"\n" + around, around + after + b"\n" + around
    patched(tmp_path / "case", {"a": ("file", one)}, {"a": ("file", other)})


def test_positions_of_a_line_become_a_patch_in_either_direction(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    root = tmp_path / "project"
    build(root, {"a": ("file", b"1\n"), "b": ("file", b"\0")})
    seen = [entries(root, store)]
    for tree in ({"a": ("file", b"2\n")}, {"c": ("file", b"new\n")}, {"a": ("file", b"3\n")}):
        build(root, tree)  # type: ignore[arg-type]
        seen.append(entries(root, store))
    steps = [
        Step(number, "tool", "s", "c", "l", 0.0, str(root), tuple(changes(seen[number - 1], seen[number])))
        for number in (1, 2, 3)
    ]
    apply(root, patch_between(difference(steps, 3, 1), store.objects).data)
    assert look(root) == {"a": ("file", b"2\n"), "b": ("file", b"\0")}
    apply(root, patch_between(difference(steps, 1, 3), store.objects).data)
    assert look(root)["a"] == ("file", b"3\n")
    assert patch_between(difference(steps, 2, 2), store.objects).data == b""


def test_what_a_patch_cannot_say_is_named_before_it(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    digest = store.objects.add(b"1\n")
    plain = PathEntry(PathKind.FILE, 0o644, 2, 0, digest)
    found = patch_between(
        [
            PathChange(
                "big\nfile", None, PathEntry(PathKind.FILE, 0o644, 10**9, reason="larger than 100 MB")
            ),
            PathChange("empty", None, PathEntry(PathKind.FOLDER, 0o755)),
            PathChange("full", None, PathEntry(PathKind.FOLDER, 0o755)),
            PathChange("full/a", None, plain),
            PathChange("lost", None, PathEntry(PathKind.FILE, 0o644, 2, 0, "0" * 64)),
            PathChange("odd", plain, PathEntry(PathKind.FILE, 0o600, 2, 0, digest)),
            PathChange("private", None, PathEntry(PathKind.FILE, 0o600, 2, 0, digest)),
            PathChange("sub/git~1/x", None, plain),
            PathChange("shut", PathEntry(PathKind.FOLDER, 0o755), PathEntry(PathKind.FOLDER, 0o700)),
        ],
        store.objects,
    )
    assert [item.path for item in found.left_out] == [
        "big\nfile",
        "empty",
        "lost",
        "odd",
        "private",
        "shut",
        "sub/git~1/x",
    ]
    assert [file.path for file in found.files] == ["full/a", "private"]
    assert found.data.startswith(b'# left out: "big\\nfile" (its contents were not kept: larger')
    (tmp_path / "there").mkdir()
    apply(tmp_path / "there", found.data)
    assert look(tmp_path / "there") == {"full/a": ("file", b"1\n"), "private": ("file", b"1\n")}


def test_lines_are_counted(tmp_path: Path) -> None:
    found = patched(
        tmp_path / "case", {"a": ("file", b"1\n2\n"), "b": ("file", b"\0")}, {"a": ("file", b"1\n3\n4\n")}
    )
    assert (found.added, found.removed) == (2, 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_quoted_as_git_quotes_them(name: str, tmp_path: Path) -> None:
    build(tmp_path, {name: ("file", b"x\n")})
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "diff", "--no-index", "--name-only", "--", "/dev/null", "./" + name]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=200)
    printed = done.stdout.rstrip(b"\n")
    own = quote_name(b"./" + os.fsencode(name))
    assert printed in (own, quote_name(os.fsencode(name)))
