"""Which commands touch what runs something later, whatever the mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.permissions.policy import Protection
from agent.safety.permissions.subjects import Setting
from tools.services.actions import RunCommand


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    (folder / "src").mkdir(parents=True)
    return folder


def reason(command: str, workspace: Path) -> str | None:
    protection = Protection(Setting(workspace, workspace.parent), workspace.parent / ".hermes")
    return protection.reason(RunCommand(tool="terminal", command=command, cwd=workspace))


@pytest.mark.parametrize(
    "command",
    [
        "cp x $D/hooks/pre-commit",
        "echo x > $D/.bashrc",
        "tee $(pwd)/.git/config",
        "cd $X && touch .git/hooks/pre-push",
        "rm -rf $D/.git",
        "cp x .g*/config",
        "touch site*.py",
        "cp -r template/workflows .github/",
        "cp -rt .github template/workflows",
        "mv new/.vscode .",
        "install hook.sh .git/hooks/pre-commit",
        "for h in pre-commit post-merge; do cp x .git/hooks/$h; done",
    ],
)
def test_what_may_be_guarded_is_asked(command: str, workspace: Path) -> None:
    assert reason(command, workspace) is not None


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ src/*.py",
        "for f in src/*.py; do sed -i s/a/b/ $f; done",
        "touch src/*.yml",
        "cp lib/*.py src/",
        "mkdir -p $OUT/build",
        "cp -r template/docs .github_pages/",
        "chmod +x scripts/*.sh",
    ],
)
def test_plain_globs_in_the_project_are_not(command: str, workspace: Path) -> None:
    assert reason(command, workspace) is None


def test_a_glob_counts_where_it_finds_a_guarded_file(workspace: Path) -> None:
    (workspace / "src" / "sitecustomize.py").write_text("")
    assert reason("sed -i s/a/b/ src/*.py", workspace) == "changes what Python runs whenever it starts"
    assert reason("cp src/*.py lib/", workspace) is not None


def test_what_is_deleted_is_not_said_to_be_changed_as_well(workspace: Path) -> None:
    assert reason("rm .envrc", workspace) == "deletes a start-up file of the shell or the session"
    assert reason("mv .envrc x", workspace) == "changes a start-up file of the shell or the session"
    assert reason("rm -rf ../c*", workspace) == "may delete a start-up file of the shell or the session"
    assert reason("echo x > ../.b*", workspace) == "may change a start-up file of the shell or the session"
    (workspace.parent / ".bashrc").touch()
    assert reason("echo x > ../.b*", workspace) == "changes a start-up file of the shell or the session"
    assert reason("rm .vscode/t*", workspace) == "deletes settings of an editor, which can run programs"
