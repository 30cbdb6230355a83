"""The tool `patch`: everything is checked first, and all of it happens or nothing."""

import asyncio
import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tool_context import FakeContext, deny_kinds
from tests.tools.files.conftest import Call, names
from tools.files import committing
from tools.files.patch_tool import describe
from tools.registry import registry
from tools.results import DiffDetail
from tools.services.actions import Action, DeletePath, ReadPath, WritePath


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def files(work: Path) -> Path:
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("def f():\n    return 1\n")
    (work / "b.txt").write_text("one\ntwo\nthree\n")
    (work / "gone.txt").write_text("x\n")
    return work


async def test_a_quoted_text_is_replaced(files: Path, call: Call, context: FakeContext) -> None:
    result = await call(
        "patch", mode="replace", path="src/a.py", old_string="return 1", new_string="return 2"
    )
    assert (files / "src/a.py").read_text() == "def f():\n    return 2\n"
    assert result == {
        "success": True, "files_modified": ["src/a.py"], "replacements": 1, "strategy": "exact",
        "added": 1, "removed": 1, "lint": {"path": "src/a.py", "status": "ok"},
        "diff": "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n",
    }  # fmt: skip
    path = files / "src/a.py"
    assert context.actions == [ReadPath(tool="patch", path=path), WritePath(tool="patch", path=path)]


async def test_the_parameters_of_a_mode_are_required(files: Path, call: Call) -> None:
    assert "old_string" in (await call("patch", mode="replace", path="b.txt", new_string="x"))["error"]
    assert "parameter patch" in (await call("patch", mode="patch"))["error"]
    assert "error" in await call("patch", mode="other")


async def test_a_missing_file_is_answered_with_near_names(files: Path, call: Call) -> None:
    result = await call("patch", mode="replace", path="a.py", old_string="x", new_string="y")
    assert result["similar"] == ["src/a.py"]


async def test_a_patch_over_several_files_is_carried_out(
    files: Path, call: Call, context: FakeContext
) -> None:
    (files / "gone.txt").chmod(0o755)
    result = await call(
        "patch",
        mode="patch",
        patch="*** Begin Patch\n*** Update File: src/a.py\n-    return 1\n+    return 2\n"
        "*** Add File: new/c.txt\n+hello\n*** Delete File: b.txt\n*** Move File: gone.txt -> kept/here.txt\n"
        "*** End Patch\n",
    )
    assert contents(files) == {
        "src/a.py": b"def f():\n    return 2\n", "new/c.txt": b"hello\n", "kept/here.txt": b"x\n",
    }  # fmt: skip
    assert stat.S_IMODE((files / "kept/here.txt").stat().st_mode) == 0o755
    assert result["files_modified"] == ["src/a.py"]
    assert result["files_created"] == ["new/c.txt"]
    assert result["files_deleted"] == ["b.txt"]
    assert result["files_moved"] == ["gone.txt -> kept/here.txt"]
    assert context.actions == [
        ReadPath(tool="patch", path=files / "src/a.py"),
        WritePath(tool="patch", path=files / "src/a.py"),
        WritePath(tool="patch", path=files / "new/c.txt", creates=True),
        DeletePath(tool="patch", path=files / "gone.txt"),
        WritePath(tool="patch", path=files / "kept/here.txt", creates=True),
        DeletePath(tool="patch", path=files / "b.txt"),
    ]


async def test_operations_on_one_file_follow_each_other(files: Path, call: Call) -> None:
    result = await call(
        "patch",
        mode="patch",
        patch="*** Update File: b.txt\n-one\n+1\n*** Update File: b.txt\n-1\n+I\n"
        "*** Add File: t.txt\n+t\n*** Update File: t.txt\n-t\n+T\n*** Move File: t.txt -> u.txt\n"
        "*** Delete File: gone.txt\n*** Add File: gone.txt\n+back\n",
    )
    assert result["success"] is True
    assert (files / "b.txt").read_text() == "I\ntwo\nthree\n"
    assert (files / "u.txt").read_text() == "T\n" and not (files / "t.txt").exists()
    assert (files / "gone.txt").read_text() == "back\n"
    assert result["files_created"] == ["u.txt"]


async def test_two_files_may_change_names(files: Path, call: Call) -> None:
    (files / "x").write_text("X\n")
    (files / "y").write_text("Y\n")
    patch = "*** Move File: x -> z\n*** Move File: y -> x\n*** Move File: z -> y\n"
    assert (await call("patch", mode="patch", patch=patch))["success"] is True
    assert ((files / "x").read_text(), (files / "y").read_text()) == ("Y\n", "X\n")
    assert not (files / "z").exists()


async def test_a_file_is_moved_and_changed_at_once(files: Path, call: Call) -> None:
    (files / "src/a.py").chmod(0o750)
    patch = "*** Update File: src/a.py\n*** Move to: lib/b.py\n-    return 1\n+    return 3\n"
    result = await call("patch", mode="patch", patch=patch)
    assert result["files_moved"] == ["src/a.py -> lib/b.py"]
    assert "--- a/src/a.py\n+++ b/lib/b.py" in result["diff"]
    assert (files / "lib/b.py").read_text() == "def f():\n    return 3\n"
    assert stat.S_IMODE((files / "lib/b.py").stat().st_mode) == 0o750
    assert not (files / "src/a.py").exists()


async def test_binary_files_can_be_moved_and_deleted_but_not_changed(files: Path, call: Call) -> None:
    (files / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    assert "PNG" in (await call("patch", mode="patch", patch="*** Update File: a.png\n-a\n+b"))["error"]
    assert (await call("patch", mode="patch", patch="*** Move File: a.png -> b.png"))["success"]
    assert (files / "b.png").read_bytes() == b"\x89PNG\r\n\x1a\n\0"
    assert (await call("patch", mode="patch", patch="*** Delete File: b.png"))["success"]


async def test_deleting_a_link_leaves_its_target(files: Path, call: Call) -> None:
    (files / "link").symlink_to("b.txt")
    assert (await call("patch", mode="patch", patch="*** Delete File: link"))["success"]
    assert not (files / "link").is_symlink() and (files / "b.txt").exists()


async def test_updating_a_link_changes_its_target(files: Path, call: Call) -> None:
    (files / "link").symlink_to("b.txt")
    await call("patch", mode="patch", patch="*** Update File: link\n-one\n+1\n")
    assert (files / "link").is_symlink() and (files / "b.txt").read_text().startswith("1\n")


async def test_a_unified_diff_is_accepted(files: Path, call: Call) -> None:
    diff = (
        "--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
    )
    result = await call("patch", mode="patch", patch=diff)
    assert (result["files_modified"], result["files_created"]) == (["b.txt"], ["n"])
    assert (files / "b.txt").read_text() == "one\n2\nthree\n"


BROKEN = [
    ("*** Update File: missing.txt\n-a\n+b", "does not exist"),
    ("*** Delete File: missing.txt", "does not exist"),
    ("*** Move File: missing.txt -> x", "does not exist"),
    ("*** Add File: gone.txt\n+x", "exists already"),
    ("*** Move File: gone.txt -> src/a.py", "exists already"),
    ("*** Update File: gone.txt\n-not there\n+x", "not in the file"),
    ("*** Delete File: src", "not a file"),
    ("*** Move File: src -> lib", "not a file"),
    ("*** Delete File: gone.txt\n*** Update File: gone.txt\n-x\n+y", "does not exist"),
    ("*** Delete File: /etc/passwd/../shadow", "credentials"),
    ("*** Add File: .env\n+x", "credentials"),
    ("*** Delete File: ~/.ssh/id_rsa", "credentials"),
    ("*** Add File: /dev/sda9\n+x", "kernel data"),
    ("*** Add File: half\n+\ud800", "half of a character"),
    ("*** Add File: b.txt/x\n+x", "not a folder"),
    ("*** Nonsense", "header|operation"),
]


@pytest.mark.sample(11)
@pytest.mark.parametrize(("section", "reason"), BROKEN)
async def test_when_one_section_is_wrong_nothing_is_written(
    files: Path, call: Call, home: Path, section: str, reason: str
) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("key")
    before = contents(files)
    good = "*** Update File: b.txt\n-one\n+1\n*** Add File: n/n.txt\n+n\n"
    patch = f"*** Begin Patch\n{good}{section}\n*** End Patch"
    result = await call("patch", mode="patch", patch=patch)
    assert re.search(reason, result["error"])
    assert contents(files) == before
    assert "n" not in names(files)
    assert (home / ".ssh" / "id_rsa").read_text() == "key"


async def test_a_patch_that_changes_nothing_at_all_is_an_error(files: Path, call: Call) -> None:
    assert (
        "changes nothing"
        in (await call("patch", mode="patch", patch="*** Update File: gone.txt\n-x\n+x"))["error"]
    )


@pytest.mark.parametrize("kind", [ReadPath, WritePath, DeletePath])
async def test_one_denied_path_stops_all_of_it(
    files: Path, call: Call, context: FakeContext, kind: type[Action]
) -> None:
    context.verdict = deny_kinds(kind)
    before = contents(files)
    patch = "*** Update File: b.txt\n-one\n+1\n*** Add File: n.txt\n+n\n*** Delete File: gone.txt"
    result = await call("patch", mode="patch", patch=patch)
    assert result["status"] == "blocked"
    assert contents(files) == before


PATCH_OF_ALL_KINDS = (
    "*** Update File: b.txt\n-one\n+1\n*** Add File: n/n.txt\n+n\n*** Move File: src/a.py -> m/a.py\n"
    "*** Delete File: gone.txt\n*** Delete File: gone2.txt\n"
)
STEPS = ["write_atomically", "make_folders", "_rename"]


@pytest.mark.sample(9)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("failing", range(1, 5))
async def test_a_failing_disk_at_any_step_undoes_everything(
    files: Path, call: Call, monkeypatch: pytest.MonkeyPatch, step: str, failing: int
) -> None:
    (files / "gone2.txt").write_text("y\n")
    (files / "b.txt").chmod(0o640)
    before = contents(files), names(files), (files / "gone.txt").stat()
    real: Callable[..., Any] = getattr(committing, step)
    calls = 0

    def fail(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)

    monkeypatch.setattr(committing, step, fail)
    result = await call("patch", mode="patch", patch=PATCH_OF_ALL_KINDS)
    if calls < failing:
        assert result["success"] is True
        return
    assert result["error"].endswith("the disk is full. Nothing was changed.")
    assert (contents(files), names(files)) == before[:2]
    after = (files / "gone.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before[2].st_ino, before[2].st_mtime_ns)
    assert stat.S_IMODE((files / "b.txt").stat().st_mode) == 0o640


async def test_what_could_not_be_undone_is_named(
    files: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = committing.write_atomically
    calls = 0

    def fail(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(*arguments, **options)

    monkeypatch.setattr(committing, "write_atomically", fail)
    result = await call(
        "patch", mode="patch", patch="*** Update File: b.txt\n-one\n+1\n*** Add File: n\n+n\n"
    )
    assert "could not be put back: b.txt" in result["error"]


async def test_a_file_changed_while_asking_is_patched_in_its_new_form(
    files: Path, call: Call, context: FakeContext
) -> None:
    def edit(action: Action) -> None:
        if isinstance(action, WritePath) and b"user" not in (files / "b.txt").read_bytes():
            (files / "b.txt").write_text("of the user\none\ntwo\nthree\n")

    context.on_permit = edit
    result = await call("patch", mode="replace", path="b.txt", old_string="two", new_string="2")
    assert result["success"] is True
    assert (files / "b.txt").read_text() == "of the user\none\n2\nthree\n"


async def test_a_file_that_changes_all_the_time_is_left_alone(
    files: Path, call: Call, context: FakeContext
) -> None:
    counter = iter(range(100))

    def edit(action: Action) -> None:
        if isinstance(action, WritePath):
            (files / "b.txt").write_text(f"{next(counter)}\ntwo\n")

    context.on_permit = edit
    result = await call("patch", mode="replace", path="b.txt", old_string="two", new_string="2")
    assert "keep changing" in result["error"]
    assert (files / "b.txt").read_text().endswith("two\n")


async def test_a_file_that_appears_while_asking_is_not_overwritten(
    files: Path, call: Call, context: FakeContext
) -> None:
    context.on_permit = lambda action: (files / "n.txt").write_text("of the user") and None
    result = await call("patch", mode="patch", patch="*** Add File: n.txt\n+mine")
    assert "exists already" in result["error"]
    assert (files / "n.txt").read_text() == "of the user"


async def test_a_stale_view_is_warned_about(files: Path, call: Call) -> None:
    await call("read_file", path="b.txt")
    (files / "b.txt").write_text("zero\none\ntwo\nthree\n")
    result = await call("patch", mode="replace", path="b.txt", old_string="two", new_string="2")
    assert "had changed on disk" in result["warning"]
    again = await call("patch", mode="replace", path="b.txt", old_string="one", new_string="1")
    assert "warning" not in again


async def test_crlf_and_encoding_stay(files: Path, call: Call) -> None:
    (files / "w.txt").write_bytes("für\r\neins\r\n".encode("cp1252"))
    await call("patch", mode="replace", path="w.txt", old_string="eins", new_string="zwei\ndrei")
    assert (files / "w.txt").read_bytes() == "für\r\nzwei\r\ndrei\r\n".encode("cp1252")


async def test_several_findings_of_the_syntax_check_name_their_files(files: Path, call: Call) -> None:
    patch = "*** Add File: x.py\n+(\n*** Add File: y.json\n+{\n"
    lint = (await call("patch", mode="patch", patch=patch))["lint"]
    assert [(item["path"], item["status"]) for item in lint] == [("x.py", "error"), ("y.json", "error")]


async def test_parallel_patches_of_one_file_lose_nothing(files: Path, call: Call) -> None:
    (files / "p.txt").write_text("".join(f"line {number};\n" for number in range(6)))
    results = await asyncio.gather(
        *(
            call("patch", mode="replace", path="p.txt", old_string=f"line {n};", new_string=f"done {n};")
            for n in range(3)
        )
    )
    done = [number for number, result in enumerate(results) if result.get("success")]
    assert done
    text = (files / "p.txt").read_text()
    assert [f"done {number};" in text for number in range(3)] == [number in done for number in range(3)]


EDIT = st.sampled_from(
    [
        "*** Update File: {0}\n-{1}\n+{2}",
        "*** Add File: {0}\n+{2}",
        "*** Delete File: {0}",
        "*** Move File: {0} -> {3}",
        "*** Update File: {0}\n*** Move to: {3}\n-{1}\n+{2}",
    ]
)
NAME = st.sampled_from(["a", "b", "d/c", "../out", "link"])
WORD = st.sampled_from(["x", "y", "z"])
SECTION = st.tuples(EDIT, NAME, WORD, WORD, NAME).map(lambda parts: parts[0].format(*parts[1:]))


@pytest.mark.thorough
@given(st.lists(SECTION, min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
async def test_any_patch_happens_wholly_or_not_at_all(tmp_path: Path, sections: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        work = Path(name).resolve() / "work"
        work.mkdir()
        (work / "a").write_text("x\n")
        (work / "b").write_text("y\nx\n")
        (work / "link").symlink_to("b")
        before = contents(work.parent)
        patch = "\n".join(sections)
        result = await registry.dispatch("patch", {"mode": "patch", "patch": patch}, FakeContext(work))
        after = contents(work.parent)
        assert not any(".hermes-" in path for path in after)
        if "error" in result:
            assert after == before
        else:
            assert result["success"] is True


def test_how_an_edit_looks() -> None:
    result = {"files_modified": ["src/money.py"], "added": 6, "removed": 3, "diff": "d"}
    display = describe({"mode": "replace", "path": "src/money.py"}, result)
    assert (display.verb, display.subject, display.summary) == ("edit", "src/money.py", "+6 −3")
    assert display.detail == DiffDetail("d")
    several = describe({"mode": "patch"}, {"files_created": ["a"], "files_moved": ["b -> c"], "added": 1})
    assert several.subject == "2 files"
    assert describe({"path": "a"}, {"error": "No."}).summary == "No."
    assert describe({"mode": "patch"}, None).subject == "files"
