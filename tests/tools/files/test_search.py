"""Finding lines and files: ripgrep and our own search give the same answers."""

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_context import FakeContext, deny_all
from tools.files import searching
from tools.files.access import PROTECTED_OPTION
from tools.files.search_tool import describe
from tools.files.searching import expand, find_ripgrep, matcher
from tools.registry import registry
from tools.results import TextDetail, ToolError
from tools.services.actions import ReadPath

Search = Any


@pytest.fixture(params=["ripgrep", "python"])
def search(request: pytest.FixtureRequest, context: FakeContext) -> Search:
    """Call `search` with one of the two engines. ripgrep is a dependency: without it these tests fail."""
    context.options = {"files.search_engine": request.param}

    async def run(pattern: str, **arguments: Any) -> dict[str, Any]:
        return await registry.dispatch("search", {"pattern": pattern, **arguments}, context)

    return run


@pytest.fixture
def tree(work: Path) -> Path:
    for name, text in {
        "b.py": "import os\nround(1)\n",
        "a/c.py": "x = round(2)\ny = 3\nz = round(4)\n",
        "a/d.txt": "round trip\n",
        ".hidden/e.py": "round(5)\n",
        "build/f.py": "round(6)\n",
        "g.gen.py": "round(7)\n",
        ".git/config": "round(8)\n",
        ".env": "ROUND=round(9)\n",
        ".gitignore": "build/\n*.gen.py\n",
        "a/.gitignore": "*.skip\n!keep.skip\n",
        "a/x.skip": "round(10)\n",
        "a/keep.skip": "round(11)\n",
        "-dash.py": "round(12)\n",
        "a b/ü.py": "round(13)\n",
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    return work


def places(result: dict[str, Any]) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


def test_ripgrep_is_installed() -> None:
    assert find_ripgrep() is not None


@pytest.mark.sample(1)
async def test_lines_are_found_in_the_order_of_their_paths(
    tree: Path, search: Search, context: FakeContext
) -> None:
    result = await search(r"round\(")
    assert places(result) == [
        ("-dash.py", 1), (".hidden/e.py", 1), ("a/c.py", 1), ("a/c.py", 3), ("a/keep.skip", 1),
        ("a b/ü.py", 1), ("b.py", 2),
    ]  # fmt: skip
    assert result["matches"][-1] == {"path": "b.py", "line": 2, "content": "round(1)"}
    assert (result["total_count"], result["files_with_matches"], result["truncated"]) == (7, 6, False)
    assert result["omitted"] == 1 and "credentials" in result["hint"]
    assert context.actions == [ReadPath(tool="search", path=tree)]


@pytest.mark.thorough
async def test_both_engines_agree_on_everything(tree: Path, context: FakeContext) -> None:
    questions: list[dict[str, Any]] = [
        {"pattern": r"round\("},
        {"pattern": "ROUND"},
        {"pattern": "(?i)ROUND"},
        {"pattern": r"\)$"},
        {"pattern": "^x|^y", "context": 1},
        {"pattern": "round", "file_glob": "*.py"},
        {"pattern": "round", "file_glob": "a/*.{py,txt}"},
        {"pattern": "round", "file_glob": "!*.py"},
        {"pattern": "round", "file_glob": "*.skip"},
        {"pattern": "round", "path": "a", "output_mode": "count"},
        {"pattern": "round", "path": "build", "output_mode": "files_only"},
        {"pattern": "round", "path": "a/c.py"},
        {"pattern": "round", "limit": 2, "offset": 1},
        {"pattern": r"3\nz"},
        {"pattern": "nothing at all"},
        {"pattern": "*.py", "target": "files"},
        {"pattern": "C.PY", "target": "files"},
        {"pattern": "a/**", "target": "files", "file_glob": "*.py"},
    ]
    for question in questions:
        answers = []
        for engine in ("ripgrep", "python"):
            context.options = {"files.search_engine": engine}
            answers.append(await registry.dispatch("search", question, context))
        assert answers[0] == answers[1], question
        assert "error" not in answers[0], question


@pytest.mark.sample(1)
async def test_ignored_hidden_and_linked_places(tree: Path, search: Search, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "o.py").write_text("round(99)\n")
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "a" / "loop").symlink_to(tree)
    (tree / "dangling").symlink_to("nowhere")
    result = await search("round", output_mode="files_only")
    found = set(result["files"])
    assert ".hidden/e.py" in found and "a/keep.skip" in found
    assert not found & {"build/f.py", "g.gen.py", ".git/config", "a/x.skip", ".env"}
    assert not any(path.startswith(("link", "a/loop")) for path in found)


@pytest.mark.sample(1)
async def test_an_ignored_folder_is_searched_when_it_is_named(tree: Path, search: Search) -> None:
    assert places(await search("round", path="build")) == [("build/f.py", 1)]
    assert places(await search("round", path="g.gen.py")) == [("g.gen.py", 1)]


@pytest.mark.thorough
async def test_what_only_gitignored_files_have_is_found_where_it_was_asked_for(
    tree: Path, search: Search
) -> None:
    (tree / ".gitignore").write_text("build/*\n*.gen.py\n")
    for arguments, key, wanted in (
        (
            {"pattern": "round", "path": "build"},
            "matches",
            [{"path": "build/f.py", "line": 1, "content": "round(6)"}],
        ),
        ({"pattern": "build/**/*.py", "target": "files"}, "files", ["build/f.py"]),
        ({"pattern": "g.gen", "target": "files"}, "files", ["g.gen.py"]),
    ):
        result = await search(**arguments)
        assert result[key] == wanted and "Only gitignored files match." in result["hint"]
    result = await search(r"round\([67]\)")
    assert places(result) == [] and "gitignored files were left out" in result["hint"]


async def test_pages_follow_each_other(tree: Path, search: Search) -> None:
    whole = places(await search(r"round\("))
    paged: list[tuple[str, int]] = []
    offset: int | None = 0
    while offset is not None:
        result = await search(r"round\(", limit=3, offset=offset)
        assert result["total_count"] == 7
        paged += places(result)
        offset = result.get("next_offset")
    assert paged == whole
    assert "smaller offset" in (await search(r"round\(", offset=50))["hint"]
    assert (await search("nowhere at all", offset=50))["hint"].startswith("Nothing found.")


@pytest.mark.sample(1)
async def test_hits_can_be_counted_or_reduced_to_files(tree: Path, search: Search) -> None:
    counts = await search(r"round\(", path="a", output_mode="count")
    assert counts["counts"] == {"a/c.py": 2, "a/keep.skip": 1}
    assert counts["total_count"] == 3
    files = await search(r"round\(", path="a", output_mode="files_only", limit=1)
    assert files["files"] == ["a/c.py"] and files["next_offset"] == 1


async def test_lines_around_a_hit_are_shown_once(work: Path, search: Search) -> None:
    (work / "t").write_text("1\n2\nhit\n4\nhit\n6\n7\n")
    result = await search("hit", context=1)
    assert result["matches"] == [
        {"path": "t", "line": 3, "content": "hit", "before": ["2"], "after": ["4"]},
        {"path": "t", "line": 5, "content": "hit", "after": ["6"]},
    ]


@pytest.mark.sample(1)
async def test_a_wrong_pattern_is_explained_with_the_literal_form(tree: Path, search: Search) -> None:
    result = await search("round(")
    assert "not a valid regular expression" in result["error"] and result["literal"] == r"round\("
    assert (await search(result["literal"]))["total_count"] == 7


async def test_patterns_only_python_knows_work_by_default(tree: Path, context: FakeContext) -> None:
    context.options = {}
    result = await registry.dispatch("search", {"pattern": r"round(?=\(2)"}, context)
    assert places(result) == [("a/c.py", 1)]


async def test_long_lines_are_shortened_around_the_hit(work: Path, search: Search) -> None:
    (work / "m.js").write_text("ä" * 50_000 + "needle" + "b" * 50_000 + "\n")
    (match,) = (await search("needle"))["matches"]
    assert "needle" in match["content"] and len(match["content"]) < 500
    assert match["content"].startswith("…ä") and match["content"].endswith("b…")


@pytest.mark.thorough
async def test_binary_files_have_no_hits(work: Path, search: Search) -> None:
    (work / "early").write_bytes(b"needle\0\nneedle\n")
    (work / "late").write_bytes(b"needle\n" * 20_000 + b"\0")
    (work / "wide.txt").write_bytes("\ufeffneedle\r\n".encode("utf-16-le"))
    (work / "latin.txt").write_bytes("für needle\n".encode("cp1252"))
    result = await search("needle")
    assert [(match["path"], match["content"]) for match in result["matches"]] == [
        ("latin.txt", "für needle"), ("wide.txt", "needle"),
    ]  # fmt: skip
    assert (await search("needle", path="early"))["total_count"] == 0


async def test_crlf_does_not_hide_the_end_of_a_line(work: Path, search: Search) -> None:
    (work / "t").write_bytes(b"one\r\ntwo\r\n")
    assert (await search("one$"))["matches"] == [{"path": "t", "line": 1, "content": "one"}]


@pytest.mark.thorough
async def test_odd_names_do_not_break_a_search(work: Path, search: Search) -> None:
    odd = ["a\nb.py", "quote'\".py", "[x].py", " space ", "--glob", ":1:2.py"]
    for name in odd:
        (work / name).write_text("needle\n")
    Path(os.fsdecode(bytes(work) + b"/\xff.py")).write_text("needle\n")
    result = await search("needle")
    assert {match["path"] for match in result["matches"]} == {*odd, "\\xff.py"}
    assert set((await search("*", target="files"))["files"]) == {*odd, "\\xff.py"}
    (work / "only").mkdir()
    (work / "only" / "-e.py").write_text("needle\n")
    assert places(await search("needle", path="only/-e.py")) == [("only/-e.py", 1)]
    assert (await search("-e", path="only"))["total_count"] == 0


async def test_files_are_listed_newest_first(tree: Path, search: Search) -> None:
    now = time.time()
    for age, name in enumerate(("a/c.py", "b.py", "-dash.py", ".hidden/e.py", "a b/ü.py")):
        os.utime(tree / name, (now - age, now - age))
    result = await search("*.py", target="files", limit=3)
    assert result["files"] == ["a/c.py", "b.py", "-dash.py"]
    assert (result["total_count"], result["next_offset"]) == (5, 3)


@pytest.mark.thorough
async def test_files_are_found_by_part_of_their_path(tree: Path, search: Search) -> None:
    assert (await search("A/C", target="files"))["files"] == ["a/c.py"]
    assert (await search("a/*.py", target="files"))["files"] == ["a/c.py"]
    assert set((await search("*.{py,txt}", target="files", path="a"))["files"]) == {"a/c.py", "a/d.txt"}
    assert (await search("nothing", target="files"))["hint"].startswith("Nothing found")


@pytest.mark.sample(1)
async def test_settings_of_the_user_do_not_change_a_search(
    tree: Path, search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rc").write_text("--files-with-matches\n--glob=!*.py\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    assert (await search(r"round\("))["total_count"] == 7


@pytest.mark.sample(1)
async def test_protected_files_are_dropped_and_counted(
    tree: Path, search: Search, context: FakeContext
) -> None:
    context.options = {**context.options, PROTECTED_OPTION: [str(tree / "a")]}
    result = await search(r"round\(")
    assert not any(path.startswith("a/") for path, _ in places(result))
    assert result["omitted"] == 4
    assert "credentials" in (await search("x", path="a"))["error"]


async def test_a_denied_or_missing_root_is_refused(tree: Path, search: Search, context: FakeContext) -> None:
    assert "does not exist" in (await search("x", path="nowhere"))["error"]
    assert "error" in await search("")
    assert "error" in await search("a\0b")
    context.verdict = deny_all
    assert (await search("x"))["status"] == "blocked"


async def test_a_root_swapped_for_a_link_shows_nothing(
    tree: Path, search: Search, context: FakeContext, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "s").write_text("needle\n")

    def swap(action: object) -> None:
        (tree / "a").rename(tree / "old")
        (tree / "a").symlink_to(tmp_path / "other")

    context.on_permit = swap
    assert "error" in await search("needle", path="a")


@pytest.mark.thorough
async def test_a_search_that_takes_too_long_is_ended_and_says_so(
    work: Path, context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "a").write_text("hit\n")
    (work / "b").write_text("a" * 40 + "b\n")
    context.options = {"files.search_engine": "python"}
    monkeypatch.setattr(searching, "TIMEOUT", 1.5)
    result = await registry.dispatch("search", {"pattern": "(a+)+$|hit"}, context)
    assert "incomplete" in result["hint"] and result["truncated"] is True
    assert places(result) == [("a", 1)]
    assert describe({"pattern": "hit"}, result).summary == "1 hit in 1 file, incomplete"


async def test_a_cancelled_search_leaves_no_process(work: Path, context: FakeContext) -> None:
    (work / "b").write_text("a" * 40 + "b\n")
    context.options = {"files.search_engine": "python"}
    before = set(_children())
    task = asyncio.create_task(registry.dispatch("search", {"pattern": "(a+)+$"}, context))
    while not set(_children()) - before:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while set(_children()) - before:
        await asyncio.sleep(0.01)


def _children() -> list[str]:
    """Ids of the children of this process, from all of its threads."""
    return [
        child
        for thread in Path("/proc/self/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


@pytest.mark.sample(1)
async def test_too_many_hits_end_a_search(
    work: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_HITS", 25)
    for name in "abcde":
        (work / name).write_text("x\n" * 10)
    result = await search("x", limit=500)
    assert result["total_count"] == 30 and "incomplete" in result["hint"]
    monkeypatch.setattr(searching, "MAX_SHOWN_CHARS", 5)
    result = await search("x", limit=500)
    assert len(result["matches"]) == 5 and result["next_offset"] == 5


@pytest.mark.sample(1)
async def test_extremely_long_lines_are_left_out_and_counted(
    work: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_RECORD_BYTES", 100_000)
    (work / "a").write_text("needle" + "x" * 200_000 + "\nneedle\n")
    result = await search("needle")
    assert places(result) == [("a", 2)]
    assert "extremely long" in result["hint"]


def test_globs_are_expanded() -> None:
    assert expand("*.{ts,tsx}") == ["*.ts", "*.tsx"]
    assert expand("*.py, ./src/{a,b{1,2}}.c") == ["*.py", "src/a.c", "src/b1.c", "src/b2.c"]
    with pytest.raises(ToolError, match="too many"):
        expand("{a,b}" * 12)


@pytest.mark.parametrize(
    ("glob", "fitting", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("!*.min.js", ["a.js"], ["a.min.js"]),
        ("*.js,!*.min.js", ["a.js"], ["a.min.js", "a.ts"]),
        ("test_[ab].py", ["test_a.py"], ["test_c.py"]),
    ],
)
def test_globs_fit_as_in_gitignore(glob: str, fitting: list[str], other: list[str]) -> None:
    fits = matcher(glob)
    assert [path for path in [*fitting, *other] if fits(path)] == fitting


def test_how_a_search_looks() -> None:
    result = {
        "total_count": 14, "files_with_matches": 6,
        "matches": [{"path": "a.py", "line": 3, "content": "round(1)"}],
    }  # fmt: skip
    display = describe({"pattern": "round(", "path": "src"}, result)
    assert (display.verb, display.subject, display.summary) == (
        "search",
        '"round(" in src',
        "14 hits in 6 files",
    )
    assert display.detail == TextDetail("a.py:3: round(1)")
    assert describe({"pattern": "x"}, {"total_count": 1, "files": ["a"]}).summary == "1 file"
    assert describe({"pattern": "x"}, {"total_count": 0, "files_with_matches": 0}).summary == "no hits"
    assert re.fullmatch('"x"', describe({"pattern": "x"}, None).subject)


@pytest.mark.sample(1)
async def test_what_never_ends_or_is_too_long_is_refused_at_once(work: Path, search: Search) -> None:
    os.mkfifo(work / "fifo")
    assert "is a FIFO" in (await search(pattern="x", path="fifo"))["error"]
    for asked in ({"pattern": "ü" * 20_001}, {"pattern": "x", "file_glob": "*" * 20_001}):
        assert "more than 20,000 characters" in (await search(**asked))["error"]
    assert (await search(pattern="ü" * 20_000))["total_count"] == 0


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (".ignore", "."),
        ("a/.rgignore", "."),
        ("a/.gitignore", "a"),
        (".gitignore", "a"),
        (".git/info/exclude", "a"),
    ],
)
async def test_a_fifo_instead_of_an_ignore_file_ends_the_search_with_its_name(
    work: Path, search: Search, name: str, path: str
) -> None:
    (work / "a").mkdir()
    (work / "a" / "c.py").write_text("round")
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(work / name)
    for target in ("content", "files"):
        hint = (await search(pattern="round", path=path, target=target))["hint"]
        assert f"{Path(name).name} is a FIFO, not a file. Remove it" in hint, target


async def test_an_endless_device_instead_of_an_ignore_file_ends_the_search(
    work: Path, search: Search
) -> None:
    (work / ".ignore").symlink_to("/dev/zero")
    assert "the ignore file .ignore is a device, not a file" in (await search(pattern="round"))["hint"]
