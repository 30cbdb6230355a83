"""What developers do all day passes inside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.agent.safety.sandbox.cell import Cell
from tests.agent.safety.sandbox.kinds import WITH_NAMESPACES


@pytest.fixture
def repository(cell: Cell) -> Cell:
    subprocess.run(["git", "init", "-q", "-b", "main", str(cell.workspace)], check=True)
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "-C", str(cell.workspace), "config", name, "somebody@example.org"], check=True)
    return cell


@pytest.mark.sample(2)
def test_a_c_program_is_built_with_make_and_runs(cell: Cell):
    (cell.workspace / "main.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n'
    )
    (cell.workspace / "Makefile").write_text("all: main\n\t./main\nmain: main.c\n\tcc -o main main.c\n")
    ended = cell.shell("make -s")
    assert (ended.code, ended.output) == (0, "built\n")


@pytest.mark.sample(1)
def test_a_python_project_is_tested(cell: Cell):
    (cell.workspace / "code.py").write_text("def double(x):\n    return 2 * x\n")
    (cell.workspace / "test_code.py").write_text(
        "import unittest, tempfile, subprocess\nimport code as c\n"
        "import importlib.util as u\ns = u.spec_from_file_location('mine', 'code.py')\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m)\n"
        "class T(unittest.TestCase):\n"
        "  def test_double(self):\n"
        "    with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n"
        "    subprocess.run(['true'], check=True)\n    self.assertEqual(m.double(2), 4)\n"
    )
    ended = cell.shell("python3 -m unittest -q test_code")
    assert ended.code == 0, ended.output


@pytest.mark.sample(2)
def test_git_works_and_its_programs_cannot_be_changed(repository: Cell):
    ended = repository.shell(
        "echo a > a; git status -s; git add a && git commit -qm first && git log --oneline | wc -l"
    )
    assert ended.code == 0 and ended.output.split()[-1] == "1", ended.output


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_what_git_would_run_cannot_be_made_where_it_is_missing(repository: Cell):
    store = repository.workspace / ".git"
    shutil.rmtree(store / "hooks")
    before = sorted(os.listdir(store))
    ended = repository.shell(
        "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo /evil > .git/commondir; "
        "rm .git/commondir; echo evil > .git/config.worktree; echo a > a "
        "&& git add a && git commit -qm first && git status -s"
    )
    assert ended.code == 0, ended.output
    made = {"COMMIT_EDITMSG", "index", "logs"}
    assert sorted(set(os.listdir(store)) - made) == sorted(set(before) - made)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
@pytest.mark.parametrize(
    "attempt",
    [
        "echo evil > .git/hooks/pre-commit",
        "git config core.fsmonitor ./evil",
        "mv .git .other; mkdir .git; echo evil > .git/config",
        "rm -rf .git",
        "mv .git/hooks .git/old; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "printf '[core]\\nfsmonitor=evil\\n' >> .git/config",
    ],
)
def test_what_git_would_run_stays_as_it_was(repository: Cell, attempt: str):
    store = repository.workspace / ".git"
    before = (store / "config").read_text(), sorted(os.listdir(store / "hooks"))
    repository.shell(attempt)
    assert ((store / "config").read_text(), sorted(os.listdir(store / "hooks"))) == before


@pytest.mark.sample(1)
def test_a_linked_work_tree_commits_into_its_repository(repository: Cell):
    top = repository.workspace
    subprocess.run(["git", "-C", str(top), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run(["git", "-C", str(top), "worktree", "add", "-q", str(top / "tree")], check=True)
    ended = repository.shell(
        "cd tree && echo b > b && git add b && git commit -qm second && git log --oneline | wc -l"
    )
    assert ended.code == 0 and ended.output.split()[-1] == "2", ended.output


LIBRARY = (
    "git init -q {out}/lib; echo a > {out}/lib/a; git -C {out}/lib add a; git -C {out}/lib commit -qm x;"
)
SEPARATE = "git init -q --separate-git-dir={out}/store ."
BESIDE = {
    "a separate folder": SEPARATE,
    "one with files": f"{SEPARATE}; echo a > a; git add a; git commit -qm x",
    "one that names it": f"{SEPARATE}; git config core.worktree {{ws}}",
    "a bare one inside": "git init -q --bare .bare; echo 'gitdir: ./.bare' > .git; "
    "git config core.bare false",
    "a linked work tree": f"{LIBRARY} git -C {{out}}/lib worktree add -q -f {{ws}}",
    "a submodule": f"{LIBRARY} cd ..; rmdir project; git init -q; "
    "git -c protocol.file.allow=always submodule -q add -f {out}/lib project",
    "one that borrows objects": f"{LIBRARY} "
    "git clone -q --shared --separate-git-dir={out}/store {out}/lib {ws}",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", list(BESIDE))
def test_git_works_wherever_the_repository_of_the_workspace_lies(cell: Cell, layout: str):
    script = BESIDE[layout].format(out=cell.outside, ws=cell.workspace)
    names = [f"GIT_{each}_{kind}" for each in ("AUTHOR", "COMMITTER") for kind in ("NAME", "EMAIL")]
    who = dict.fromkeys(names, "a@example.org")
    subprocess.run(["bash", "-ec", script], cwd=cell.workspace, check=True, env={**os.environ, **who})
    text = " ".join(f"{name}={value}" for name, value in who.items())
    ended = cell.shell(
        f"export {text}; echo b > b && git add b && git commit -qm more && git log --oneline | head -1; "
        "echo evil > $(git rev-parse --git-path hooks)/pre-commit; git config alias.x '!evil'"
    )
    assert "more" in ended.output, ended.output
    said = subprocess.run(["git", "log", "--format=%s"], cwd=cell.workspace, check=True, capture_output=True)
    assert said.stdout.startswith(b"more")
    if cell.sandbox.can_protect_parts:
        ask = ["git", "rev-parse", "--git-path", "hooks"]
        hooks = subprocess.run(ask, cwd=cell.workspace, check=True, capture_output=True, text=True).stdout
        assert not (cell.workspace / hooks.strip() / "pre-commit").exists()
        assert subprocess.run(["git", "config", "alias.x"], cwd=cell.workspace, check=False).returncode == 1


@pytest.mark.sample(2)
def test_a_marker_opens_no_repository_of_another_work_tree(cell: Cell):
    victim = cell.outside / "store"
    subprocess.run(
        ["bash", "-ec", f"git init -q --separate-git-dir={victim} victim; cd victim; echo a > a; git add a"],
        cwd=cell.outside, check=True,
    )  # fmt: skip
    (cell.workspace / ".git").write_text(f"gitdir: {victim}\n")
    (cell.workspace / "a").write_text("a\n")
    ended = cell.shell(f"git status; echo evil > {victim}/description; git add -f a; git hash-object -w a")
    assert ended.code != 0
    assert "evil" not in (victim / "description").read_text()


def test_devices_pipes_and_temporary_files_work(cell: Cell):
    ended = cell.shell(
        "echo x > /dev/null; head -c 4 /dev/urandom | wc -c; cat <(echo sub); "
        't=$(mktemp); echo y > "$t"; cat "$t"'
    )
    assert ended.output.split() == ["4", "sub", "y"]


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_programs_inside_talk_to_each_other_over_loopback(cell: Cell):
    ended = cell.python(
        "import socket, multiprocessing as m\ns = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(s.getsockname()).close(); m.Lock(); print('talked')"
    )
    assert ended.output == "talked\n"


@pytest.mark.sample(2)
def test_the_network_reaches_the_host_where_it_is_on(make_cell: Callable[..., Cell]):
    import socket

    cell = make_cell(network="on")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = cell.python(
            f"import socket; socket.create_connection(('127.0.0.1', {port})); print('reached')"
        )
    assert ended.output == "reached\n"


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_a_home_as_workspace_keeps_its_secrets_and_gets_no_litter(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cell.boundary, "_workspace", cell.user)
    before = sorted(path.name for path in cell.user.iterdir())
    ended = cell.shell(
        "cat ../.ssh/id_ed25519; mkdir -p ../.aws && echo x > ../.aws/credentials; echo > ../made"
    )
    assert "PRIVATE" not in ended.output
    assert sorted(path.name for path in cell.user.iterdir()) == sorted([*before, "made"])
