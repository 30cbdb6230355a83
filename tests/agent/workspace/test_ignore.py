"""The ignore rules, held against git itself."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from agent.workspace.ignore import Ignore, parse
from tests.agent.workspace.support import commit_all, git

PATTERNS = """
foo/**|!foo/keep|build/|*|!*/|!*.py|foo/*|/**|**/|foo|a/**/b|!foo/|foo/**/|/a|a/|*.py|**/b|b/**|a?b|[ab]|[!a]
\\!x|#c|\\#c|a\\ |a |!/a/b|*/b|a/*/b|**/a/**|x*y|***|a/b/|!b/|/foo/bar|[[:alpha:]]|[a-c]*|!keep|/
foo**|**foo|//|a//b|a/**|\\a|f\\oo|[]a]|[^b]|a/\\b|!|\\|[|a[|[z-a]|!!x|!#c
*.p?|k*p|.*|!.gitignore
""".strip().replace("\n", "|")
NAMES = ["foo", "keep", "build", "a", "b", "x.py", "x", "!x", "#c", "a ", "axb", "bar", "xzy", "c"]


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
    ignore = Ignore(root)
    found: set[str] = set()
    for place, folders, files in os.walk(root):
        below = "" if place == str(root) else f"{os.path.relpath(place, root)}/"
        folders[:] = [name for name in folders if not ignore.skips(below + name, folder=True)]
        found |= {below + name for name in files if not ignore.skips(below + name, folder=False)}
    return found


def shown_by_git(root: Path) -> set[str]:
    return set(git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")) - {""}


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
    ignore = Ignore(tmp_path)
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
    [left] = parse(f"{rule}\nplain\n")
    assert left.fits("plain", folder=False)


def test_rules_with_the_most_wildcards_are_matched_in_no_time(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a*a*ab\n")
    assert not Ignore(tmp_path).skips("a" * 250, folder=False)


def test_an_ignore_file_that_is_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("x\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".gitignore").symlink_to("../rules")
    (tmp_path / "b" / ".gitignore").mkdir(parents=True)
    ignore = Ignore(tmp_path)
    assert not ignore.skips("a/x", folder=False)
    assert not ignore.skips("b/x", folder=False)
