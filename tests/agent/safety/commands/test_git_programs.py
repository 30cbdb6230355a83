"""Settings of a repository that name programs, where no sandbox keeps them to the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.commands.git_programs import names_programs
from agent.safety.confinement import Confinement
from agent.safety.places import Places

NAMING = [
    "[core]\n\tfsmonitor = ./evil\n",
    "[CORE] FSMonitor=./evil\n",
    "\ufeff[core]\nfsmonitor=./evil",
    '[core "x"]\n[core]\n\thooksPath = hooks\n',
    "[core]\n\tpager = ./evil\n",
    "[diff]\n\texternal = ./evil\n",
    '[diff "a]b"]\n\ttextconv = ./evil\n',
    "[diff.evil]\n\tcommand = ./evil\n",
    '[filter "x"]\n\tclean = ./evil\n',
    '[filter "x"]\n\tprocess = "./git-lfs-evil"\n',
    "[include]\n\tpath = ../more\n",
    '[includeIf "gitdir:/"]\n\tpath = ../more\n',
    "[pager]\n\tstatus = ./evil\n",
    '[gpg "ssh"]\n\tprogram = ./evil\n',
    '[remote "origin"]\n\turl = "ext::sh -c evil"\n',
    '[remote "origin"]\n\tuploadpack = ./evil\n',
    "[broken\n",
]
PLAIN = [
    "",
    "[core]\n\tbare = false\n\tfsmonitor = true\n\tpager = cat\n",
    '[remote "origin"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n',
    '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n',
    "# [core]\n; fsmonitor = x\n[pager]\n\tlog = false\n",
]


def repository(folder: Path, config: str = "") -> Path:
    """The git folder of a repository in `folder`."""
    git = folder / ".git"
    for name in ("objects", "refs", "hooks"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(config)
    return git


@pytest.mark.parametrize("config", NAMING)
def test_settings_that_name_a_program_are_found_from_anywhere_inside(tmp_path: Path, config: str) -> None:
    repository(tmp_path, config)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert names_programs(str(tmp_path / "a" / "b"))


@pytest.mark.parametrize("config", PLAIN)
def test_settings_as_most_repositories_have_them_name_none(tmp_path: Path, config: str) -> None:
    repository(tmp_path, config)
    assert not names_programs(str(tmp_path))


def test_hooks_of_the_index_submodules_and_bare_repositories_count(tmp_path: Path) -> None:
    hook = repository(tmp_path / "hook") / "hooks" / "post-index-change"
    hook.write_text("#!/bin/sh\n")
    module = repository(tmp_path / "super") / "modules" / "lib" / "deep"
    module.mkdir(parents=True)
    (module / "config").write_text(NAMING[0])
    worktree = repository(tmp_path / "settings") / "config.worktree"
    worktree.write_text(NAMING[0])
    repository(tmp_path / "outer" / "x", NAMING[0])
    (tmp_path / "outer" / "x" / ".git").rename(tmp_path / "outer" / "bare")
    for name in ("hook", "super", "settings", "outer/bare"):
        assert names_programs(str(tmp_path / name)), name


def test_settings_that_cannot_be_read_are_in_doubt_and_a_plain_folder_is_not(tmp_path: Path) -> None:
    git = repository(tmp_path / "pipe")
    (git / "config").unlink()
    os.mkfifo(git / "config")
    assert names_programs(str(tmp_path / "pipe"))
    (tmp_path / "plain").mkdir()
    assert not names_programs(str(tmp_path / "plain"))


@pytest.mark.parametrize("command", ["git status", "git diff", "git log -3", "git add .", "git -C sub show"])
@pytest.mark.parametrize(("confinement", "kind"), [("none", "ask"), ("open", "allow"), ("closed", "allow")])
def test_git_asks_there_unless_a_sandbox_keeps_what_it_runs(
    tmp_path: Path, command: str, confinement: Confinement, kind: str
) -> None:
    workspace = tmp_path / "work"
    repository(workspace, NAMING[0])
    (workspace / "sub").mkdir()
    assessor = Assessor(Places(home=str(tmp_path)), workspace, None, confinement=confinement)
    assert assessor.assess(command, workspace).kind == kind


@pytest.mark.parametrize("command", ["git status", "git diff", "git add ."])
def test_git_in_a_repository_that_names_nothing_passes(tmp_path: Path, command: str) -> None:
    workspace = tmp_path / "work"
    repository(workspace, PLAIN[2])
    assert Assessor(Places(home=str(tmp_path)), workspace, None).assess(command, workspace).kind == "allow"
