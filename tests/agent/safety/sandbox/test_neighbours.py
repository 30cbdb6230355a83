"""Several sandboxes in one workspace, of several processes, and what the death of one of them leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent.workspace.placeholders import TIME, hold, is_placeholder
from tests.agent.safety.sandbox.cell import Cell
from tests.agent.safety.sandbox.kinds import WITH_NAMESPACES
from tools.services.sandbox import Need

ROOT = Path(__file__).parents[4]


@contextmanager
def neighbour(cell: Cell, kind: str, private: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process whose sandboxed shell is at work in the same workspace."""
    module = "tests.agent.safety.sandbox.neighbour"
    argv = [sys.executable, "-m", module, kind, str(cell.workspace), str(private)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process


@pytest.fixture
def furnished(cell: Cell) -> Cell:
    """A repository without hooks, so that each name that git runs something by is a gap but one."""
    store = cell.workspace / ".git"
    store.mkdir()
    (store / "HEAD").write_text("ref: refs/heads/main\n")
    (store / "config").write_text("as it was\n")
    (cell.workspace / ".envrc").write_text("as it was\n")
    return cell


def standing(cell: Cell) -> dict[str, str]:
    """Everything in the workspace, with what the files hold."""
    return {
        str(path.relative_to(cell.workspace)): path.read_text() if path.is_file() else ""
        for path in sorted(cell.workspace.rglob("*"))
        if not path.name.isdecimal()  # where the prisoner works
    }


ATTEMPT = """
cd {top}; mkdir -p .git/hooks
for to in .git/hooks/x .git/commondir .git/config.worktree; do echo evil > $to; done
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_a_sandbox_keeps_its_cover_when_one_of_another_process_ends(
    furnished: Cell, kind: str, tmp_path: Path
):
    before = standing(furnished)
    with neighbour(furnished, kind, tmp_path) as other, furnished.prisoner() as attempt:
        # The other one came first, and goes first.
        assert other.stdin is not None
        other.stdin.close()
        assert other.wait(20) == 0
        told = attempt("shell", ATTEMPT.format(top=furnished.workspace))
        assert told.output.lower().count("read-only") == 3, told.output
    assert standing(furnished) == before


@pytest.mark.thorough
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES)[:1])
def test_nothing_is_left_and_nothing_changed_when_a_process_is_killed_amid_a_call(
    furnished: Cell, kind: str, tmp_path: Path
):
    (furnished.workspace / ".git/hooks").mkdir(mode=0o700)
    before = standing(furnished)
    with neighbour(furnished, kind, tmp_path) as other:
        other.kill()
    left = standing(furnished)
    assert all(is_placeholder(furnished.workspace / name) for name in left.keys() - before.keys())
    with furnished.prisoner() as attempt:
        # What is left holds the place for the next one, which knows it for what it is.
        attempt("shell", ATTEMPT.format(top=furnished.workspace))
    assert standing(furnished) == before


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES)[:1])
def test_what_a_killed_process_left_goes_with_the_next_start_and_nothing_else(furnished: Cell, kind: str):
    (furnished.workspace / ".git/hooks").mkdir(mode=0o700)
    before = standing(furnished)
    for name in ("config.worktree", "commondir"):
        path = furnished.workspace / ".git" / name
        path.write_bytes(b"")
        os.utime(path, (TIME, TIME))
    furnished.boundary.clear_up()
    assert standing(furnished) == before


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_a_file_that_went_away_while_it_was_hidden_does_not_come_back(furnished: Cell, kind: str):
    secret = furnished.workspace / ".npmrc"
    secret.write_text("token")
    before = standing(furnished)
    wrapped = furnished.boundary.wrap(["/bin/true"], Need(hide=(secret,), dies_with_parent=True))
    secret.unlink()
    subprocess.run(wrapped.argv, pass_fds=wrapped.fds, start_new_session=True, check=False)
    wrapped.started()
    wrapped.ended()
    assert standing(furnished) == {name: text for name, text in before.items() if name != ".npmrc"}


def test_a_name_that_no_program_of_this_user_can_create_needs_no_placeholder(tmp_path: Path):
    foreign, closed = tmp_path / "foreign", tmp_path / "closed"
    foreign.mkdir()
    closed.mkdir(mode=0o555)
    is_root = os.geteuid() == 0
    if is_root:
        tmp_path.chmod(0o755)
        os.chown(closed, 65534, 65534)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.chdir(tmp_path)
            if is_root:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            Path("closed").chmod(0o755)
            foreign_names = [Path("/proc/name"), *([Path("foreign/name")] if is_root else [])]
            reserved = hold([*foreign_names, Path("closed/name")])
            stands = Path("closed/name").is_dir()
            reserved.release()
            os._exit(0 if stands else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
