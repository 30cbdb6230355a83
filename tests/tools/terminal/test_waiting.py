"""A boundary that waits: one command each, and only if it is what would be drawn now."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.safety.sandbox.boundary import BoundaryFolders, CommandReading, NetworkMode, SessionBoundary
from agent.workspace.placeholders import RESTING
from tests.agent.safety.sandbox.kinds import KINDS, WITH_NAMESPACES
from tests.tools.terminal.conftest import Task, processes_with, until, until_now
from tools.services.sandbox import SandboxLimits
from tools.terminal.local import LocalBackend
from tools.terminal.terminals import Terminals

pytestmark = pytest.mark.skipif(not WITH_NAMESPACES, reason="only boundaries with mounts can wait")


class Boxed(Task):
    """A task in a repository, and its backend."""

    def __init__(self, root: Path, made: Terminals, kind: str, network: NetworkMode = "off") -> None:
        workspace = root / "work space"
        workspace.mkdir()
        subprocess.run(["git", "init", "-q", str(workspace)], check=True)
        super().__init__(workspace, made)
        (root / "home").mkdir()
        (workspace / "secrets").mkdir()
        self.secret = workspace / "secrets" / "key"
        self.secret.write_text("PRIVATE")
        made.boundary = SessionBoundary(
            KINDS[kind],
            BoundaryFolders(
                workspace,
                root / "private",
                Home(root / "home"),
                hidden=[self.secret, self.secret.with_name("later")],
                readable=[self.context.scratch],
            ),
            network=network,
            reads=CommandReading(changes_settings=lambda command, cwd: command.startswith("git ")),
            limits=SandboxLimits(files=512),
        )

    @property
    def backend(self) -> LocalBackend:
        backend = self.context.terminals.backend
        assert isinstance(backend, LocalBackend)
        return backend

    async def waiting(self) -> str:
        """Wait for the next boundary; return the mark of the command it will take."""
        await until(lambda: self.backend.ahead is not None)
        assert self.backend.ahead is not None
        return self.backend.ahead.mark

    async def mark(self) -> str:
        return (await self.output("echo $HERMES_CALL")).strip()


@pytest.fixture(params=WITH_NAMESPACES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def task(tmp_path: Path, terminals: Callable[..., Terminals], kind: str) -> Boxed:
    return Boxed(tmp_path, terminals({**os.environ, "MY_TOKEN": "hush"}), kind)


async def test_each_waiting_boundary_takes_one_command(task: Boxed):
    assert not task.context.terminals.backend.ahead  # type: ignore[attr-defined]
    assert "ahead" not in await task.mark()
    first = await task.waiting()
    assert await task.mark() == first
    second = await task.waiting()
    assert second != first
    assert await task.mark() == second


async def test_a_command_in_a_waiting_boundary_finds_what_it_would_find_otherwise(task: Boxed):
    await task.run("mkdir 'a b'; cd 'a b'; export A='x y'; f() { echo function; }; umask 027")
    await task.waiting()
    shown = await task.output("pwd; echo $OLDPWD; echo $A; f; umask; ulimit -n; cat; echo ${MY_TOKEN-none}")
    place = task.workspace / "a b"
    assert shown.splitlines() == [str(place), str(task.workspace), "x y", "function", "0027", "512", "none"]
    await task.waiting()
    ended = await task.run("cd ..; touch made; exit 3")
    assert ended["exit_code"] == 3
    assert (task.workspace / "made").stat().st_mode & 0o777 == 0o640
    await task.waiting()
    assert await task.output("pwd") == f"{task.workspace}\n"


async def test_a_guarded_file_that_appears_meanwhile_is_protected(task: Boxed):
    await task.run("true")
    waiting = await task.waiting()
    (task.workspace / ".envrc").write_text("mine")
    shown = await task.run("echo $HERMES_CALL; echo theirs > .envrc; true")
    assert waiting not in shown["output"]
    assert (task.workspace / ".envrc").read_text() == "mine"


@pytest.mark.parametrize("way", ["replaced", "linked again", "new"])
async def test_a_hidden_file_that_is_put_there_meanwhile_is_hidden(task: Boxed, way: str):
    await task.run("true")
    waiting = await task.waiting()
    wanted = task.secret
    match way:
        case "replaced":
            fresh = wanted.with_name("fresh")
            fresh.write_text("PRIVATE")
            fresh.replace(wanted)
        case "linked again":
            other = wanted.with_name("other")
            os.link(wanted, other)
            wanted.unlink()
            other.replace(wanted)
        case _:
            wanted = wanted.with_name("later")
            wanted.write_text("PRIVATE")
    shown = await task.run(f"echo $HERMES_CALL; cat '{wanted}'; true")
    assert waiting not in shown["output"]
    assert "PRIVATE" not in shown["output"]


async def test_hooks_of_a_repository_that_was_made_meanwhile_are_protected(task: Boxed):
    (task.workspace / "sub").mkdir()
    await task.run("true")
    await task.waiting()
    subprocess.run(["git", "init", "-q", str(task.workspace / "sub")], check=True)
    shown = await task.run("echo x > sub/.git/hooks/pre-commit")
    assert shown["exit_code"] != 0
    assert not (task.workspace / "sub/.git/hooks/pre-commit").exists()


async def test_a_link_in_the_place_of_the_workspace_opens_nothing(task: Boxed, tmp_path: Path):
    await task.run("true")
    await task.waiting()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    task.workspace.rename(tmp_path / "moved")
    task.workspace.symlink_to(elsewhere)
    result = await task.run("echo x > planted")
    assert not (elsewhere / "planted").exists(), result
    assert not (tmp_path / "moved" / "planted").exists(), result


async def test_another_shape_is_drawn_and_the_waiting_one_stays_for_its_own(task: Boxed):
    await task.run("true")
    waiting = await task.waiting()
    assert "ahead" not in (await task.run("echo $HERMES_CALL", pty=True))["output"]
    assert await task.mark() == waiting


def repository(task: Boxed) -> dict[str, int]:
    return {path.name: path.lstat().st_ino for path in (task.workspace / ".git").iterdir()}


async def test_while_it_waits_the_repository_is_as_it_was(task: Boxed):
    (task.workspace / ".git/hooks").rename(task.workspace / "old hooks")
    before = repository(task)
    await task.run("true")
    waiting = await task.waiting()
    assert repository(task) == before
    assert not (task.workspace / "secrets/later").exists()
    shown = await task.run(
        "echo $HERMES_CALL; for each in .git/commondir .git/config.worktree .git/hooks/x secrets/later/x; do "
        "echo x > $each; rm -rf $each; done; mv .git/commondir .git/moved; ls .git"
    )
    assert waiting in shown["output"]
    assert "commondir" in shown["output"]
    await task.waiting()
    assert not (task.workspace / "secrets/later").exists()
    assert repository(task) == before


async def test_a_setting_that_appears_meanwhile_under_a_reserved_name_stays_the_person_s(task: Boxed):
    await task.run("true")
    waiting = await task.waiting()
    theirs = task.workspace / ".git/config.worktree"
    theirs.write_text("[user]\nname = me\n")
    shown = await task.run("echo $HERMES_CALL; echo x > .git/config.worktree; rm -f .git/config.worktree")
    assert waiting not in shown["output"]
    assert theirs.read_text() == "[user]\nname = me\n"


async def test_a_command_of_another_shape_shares_what_is_reserved_and_leaves_it_to_the_waiting_one(
    task: Boxed,
):
    before = repository(task)
    await task.run("true")
    waiting = await task.waiting()
    shown = await task.run("cat .git/commondir; rm .git/commondir", pty=True)
    assert "." in shown["output"].splitlines()
    assert repository(task) == before
    shown = await task.run("echo $HERMES_CALL; rm .git/commondir")
    assert waiting in shown["output"]
    assert shown["exit_code"]
    await task.waiting()
    assert repository(task) == before


async def test_a_mount_that_is_gone_is_noticed(task: Boxed):
    await task.run("true")
    waiting = await task.waiting()
    hidden = task.workspace / "secrets/key"
    kept = os.open(hidden, os.O_RDONLY)
    os.link(hidden, hidden.with_name("second"))
    hidden.unlink()
    hidden.with_name("second").replace(hidden)
    shown = await task.run("echo $HERMES_CALL; cat secrets/key; true")
    os.close(kept)
    assert waiting not in shown["output"]
    assert "PRIVATE" not in shown["output"]


async def test_the_end_of_a_session_leaves_nothing_behind(task: Boxed):
    await task.run("true")
    mark = await task.waiting()
    process = task.backend.ahead.process  # type: ignore[union-attr]
    await task.context.terminals.aclose()
    assert process.returncode is not None
    assert not processes_with(mark)
    left = {path.name for path in (task.workspace / ".git").iterdir()}
    assert not left & {"commondir", "config.worktree"}


async def test_one_that_was_killed_is_not_used(task: Boxed):
    await task.run("true")
    await task.waiting()
    os.killpg(task.backend.ahead.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    task.backend.ahead.process.wait()  # type: ignore[union-attr]
    assert await task.output("echo here") == "here\n"


HOST = """
import asyncio, sys
from pathlib import Path
from tests.tools.terminal.test_waiting import Boxed
from tools.terminal.terminals import Terminals

async def main():
    task = Boxed(Path(sys.argv[1]), Terminals(), sys.argv[2])
    await task.run("true")
    print(await task.waiting(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_when_hermes_is_killed_the_waiting_boundary_ends(tmp_path: Path, kind: str):
    root = Path(__file__).parents[3]
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path), kind], stdout=subprocess.PIPE, cwd=root
    )
    try:
        assert host.stdout is not None
        mark = host.stdout.readline().decode().strip()
        files = f"{mark.partition('.')[2]}.command"
        until_now(lambda: processes_with(files))
        assert list((tmp_path / "private").parent.glob(RESTING))
    finally:
        host.kill()
        host.communicate()
    until_now(lambda: not processes_with(files))
    workspace = tmp_path / "work space"
    assert not {path.name for path in (workspace / ".git").iterdir()} & {"commondir", "config.worktree"}
    folders = BoundaryFolders(workspace, tmp_path / "private", Home(tmp_path / "home"))
    SessionBoundary(KINDS[kind], folders).clear_up()
    assert not list(tmp_path.glob(RESTING))


async def test_an_unused_boundary_goes_after_a_while(task: Boxed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tools.terminal.local.IDLE", 0.5)
    await task.run("true")
    await until(lambda: task.backend.ahead is not None)
    process = task.backend.ahead.process  # type: ignore[union-attr]
    await until(lambda: task.backend.ahead is None)
    await until(lambda: process.returncode is not None)
    await asyncio.sleep(0)
    assert await task.output("echo on") == "on\n"
