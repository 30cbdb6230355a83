"""Whole files: exactly what was given, atomically, with warnings where something could be lost."""

import json
from pathlib import Path

import pytest

from tests.support.tool_context import FakeContext, deny_all
from tests.tools.files.conftest import Call, names
from tools.files import syntax
from tools.files.write_file_tool import describe
from tools.registry import registry
from tools.results import DiffDetail
from tools.services.actions import WritePath


async def test_a_new_file_is_created_with_its_folders(work: Path, call: Call, context: FakeContext) -> None:
    result = await call("write_file", path="a/b/c.txt", content="über\n")
    assert (work / "a/b/c.txt").read_bytes() == "über\n".encode()
    assert result == {
        "path": "a/b/c.txt", "bytes_written": 6, "created": True, "dirs_created": ["a", "a/b"],
        "added": 1, "removed": 0, "diff": "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1 @@\n+über\n",
    }  # fmt: skip
    assert context.actions == [WritePath(tool="write_file", path=work / "a/b/c.txt", creates=True)]


async def test_content_is_written_exactly(work: Path, call: Call) -> None:
    for content in ("", "no newline", "a\r\nb\nc\r", "\ufeffmark", "\x00\x1b[31m", "\u2028"):
        await call("write_file", path="a.txt", content=content)
        assert (work / "a.txt").read_bytes() == content.encode()
        (work / "a.txt").unlink()


async def test_a_file_that_was_never_read_is_replaced_with_a_warning(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("old\n")
    result = await call("write_file", path="a.txt", content="new\n")
    assert "had not read it" in result["warning"]
    assert result["created"] is False
    assert result["diff"].endswith("-old\n+new\n")


async def test_a_file_that_changed_since_it_was_read_is_replaced_with_a_warning(
    work: Path, call: Call
) -> None:
    (work / "a.txt").write_text("old\n")
    await call("read_file", path="a.txt")
    assert "warning" not in await call("write_file", path="a.txt", content="mine\n")
    assert "warning" not in await call("write_file", path="a.txt", content="mine again\n")
    (work / "a.txt").write_text("of the user\n")
    assert "changed on disk" in (await call("write_file", path="a.txt", content="mine\n"))["warning"]
    assert (work / "a.txt").read_text() == "mine\n"


async def test_crlf_files_stay_crlf(work: Path, call: Call) -> None:
    (work / "a.txt").write_bytes(b"a\r\nb\r\n")
    result = await call("write_file", path="a.txt", content="a\nc\n")
    assert (work / "a.txt").read_bytes() == b"a\r\nc\r\n"
    assert "CRLF" in result["note"]
    (work / "m.txt").write_bytes(b"a\r\nb\n")
    assert "note" not in await call("write_file", path="m.txt", content="a\nc\n")
    assert (work / "m.txt").read_bytes() == b"a\nc\n"


async def test_byte_order_marks_stay(work: Path, call: Call) -> None:
    (work / "a.txt").write_bytes("\ufeffold".encode("utf-16-le"))
    (work / "b.txt").write_bytes("\ufeffold".encode())
    await call("write_file", path="a.txt", content="new")
    await call("write_file", path="b.txt", content="\ufeffnew")
    assert (work / "a.txt").read_bytes() == "\ufeffnew".encode("utf-16-le")
    assert (work / "b.txt").read_bytes() == "\ufeffnew".encode()


async def test_an_old_encoding_stays_where_it_has_all_characters(work: Path, call: Call) -> None:
    (work / "a.txt").write_bytes("中 für\n".encode("gbk", "replace"))
    read = (await call("read_file", path="a.txt"))["content"].removeprefix("1|")
    assert "cp1252 was kept" in (await call("write_file", path="a.txt", content=f"{read} x\n"))["note"]
    assert (work / "a.txt").read_bytes() == "中 für x\n".encode("gbk", "replace")
    assert "UTF-8 now" in (await call("write_file", path="a.txt", content="für →"))["note"]
    assert (work / "a.txt").read_text("utf-8") == "für →"


async def test_content_copied_from_read_file_is_refused(work: Path, call: Call) -> None:
    assert (
        "line numbers" in (await call("write_file", path="a.py", content="1|import os\n2|\n3|x\n"))["error"]
    )
    assert names(work) == []
    for path, content in (("t.csv", "1|a\n2|b\n"), ("a.txt", "1|a\n5|b\n"), ("b.txt", "1|one\n")):
        assert "error" not in await call("write_file", path=path, content=content)


@pytest.mark.parametrize(
    "path", ["src/", "/dev/sda9", "a\0b", "", "~/.ssh/authorized_keys", "/etc/passwd", ".env"]
)
async def test_places_that_are_not_written(work: Path, call: Call, home: Path, path: str) -> None:
    assert "error" in await call("write_file", path=path, content="x")
    assert names(work) == [] and names(home) == []


async def test_half_characters_are_refused(work: Path, call: Call) -> None:
    assert "U+D800" in (await call("write_file", path="a", content="x\ud800"))["error"]
    assert names(work) == []


async def test_a_denied_write_leaves_everything(work: Path, call: Call, context: FakeContext) -> None:
    context.verdict = deny_all
    assert (await call("write_file", path="new/a", content="x"))["status"] == "blocked"
    assert names(work) == []


async def test_a_folder_swapped_for_a_link_while_asking_is_not_entered(
    work: Path, call: Call, context: FakeContext, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (work / "folder").mkdir()

    def swap(action: object) -> None:
        (work / "folder").rmdir()
        (work / "folder").symlink_to(tmp_path / "other")

    context.on_permit = swap
    assert "link" in (await call("write_file", path="folder/a", content="x"))["error"]
    assert names(tmp_path / "other") == []


async def test_a_file_swapped_for_a_link_while_asking_is_not_followed(
    work: Path, call: Call, context: FakeContext, tmp_path: Path
) -> None:
    (tmp_path / "target").write_text("untouched")
    context.on_permit = lambda action: (work / "a").symlink_to(tmp_path / "target")
    assert "link" in (await call("write_file", path="a", content="x"))["error"]
    assert (tmp_path / "target").read_text() == "untouched"


async def test_a_file_that_appears_while_asking_is_replaced_with_a_warning(
    work: Path, call: Call, context: FakeContext
) -> None:
    context.on_permit = lambda action: (work / "a").write_text("of the user\n") and None
    result = await call("write_file", path="a", content="mine\n")
    assert result["created"] is False and "-of the user" in result["diff"] and "warning" in result


async def test_a_link_in_the_workspace_leads_to_its_target(
    work: Path, call: Call, context: FakeContext
) -> None:
    (work / "real.txt").write_text("old")
    (work / "link.txt").symlink_to("real.txt")
    result = await call("write_file", path="link.txt", content="new")
    assert result["path"] == "real.txt"
    assert (work / "link.txt").is_symlink() and (work / "real.txt").read_text() == "new"
    assert context.actions == [WritePath(tool="write_file", path=work / "real.txt")]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.py", "def f():\n    return (1\n", 2),
        ("a.py", "if x:\ny\n", 2),
        ("a.json", '{\n "a": 1,\n "b"\n}\n', 4),
        ("a.yaml", "a: [1,\nb: }\n", 2),
        ("a.toml", "a = \n", None),
    ],
)
async def test_a_syntax_error_is_reported_with_its_line(
    work: Path, call: Call, name: str, content: str, line: int | None
) -> None:
    result = await call("write_file", path=name, content=content)
    assert (work / name).read_text() == content
    assert result["lint"]["status"] == "error" and result["lint"]["message"]
    assert line is None or result["lint"]["line"] == line


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", 'x = "\\d" is 1\n'),
        ("a.json", '{"a": 1}'),
        ("a.yaml", "a: !Ref b\n---\nc: 1\n"),
        ("a.toml", "[a]\nb = 1\n"),
        ("a.pyi", "def f() -> int: ...\n"),
    ],
)
async def test_correct_files_are_reported_as_such(call: Call, name: str, content: str) -> None:
    assert (await call("write_file", path=name, content=content))["lint"] == {"status": "ok"}


async def test_files_without_a_check_have_no_report(call: Call) -> None:
    for name in ("a.txt", "tsconfig.json", ".vscode/settings.json", "empty.py"):
        content = "" if name == "empty.py" else "{ // comment\n}"
        assert "lint" not in await call("write_file", path=name, content=content)


async def test_a_check_that_would_take_for_ever_or_crash_is_given_up(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "bytes_written" in await call("write_file", path="a.py", content="(" * 100_000)
    assert "bytes_written" in await call("write_file", path="a.json", content="[" * 100_000)
    monkeypatch.setattr(syntax, "TIMEOUT", 0.0)
    assert "lint" not in await call("write_file", path="b.py", content="x = 1\n")


async def test_a_large_rewrite_has_a_short_diff(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("".join(f"{number}\n" for number in range(20_000)))
    result = await call(
        "write_file", path="a.txt", content="".join(f"x{number}\n" for number in range(20_000))
    )
    assert len(json.dumps(result)) < 60_000
    assert (result["added"], result["removed"]) == (20_000, 20_000)


def test_how_a_write_looks() -> None:
    diff = "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n"
    result = {"path": "a.py", "created": True, "added": 1, "removed": 0, "diff": "cut"}
    display = describe({"path": "./a.py", "content": "x\n"}, result)
    assert (display.verb, display.subject, display.summary) == ("write", "a.py", "new, +1 −0")
    assert display.detail == DiffDetail(diff)
    assert describe({"path": "a.py"}, None).summary == ""


def test_the_schemas_are_short_and_name_only_offered_tools() -> None:
    offered = registry.definitions(["read_file", "write_file", "patch", "search"])
    assert len(json.dumps(offered)) < 4_500
    assert "patch" not in json.dumps(registry.definitions(["write_file", "read_file"]))
