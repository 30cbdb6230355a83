"""Real repositories, some of which would like to run something."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from agent.workspace import git as runner
from agent.workspace.git import GitError, branch, run_git
from tests.agent.workspace.support import commit_all, git


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\n")
    (folder / "b.bin").write_text("two\n")
    commit_all(folder, "First")
    return folder


def alarm(folder: Path) -> tuple[Path, Path]:
    """A program that leaves a trace, and the trace."""
    trace = folder / "it-ran"
    program = folder / "alarm.sh"
    program.write_text(f"#!/bin/sh\necho \"$0 $@\" >> '{trace}'\ncat\n")
    program.chmod(0o755)
    return program, trace


def stale(root: Path) -> None:
    """Make git look into the files again, and find one changed."""
    for name in ("a.txt", "b.bin"):
        os.utime(root / name, (1, 1))
    (root / "a.txt").write_text("three\n")


HOSTILE = {
    "a file system monitor": lambda program: {"core.fsmonitor": program},
    "a clean filter": lambda program: {"filter.x.clean": program, "filter.x.smudge": program},
    "a filter process": lambda program: {"filter.x.process": program, "filter.x.required": "true"},
    "a diff driver": lambda program: {"diff.x.command": program, "diff.external": program},
    "a text converter": lambda program: {"diff.x.textconv": program, "diff.x.cachetextconv": "true"},
    "hooks": lambda program: {"core.hooksPath": str(Path(program).parent / "hooks")},
    "a pager and an editor": lambda program: {
        "core.pager": program,
        "pager.log": program,
        "core.editor": program,
    },
    "an alias": lambda program: {"alias.status": f"!{program}", "alias.log": f"!{program}"},
    "a signature check": lambda program: {"gpg.program": program, "log.showSignature": "true"},
    "a partial clone": lambda program: {
        "remote.origin.url": f"ext::{program}",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.sshCommand": program,
    },
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("included", [False, True], ids=["set", "included"])
@pytest.mark.parametrize("attack", HOSTILE)
async def test_a_hostile_repository_runs_nothing(tmp_path: Path, attack: str, included: bool) -> None:
    root = repository(tmp_path / "project")
    program, trace = alarm(tmp_path)
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (tmp_path / "hooks" / hook).symlink_to(program)
        (root / ".git" / "hooks" / hook).symlink_to(program)
    (root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    commit_all(root, "Attributes")
    target = tmp_path / "included.cfg" if included else root / ".git" / "config"
    for name, value in HOSTILE[attack](str(program)).items():
        git(tmp_path, "config", "--file", str(target), name, value)
    if included:
        git(tmp_path, "config", "--file", str(root / ".git" / "config"), "include.path", str(target))
    stale(root)
    trace.unlink(missing_ok=True)
    for command in (("status", "--porcelain"), ("diff", "HEAD"), ("log", "-p", "-1"), ("show", "HEAD:a.txt")):
        assert (await run_git(root, *command)).code == 0
    assert not trace.exists()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["core.fsmonitor", "filter.x.clean", "diff.x.command", "diff.x.textconv"])
def test_plain_git_would_have_run_it(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path / "project")
    program, trace = alarm(tmp_path)
    (root / ".gitattributes").write_text("* filter=x diff=x\n")
    git(root, "config", name, str(program))
    stale(root)
    git(root, "diff")
    assert trace.exists()


async def test_a_hostile_submodule_runs_nothing(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    root = repository(tmp_path / "project")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(root, "config", "--file", ".gitmodules", "submodule.sub.ignore", "none")
    commit_all(root, "Submodule")
    program, trace = alarm(tmp_path)
    for name in ("core.fsmonitor", "filter.x.clean"):
        git(root / "sub", "config", name, str(program))
    (root / "sub" / ".gitattributes").write_text("* filter=x\n")
    (root / "sub" / "a.txt").write_text("changed\n")
    for command in (("status", "--porcelain"), ("diff", "HEAD"), ("log", "-p")):
        assert (await run_git(root, *command)).code == 0
    assert not trace.exists()


async def test_variables_of_the_person_do_not_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "project")
    program, trace = alarm(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(program))
    stale(root)
    assert (await run_git(root, "status", "--porcelain")).output == b" M a.txt\n"
    assert not trace.exists()


async def test_status_and_log_tell_the_truth(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    (root / "sub").mkdir()
    (root / "sub" / "é.txt").write_text("new\n")
    (root / "a.txt").write_text("changed\n")
    (root / ".git" / "info" / "exclude").write_text("ignored\n")
    (root / "ignored").write_text("")
    result = await run_git(root, "status", "--porcelain", "-z", "-uall")
    assert result.output.decode() == " M a.txt\0?? sub/é.txt\0"
    assert (await run_git(root / "sub", "log", "--format=%s")).output == b"First\n"
    assert (await run_git(root, "rev-parse", "HEAD")).output.decode() == git(root, "rev-parse", "HEAD")
    assert branch(root) == "main"


async def test_nothing_of_the_repository_is_written(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    stale(root)
    before = {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")}
    await run_git(root, "status")
    await run_git(root, "diff")
    assert {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")} == before


async def test_a_worktree_and_packed_references_are_read(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    git(root, "worktree", "add", "-q", "-b", "side", "../two")
    git(root, "pack-refs", "--all")
    git(root, "gc", "-q")
    (tmp_path / "two" / "a.txt").write_text("changed\n")
    assert (await run_git(tmp_path / "two", "status", "--porcelain")).output == b" M a.txt\n"
    names = await run_git(root, "for-each-ref", "--format=%(refname:short)")
    assert names.output == b"main\nside\n"


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "command",
    [
        (),
        ("push",),
        ("config", "--list"),
        ("-c", "core.fsmonitor=x", "status"),
        ("diff", "--output=/tmp/x"),
        ("diff", "--outp=/tmp/x"),
        ("diff", "--ext-diff"),
        ("log", "-p", "--textconv"),
        ("ls-files", "--recurse-sub"),
    ],
)
async def test_what_does_more_than_read_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    root = repository(tmp_path / "project")
    with pytest.raises(GitError, match="more than read"):
        await run_git(root, *command)


async def test_no_repository_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="no git repository"):
        await run_git(tmp_path, "status")


async def test_an_answer_that_takes_too_long_or_is_too_large_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "project")
    monkeypatch.setattr(runner, "MAX_OUTPUT", 10)
    with pytest.raises(GitError, match="more than 10 bytes"):
        await run_git(root, "log")
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n/bin/sleep 300\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setattr(runner, "SYSTEM_PATH", str(slow))
    with pytest.raises(GitError, match="within"):
        await run_git(root, "status", seconds=3.0)
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        await asyncio.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("name", "command"),
    [(".gitattributes", ("diff", "HEAD")), ("sub/.gitignore", ("status",)), (".mailmap", ("log", "-1"))],
)
async def test_a_pipe_that_git_would_read_is_named(tmp_path: Path, name: str, command: tuple[str]) -> None:
    root = repository(tmp_path / "project")
    stale(root)
    (root / "sub").mkdir()
    (root / "sub" / "c.txt").touch()
    os.mkfifo(root / name)
    with pytest.raises(GitError, match=f"wait for ever for {name}, which is no file; remove it"):
        await run_git(root, *command)
