"""Windows of files: numbers, limits, refusals, and what is not shown twice."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tool_context import FakeContext, deny_all
from tests.tools.files.conftest import Call
from tools.files import scanning
from tools.files.access import PROTECTED_OPTION
from tools.files.read_file_tool import describe
from tools.files.scanning import BinaryFile, scan
from tools.kit.threads import Stopped
from tools.results import Display, TextDetail
from tools.services.actions import ReadPath


async def test_lines_are_numbered_from_one(work: Path, call: Call, context: FakeContext) -> None:
    (work / "a.txt").write_text("one\n\nthree")
    assert await call("read_file", path="a.txt") == {
        "path": "a.txt", "content": "1|one\n2|\n3|three",
        "total_lines": 3, "file_size": 10, "truncated": False,
    }  # fmt: skip
    assert context.actions == [ReadPath(tool="read_file", path=work / "a.txt")]


async def test_a_window_says_where_to_go_on(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 11)))
    result = await call("read_file", path="a.txt", offset=3, limit=4)
    assert result["content"] == "3|3\n4|4\n5|5\n6|6"
    assert (result["truncated"], result["truncated_by"], result["next_offset"]) == (True, "lines", 7)
    assert "offset=7" in result["hint"]
    assert (await call("read_file", path="a.txt", offset=0, limit=2))["content"] == "1|1\n2|2"
    rest = await call("read_file", path="a.txt", offset=7, limit=4)
    assert rest["truncated"] is False and "next_offset" not in rest


async def test_the_limit_is_2000_lines(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("x\n" * 2500)
    result = await call("read_file", path="a.txt", limit=9999)
    assert result["next_offset"] == 2001


async def test_a_result_is_cut_at_a_whole_line_below_100_000_characters(work: Path, call: Call) -> None:
    (work / "a.txt").write_text(("y" * 999 + "\n") * 300)
    result = await call("read_file", path="a.txt")
    assert len(result["content"]) <= 100_000
    assert result["truncated_by"] == "characters"
    assert all(len(line.split("|")[1]) == 999 for line in result["content"].split("\n"))
    again = await call("read_file", path="a.txt", offset=result["next_offset"])
    assert again["content"].startswith(f"{result['next_offset']}|y")


async def test_a_long_line_is_cut_with_a_mark(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("a" * 2001 + "\n" + "ä" * 2000 + "\n" + "b" * 50_000)
    lines = (await call("read_file", path="a.txt"))["content"].split("\n")
    assert lines[0] == "1|" + "a" * 2000 + " … [1 more character]"
    assert lines[1] == "2|" + "ä" * 2000
    assert lines[2].startswith("3|" + "b" * 2000 + " … [48,000 more")


async def test_a_line_in_part_comes_with_the_ways_to_its_rest_and_is_not_written_back(
    work: Path, call: Call
) -> None:
    before = '{"a":"' + "x" * 9000 + '"}\n'
    (work / "a.json").write_text(before)
    (work / "b.txt").write_text("short … [no mark]\n")
    assert "cut_lines" not in await call("read_file", path="b.txt")
    result = await call("read_file", path="a.json")
    assert "cut -c" in result["cut_lines"]
    shown = result["content"].removeprefix("1|")
    assert "nothing was written" in (await call("write_file", path="a.json", content=shown + "\n"))["error"]
    assert (work / "a.json").read_text() == before
    assert "error" not in await call("write_file", path="b.txt", content="1 … [2 more bytes]\n")
    assert "error" not in await call("write_file", path="b.txt", content="2 … [3 more bytes]\n")


async def test_an_empty_file_is_said_to_be_empty(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("")
    result = await call("read_file", path="a.txt")
    assert (result["content"], result["total_lines"], result["hint"]) == ("", 0, "The file is empty.")


async def test_an_offset_past_the_end_is_an_error_with_the_length(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("x\n")
    for _ in range(2):
        assert await call("read_file", path="a.txt", offset=2) == {
            "error": "Line 2 is past the end: a.txt has 1 line.", "total_lines": 1,
        }  # fmt: skip


async def test_the_third_identical_read_is_told_to_stop(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("x\ny\n")
    assert "content" in await call("read_file", path="a.txt")
    second = await call("read_file", path="a.txt")
    assert second["status"] == "unchanged" and "content" not in second
    third = await call("read_file", path="a.txt")
    assert "3 times" in third["message"]
    assert "content" in await call("read_file", path="a.txt", offset=2)
    (work / "a.txt").write_text("x\nz\n")
    assert (await call("read_file", path="a.txt"))["content"] == "1|x\n2|z"


async def test_a_file_the_agent_wrote_itself_is_shown_when_asked_for(work: Path, call: Call) -> None:
    await call("write_file", path="a.txt", content="x\n")
    assert (await call("read_file", path="a.txt"))["content"] == "1|x"


@pytest.mark.parametrize(
    ("data", "lines", "extra"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", "1|a\n2|b", {"line_ends": "crlf"}),
        ("\ufefffür\nb".encode("utf-16-le"), "1|für\n2|b", {"encoding": "utf-16-le"}),
        ("für\n".encode("cp1252"), "1|für", {"encoding": "cp1252 (a guess, as it is not UTF-8)"}),
        ("中\n".encode("gbk"), "1|ÖÐ", {"encoding": "cp1252 (a guess, as it is not UTF-8)"}),
        (b"a\rb\n", "1|a\rb", {}),
        ("a\u2028b\x0cc\n".encode(), "1|a\u2028b\x0cc", {}),
    ],
)
async def test_texts_of_all_kinds_are_shown(
    work: Path, call: Call, data: bytes, lines: str, extra: dict[str, str]
) -> None:
    (work / "a.txt").write_bytes(data)
    result = await call("read_file", path="a.txt")
    assert result["content"] == lines
    assert result.items() >= extra.items()


async def test_binaries_and_images_are_refused_by_name(work: Path, call: Call) -> None:
    (work / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (work / "b").write_bytes(b"a\0b")
    assert "PNG image" in (await call("read_file", path="a.png"))["error"]
    assert "binary file" in (await call("read_file", path="b"))["error"]


async def test_what_is_no_file_is_refused_without_waiting(work: Path, call: Call) -> None:
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(work / "socket"))
        assert "is a FIFO" in (await call("read_file", path="fifo"))["error"]
        assert "is a socket" in (await call("read_file", path="socket"))["error"]
    assert "kernel data" in (await call("read_file", path="/dev/stdin"))["error"]


async def test_a_folder_is_answered_with_its_entries(work: Path, call: Call) -> None:
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("")
    (work / "src" / "sub").mkdir()
    result = await call("read_file", path="src")
    assert "is a folder" in result["error"]
    assert result["entries"] == ["a.py", "sub/"]


async def test_near_names_are_suggested(work: Path, call: Call) -> None:
    (work / "src" / "deep").mkdir(parents=True)
    (work / "src" / "money.py").write_text("")
    (work / "src" / "deep" / "config.yaml").write_text("")
    assert (await call("read_file", path="src/mony.py"))["similar"][0] == "src/money.py"
    assert (await call("read_file", path="config.yaml"))["similar"] == ["src/deep/config.yaml"]
    assert (await call("read_file", path="src/money.js"))["similar"][0] == "src/money.py"
    assert "similar" not in await call("read_file", path="zzzzzzzz")


async def test_credentials_are_refused_before_the_gate(
    work: Path, call: Call, context: FakeContext, home: Path
) -> None:
    (work / ".env").write_text("KEY=1")
    (work / "innocent.txt").symlink_to(".env")
    for path in (".env", "innocent.txt", "~/.ssh/id_rsa"):
        assert "credentials" in (await call("read_file", path=path))["error"]
    assert context.actions == []


async def test_protected_places_are_refused(
    work: Path, call: Call, context: FakeContext, tmp_path: Path
) -> None:
    context.options = {PROTECTED_OPTION: [str(tmp_path / "own")]}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "state.db").write_text("x")
    assert "credentials" in (await call("read_file", path=str(tmp_path / "own" / "state.db")))["error"]


async def test_a_denied_read_reveals_nothing(work: Path, call: Call, context: FakeContext) -> None:
    (work / "a.txt").write_text("secret")
    context.verdict = deny_all
    result = await call("read_file", path="a.txt")
    assert result["status"] == "blocked"
    assert await call("read_file", path="b.txt") == {
        **result,
        "error": result["error"].replace("a.txt", "b.txt"),
    }


async def test_a_link_put_there_after_the_check_is_not_followed(
    work: Path, call: Call, context: FakeContext, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.txt").write_text("secret")
    (work / "folder").mkdir()
    (work / "folder" / "a.txt").write_text("public")
    (work / "b.txt").write_text("public")

    def swap(action: object) -> None:
        (work / "b.txt").unlink()
        (work / "b.txt").symlink_to(secret / "a.txt")
        (work / "folder").rename(work / "old")
        (work / "folder").symlink_to(secret)

    context.on_permit = swap
    assert "link" in (await call("read_file", path="b.txt"))["error"]
    context.on_permit = None
    (work / "folder").unlink()
    (work / "old").rename(work / "folder")
    (work / "b.txt").unlink()
    (work / "b.txt").write_text("x")
    context.on_permit = swap
    assert "link" in (await call("read_file", path="folder/a.txt"))["error"]


async def test_a_file_that_cannot_be_opened_is_explained(work: Path, call: Call) -> None:
    (work / "a.txt").write_text("x")
    assert "not a folder" in (await call("read_file", path="a.txt/b"))["error"]
    assert (await call("read_file", path="x" * 300))["error"].endswith("its name is too long.")
    assert "does not exist" in (await call("read_file", path="/".join(["x" * 200] * 30)))["error"]


@given(
    st.lists(st.text("ab\r", max_size=5), max_size=12),
    st.booleans(),
    st.integers(1, 14),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_any_window_over_any_chunks_is_that_part_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    ends: bool,
    offset: int,
    limit: int,
    chunk: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "window.txt"
    text = "\n".join(lines) + ("\n" if ends and lines else "")
    path.write_bytes(text.encode())
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "CHUNK_BYTES", chunk)
        window = scan(path.resolve(), offset, limit, threading.Event())
    assert not isinstance(window, BinaryFile)
    assert window.lines == [line.removesuffix("\r") for line in expected[offset - 1 : offset - 1 + limit]]
    assert window.total_lines == len(expected)


def test_a_large_file_is_read_in_little_memory_and_stops_when_told(work: Path) -> None:
    path = work / "large.log"
    with path.open("wb") as file:
        for _ in range(60):
            file.write(b"line of the log\n" * 65_536)
    window = scan(path, 3_000_000, 2, threading.Event())
    assert not isinstance(window, BinaryFile)
    assert window.lines == ["line of the log"] * 2
    assert window.total_lines == 60 * 65_536
    assert window.digest.startswith("stat:")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        scan(path, 1, 1, stop)


def test_counting_ends_where_a_file_is_too_large(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MAX_COUNTED_BYTES", 1000)
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 600)
    (work / "a").write_text("x\n" * 5000)
    window = scan(work / "a", 1, 2, threading.Event())
    assert not isinstance(window, BinaryFile)
    assert (window.lines, window.total_lines) == (["x", "x"], None)


def test_how_a_read_looks() -> None:
    arguments = {"path": "src/money.py", "offset": 1, "limit": 80}
    content = "\n".join(f"{number}|x" for number in range(1, 81))
    assert describe(arguments, None) == Display("read", "src/money.py 1–80")
    assert describe(arguments, {"content": content}) == Display(
        "read", "src/money.py 1–80", "80 lines", TextDetail(content)
    )
    assert describe(arguments, {"status": "unchanged"}).summary == "unchanged"
    assert describe(arguments, {"error": "No."}).summary == "No."


async def test_the_kind_of_a_binary_file_stands_in_a_sentence(work: Path, call: Call) -> None:
    for name, kind in (("a.heic", "a picture"), ("a.zst", "a packed file"), ("a.mp3", "a recording")):
        (work / name).write_bytes(b"\0\1\2\3" * 9)
        assert f"{name} is {kind};" in (await call("read_file", path=name))["error"]
