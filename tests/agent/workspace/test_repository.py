"""What is read from a repository's files, held against what git says."""

from __future__ import annotations

from pathlib import Path

from agent.workspace.git import branch
from tests.agent.workspace.support import commit_all, git


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a\n")
    commit_all(folder, "First")
    return folder


def test_the_branch_is_read_from_anywhere_in_the_project(tmp_path: Path) -> None:
    root = repository(tmp_path / "one")
    (root / "deep" / "er").mkdir(parents=True)
    assert branch(root) == branch(root / "deep" / "er") == "main"
    git(root, "checkout", "-q", "-b", "fix/the-thing")
    assert branch(root) == "fix/the-thing" == git(root, "branch", "--show-current").strip()


def test_a_new_repository_has_a_branch_before_its_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert branch(tmp_path) == "main"


def test_a_detached_head_is_named_by_its_commit(tmp_path: Path) -> None:
    root = repository(tmp_path / "one")
    git(root, "checkout", "-q", "--detach")
    assert branch(root) == git(root, "rev-parse", "HEAD")[:7]


def test_a_worktree_has_its_own_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "one")
    git(root, "worktree", "add", "-q", "-b", "side", "../two")
    assert branch(tmp_path / "two") == "side"
    assert branch(root) == "main"


def test_what_is_no_repository_has_no_branch(tmp_path: Path) -> None:
    assert branch(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert branch(tmp_path) is None
    (tmp_path / ".git").write_bytes(b"\xff\x00" * 5_000)
    assert branch(tmp_path) is None


def test_a_hostile_head_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git" / "HEAD"
    for content in (b"", b"ref:", b"garbage", b"x" * 100_000, b"ref: refs/heads/\x00"):
        head.write_bytes(content)
        assert branch(tmp_path) is None
    head.write_bytes(b"ref: refs/heads/\x1b[31mred\xe2\x80\xae\n")
    assert branch(tmp_path) == "red"
    head.unlink()
    head.symlink_to("/etc/passwd")
    assert branch(tmp_path) is None
