"""Repositories that keep their refs in tables: everyday commands work, and nothing opens for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import SessionOpened
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.git import checkout
from tests.agent.session.turns.test_git_brings import run, shell
from tests.agent.session.turns.test_git_settings import hidden
from tests.agent.session.turns.test_guarded_changes import result
from tests.support import newer_git
from tests.support.engines import bench

PROJECT = """
git init -q -b main --ref-format=reftable; git config user.name A; git config user.email a@example.org
mkdir d; echo a > a; echo d > d/d; git add .; git commit -qm a; git branch other
"""
WORK = (
    "echo b > b; git add b; git commit -qm b",
    "git commit -q --amend -m c",
    "git checkout -q -b topic other && git commit -q --allow-empty -m t && git rebase -q main",
    "git checkout -q main && git merge -q --no-edit topic && git tag v1 && git branch -m topic old",
    "echo s >> a; git stash -q; git stash pop -q; git checkout -q -- a",
    "git sparse-checkout set d && git sparse-checkout disable",
    "git worktree add -q ../work/tree old && git -C tree commit -q --allow-empty -m w",
    "git pack-refs --all && git gc -q && git fsck",
    "git remote add fork ../fork && git init -q sub && git -C sub status -s",
)


@pytest.fixture(autouse=True)
def _newer(monkeypatch: pytest.MonkeyPatch) -> None:
    newer_git.use(monkeypatch)


async def test_everyday_commands_are_as_outside(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        b.environ["PATH"] = newer_git.newer_path()
        shell(b.workspace, PROJECT)
        await run(b, *WORK)
        for number, each in enumerate(WORK, 1):
            assert result(b, number).get("exit_code") == 0, (each, result(b, number))
            assert "note" not in result(b, number), (each, result(b, number))
        shell(b.workspace, "git fsck; git status; git log")
        assert checkout(b.workspace) is not None and checkout(b.workspace).name == "main"  # type: ignore[union-attr]
        assert not (b.workspace / ".git/commondir").exists()
        assert "sparseCheckout = false" in (b.workspace / ".git/config.worktree").read_text()


async def test_what_is_checked_out_is_read_from_the_tables(tmp_path: Path) -> None:
    shell(tmp_path, f"mkdir r; cd r; {PROJECT}\ngit worktree add -q ../w -b 'of/tree'")
    for folder, name, detached in (("r", "main", False), ("w", "of/tree", False)):
        found = checkout(tmp_path / folder)
        assert found is not None and (found.name, found.detached) == (name, detached)
    head = shell(tmp_path / "r", "git checkout -q --detach; git rev-parse HEAD")
    found = checkout(tmp_path / "r")
    assert found is not None and found.detached and head.startswith(found.name)
    (tmp_path / "r/.git/reftable/tables.list").write_text("0x1-0x2-gone.ref\n")
    assert checkout(tmp_path / "r") is None


@pytest.mark.parametrize(
    "way",
    [
        "echo ../evil > .git/commondir",
        "mkdir .git/commondir",
        "ln -s ../evil .git/commondir",
        "git config extensions.worktreeConfig true; echo '[core] fsmonitor = x' > .git/config.worktree",
    ],
)
async def test_what_has_git_read_other_settings_does_not_stay(tmp_path: Path, way: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        b.environ["PATH"] = newer_git.newer_path()
        shell(b.workspace, f"{PROJECT}\ngit init -q evil; git -C evil config core.fsmonitor x")
        hidden(b, way)
        await run(b, "python3 act.py", "git commit -q --allow-empty -m after")
        assert (
            not (b.workspace / ".git/commondir").exists()
            and not (b.workspace / ".git/commondir").is_symlink()
        )
        assert "fsmonitor" not in shell(b.workspace, "git config -l")
        assert result(b, 2)["exit_code"] == 0, result(b, 2)


async def test_a_step_that_moves_a_branch_names_it(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        b.environ["PATH"] = newer_git.newer_path()
        shell(b.workspace, PROJECT)
        await run(b, "git commit -q --allow-empty -m x", "git switch -q other")
        [session] = [each.session for each in b.seen(SessionOpened)]
        lines = [step.git for step in CheckpointStore(b.home / "checkpoints").line(session).steps()]
        assert lines[0].startswith("git: main ") and lines[1] == "git: on main → on other", lines
