"""A command that certainly changes no file needs no look at all files; in doubt there is one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.engines import Bench, bench
from tests.support.replies import call, say


def program(path: Path) -> None:
    """A program that writes a file and nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho written >> made.txt\n")
    path.chmod(0o755)


async def kinds_of_steps(folder: Path, *commands: str, path: str = "", git: str = "") -> list[str]:
    """Run the commands, the last of them after somebody else has written a file. Return what is recorded
    before anything else happens.
    """
    steps: list[str] = []

    def answer(request: Any) -> Any:
        number = sum(message["role"] == "tool" for message in request.body["messages"])
        if number < len(commands):
            if number == len(commands) - 1:
                (b.workspace / "theirs.txt").write_text("x")
            return call("terminal", command=commands[number])
        store = CheckpointStore(b.home / "checkpoints")
        for file in (b.home / "checkpoints" / "lines").glob("*.log"):
            steps.extend(step.kind for step in store.line(file.stem).steps())
        return say("done")

    b: Bench
    async with bench(folder, answer) as b:
        if path:
            program(b.workspace / "bin" / path)
            b.environ["PATH"] = f"{b.workspace / 'bin'}:{os.environ['PATH']}"
        if git:
            program(b.workspace / "watch.sh")
            subprocess.run(["git", "init", "-q"], cwd=b.workspace, check=True)
            subprocess.run(["git", "config", "core.fsmonitor", git], cwd=b.workspace, check=True)
        (b.workspace / "one.txt").write_text("one\n")
        async with b.engine() as engine:
            assert (await engine.run("go")).outcome == "done"
            return steps


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "cat one.txt; ls -l | head -1",
        "cd /; ls",
        "git status --short",
        "rg -n 'one$' || sed -n 1,2p one.txt",
    ],
)
async def test_no_look_at_all_files_is_taken_around_a_command_that_only_looks(
    tmp_path: Path, command: str
) -> None:
    git = "false" if command.startswith("git") else ""
    assert await kinds_of_steps(tmp_path, "echo made > made.txt", command, git=git) == ["command"]


@pytest.mark.parametrize(
    "commands",
    [
        ["ls() { echo written >> made.txt; }", "ls"],
        ["alias ls='echo written >> made.txt; true'", "ls"],
        ["export PATH=/usr/bin:/bin", "ls"],
        ["export GREP_COLORS=x", "cat one.txt"],
        ["true", "cat one.txt > made.txt"],
        ["true", "./bin/ls"],
        ["true", "python3 -c pass"],
        ["true", "PATH=./bin:$PATH ls"],
        ["true", "export LD_PRELOAD=./x.so; ls"],
        ["true", "GIT_EXTERNAL_DIFF=./x git diff"],
        ["true", "env PATH=./bin ls"],
        ["x='a[$(touch made.txt)]'", '[[ "$x" -eq 0 ]]'],
        ["PS4='$(touch made.txt)'; set -x", "ls"],
    ],
)
async def test_a_look_is_taken_where_a_name_may_mean_something_else(
    tmp_path: Path, commands: list[str]
) -> None:
    assert "outside" in await kinds_of_steps(tmp_path, *commands)


async def test_what_a_function_with_a_harmless_name_writes_belongs_to_its_call(tmp_path: Path) -> None:
    commands = ["ls() { echo written >> made.txt; }", "ls"]
    assert await kinds_of_steps(tmp_path, *commands) == ["outside", "command"]


async def test_a_program_of_the_project_with_a_harmless_name_is_looked_after(tmp_path: Path) -> None:
    assert await kinds_of_steps(tmp_path, "true", "ls", path="ls") == ["outside", "command"]


async def test_git_is_looked_after_where_the_repository_names_programs(tmp_path: Path) -> None:
    steps = await kinds_of_steps(tmp_path, "true", "git status --short", git="./watch.sh")
    assert "outside" in steps
