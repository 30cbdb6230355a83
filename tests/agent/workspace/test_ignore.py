"""The ignore rules, held against git itself."""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from pathlib import Path

import pytest

from agent.workspace import ignore
from agent.workspace.ignore import IgnoreFiles, parse
from tests.agent.workspace.support import commit_all, git

PATTERNS = """
foo/**|!foo/keep|build/|*|!*/|!*.py|foo/*|/**|**/|foo|a/**/b|!foo/|foo/**/|/a|a/|*.py|**/b|b/**|a?b|[ab]|[!a]
\\!x|#c|\\#c|a\\ |a |!/a/b|*/b|a/*/b|**/a/**|x*y|***|a/b/|!b/|/foo/bar|[[:alpha:]]|[a-c]*|!keep|/
foo**|**foo|//|a//b|a/**|\\a|f\\oo|[]a]|[^b]|a/\\b|!|\\|[|a[|[z-a]|!!x|!#c
*.p?|k*p|.*|!.gitignore|*.|*.py/|!*.py/|a/*.py|!x.py|*.x.py|x.py/|/x.py|f*|/f*|f*/|!b?r|b[a]r|foo/bar/|.py
""".strip().replace("\n", "|")
NAMES = ["foo", "keep", "build", "a", "b", "x.py", "y.x.py", ".py", "x", "!x", "#c", "a ", "axb", "bar", "c"]


def grow(top: Path, chance: random.Random) -> None:
    """A small project with ignore files in it."""
    folders = [top]
    for _ in range(6):
        path = chance.choice(folders) / chance.choice(NAMES)
        if not path.exists():
            path.mkdir()
            folders.append(path)
    for _ in range(20):
        path = chance.choice(folders) / chance.choice(NAMES)
        if not path.exists():
            path.write_text("")
    patterns = PATTERNS.split("|")
    for folder in chance.sample(folders, min(3, len(folders))):
        lines = (chance.choice(patterns) for _ in range(chance.randint(1, 5)))
        (folder / ".gitignore").write_text("\n".join(lines) + "\n")
    (top / ".git" / "info" / "exclude").write_text(chance.choice(patterns) + "\n")


def shown_by_us(root: Path) -> set[str]:
    ignore = IgnoreFiles(root)
    found: set[str] = set()
    for place, folders, files in os.walk(root):
        below = "" if place == str(root) else f"{os.path.relpath(place, root)}/"
        folders[:] = [name for name in folders if not ignore.skips(below + name, folder=True)]
        found |= {below + name for name in files if not ignore.skips(below + name, folder=False)}
    return found


def shown_by_git(root: Path) -> set[str]:
    return set(git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")) - {""}


@pytest.mark.thorough
def test_random_projects_are_seen_as_git_sees_them(tmp_path: Path) -> None:
    chance = random.Random(7)
    some = 0
    for number in range(120):
        root = tmp_path / str(number)
        root.mkdir()
        git(root, "init", "-q")
        grow(root, chance)
        expected = shown_by_git(root)
        rules = {str(path.relative_to(root)): path.read_text() for path in root.rglob(".gitignore")}
        assert shown_by_us(root) == expected, rules
        some += bool(expected)
    assert some > 50


def test_rules_of_folders_above_the_project_count(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    root = tmp_path / "packages" / "one"
    (root / "src").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("*.log\n/packages/one/gone\npackages/*/out/\n")
    (tmp_path / "packages" / ".gitignore").write_text("!keep.log\none/src/x\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("mine\n")
    for name in ("a.log", "keep.log", "gone", "src/x", "src/y", "mine"):
        (root / name).write_text("")
    assert shown_by_us(root) == shown_by_git(root) == {"keep.log", "src/y"}


def test_a_worktree_takes_the_excludes_of_its_repository(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    (main / "a").write_text("")
    commit_all(main, "First")
    git(main, "worktree", "add", "-q", "../side")
    (main / ".git" / "info" / "exclude").write_text("mine\n")
    for name in ("mine", "yours"):
        (tmp_path / "side" / name).write_text("")
    assert shown_by_us(tmp_path / "side") - {"a"} == {"yours"} == shown_by_git(tmp_path / "side")


def test_a_repository_within_goes_by_its_own_rules(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (inner / ".git" / "info" / "exclude").write_text("own\n")
    for name in ("a.txt", "own", "b"):
        (inner / name).write_text("")
    assert {f"inner/{name}" for name in shown_by_git(inner)} == {"inner/a.txt", "inner/b"}
    assert shown_by_us(tmp_path) == {".gitignore", "inner/a.txt", "inner/b"}


def test_names_that_are_no_text_and_a_byte_order_mark(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbffirst\r\n\xff*\r\n")
    for name in (b"first", b"\xffx", b"x\xff"):
        (tmp_path / os.fsdecode(name)).write_text("")
    assert shown_by_us(tmp_path) == {".gitignore", os.fsdecode(b"x\xff")}


def test_rules_are_read_anew_once_forgotten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    ignore = IgnoreFiles(tmp_path)
    assert not ignore.skips("a/x", folder=False)
    (tmp_path / ".gitignore").write_text("x\n")
    assert not ignore.skips("a/x", folder=False)
    ignore.forget("")
    assert ignore.skips("a/x", folder=False)


@pytest.mark.parametrize(
    "rule",
    ["*a" * 40 + "b", "**/a" * 30, "[" * 4_000, "a" * 100_000],
    ids=["stars", "folders", "brackets", "length"],
)
def test_rules_made_to_take_for_ever_are_left_out(rule: str) -> None:
    rules = parse(f"{rule}\nplain\n")
    assert not rules.tried
    assert rules.deciding("plain", folder=False) and not rules.deciding("a" * 250, folder=False)


def test_rules_with_the_most_wildcards_are_matched_in_no_time(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a*a*ab\n")
    assert not IgnoreFiles(tmp_path).skips("a" * 250, folder=False)


def test_an_ignore_file_that_is_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("x\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".gitignore").symlink_to("../rules")
    (tmp_path / "b" / ".gitignore").mkdir(parents=True)
    ignore = IgnoreFiles(tmp_path)
    assert not ignore.skips("a/x", folder=False)
    assert not ignore.skips("b/x", folder=False)


@pytest.mark.thorough
def test_twenty_thousand_rules_are_as_good_as_few(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    names = (f"gen_{number}.c\n/out/{number}\n*.{number}~x\n!keep_{number}\n" for number in range(5_000))
    (tmp_path / ".gitignore").write_text("keep_*\n" + "".join(names))
    (tmp_path / "out").mkdir()
    for name in ("gen_4999.c", "gen_5000.c", "out/77", "out/x", "a.4321~x", "a.b", "keep_4", "keep_x"):
        (tmp_path / name).write_text("")
    shown = shown_by_us(tmp_path)
    assert shown == shown_by_git(tmp_path) == {".gitignore", "gen_5000.c", "out/x", "a.b", "keep_4"}
    level = IgnoreFiles(tmp_path)
    level.skips("x", folder=False)
    assert not level.cut


def test_only_rules_with_wildcards_are_tried_and_only_where_their_beginning_fits() -> None:
    rules = parse("".join(f"gen_{number}_*.log\n" for number in range(1_000)) + "one\n*.two\n/three/four\n")
    assert len(rules.tried) == 1_000
    asked: list[str] = []

    class Counted:
        def match_file(self, path: str) -> None:
            asked.append(path)

    tried = [dataclasses.replace(each, pattern=Counted()) for each in rules.tried]  # type: ignore[arg-type]
    counted = dataclasses.replace(rules, tried=tried)
    assert counted.deciding("src/gen_7_x.log", folder=False) is None
    assert asked == ["src/gen_7_x.log"]


@pytest.mark.parametrize("text", ["*a?\n" * 30, "a\n" * 70, "x" * 3_000 + "\n*.c\n"])
def test_rules_there_is_no_room_for_are_left_out_and_their_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(ignore, "MAX_BYTES", 2_000)
    monkeypatch.setattr(ignore, "MAX_LINES", 50)
    monkeypatch.setattr(ignore, "MAX_TRIED", 20)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("first\n" + text)
    rules = IgnoreFiles(tmp_path)
    assert rules.skips("sub/first", folder=False)
    assert not rules.skips("sub/other.h", folder=False)
    assert rules.cut == {"sub/.gitignore"}
    (tmp_path / "sub" / ".gitignore").write_text("first\n")
    rules.forget("sub")
    assert rules.skips("sub/first", folder=False) and not rules.cut


def test_folders_share_the_room_for_rules_that_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore, "MAX_TRIED", 5)
    below = tmp_path
    for _ in range(4):
        (below / ".gitignore").write_text("?1\n?2\nplain\n")
        below = below / "a"
        below.mkdir()
    (below / ".gitignore").write_text("?9\nrare\n")
    rules = IgnoreFiles(tmp_path)
    assert rules.skips("a/a/x2", folder=False)
    assert not rules.skips("a/a/a/a/x9", folder=False)
    assert rules.skips("a/a/a/a/rare", folder=False) and rules.skips("a/a/a/a/plain", folder=False)
    assert rules.cut == {"a/a/.gitignore", "a/a/a/.gitignore", "a/a/a/a/.gitignore"}


@pytest.mark.thorough
def test_folders_may_lie_deeper_in_each_other_than_calls_can(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("hidden\n")
    below = "/".join("d" * (sys.getrecursionlimit() + 500))
    assert IgnoreFiles(tmp_path).skips(f"{below}/hidden", folder=False)
    assert not IgnoreFiles(tmp_path).skips(f"{below}/shown", folder=False)
