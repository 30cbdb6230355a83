"""Guarded files that git brings: those of known commits stay, others go back with the command."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import Noticed
from tests.agent.session.turns.everyday import room
from tests.agent.session.turns.test_guarded_changes import attended, result
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

PROJECT = """
git init -q -b main; git config user.name A; git config user.email a@example.org
mkdir .vscode; echo '[submodule]' > .gitmodules; echo x > .envrc; echo '{}' > .vscode/tasks.json; echo a > a
printf 'a\\nb\\nc\\nd\\ne\\n' > .npmrc
git add -A; git commit -qm base
git checkout -q -b other; git rm -q .gitmodules .envrc; mkdir -p .github/workflows
echo ci > .github/workflows/ci.yml; echo p > .pre-commit-config.yaml; echo '{"x": 1}' > .vscode/tasks.json
printf 'A\\nb\\nc\\nd\\ne\\n' > .npmrc; ln -s ci.yml .github/workflows/link.yml
git add -A; git commit -qm other
git checkout -q main; echo b > b; printf 'a\\nb\\nc\\nd\\nE\\n' > .npmrc; git add -A; git commit -qm b
echo local > .vscode/settings.json
"""
EVIL = (
    "B=$(echo evil | git hash-object -w --stdin); "
    'T=$( (git ls-tree HEAD; printf "100644 blob $B\\t.bashrc\\n") | git mktree --missing); '
    "git branch evil $(git commit-tree -m x -p HEAD $T)"
)


def shell(folder: Path, text: str) -> str:
    done = subprocess.run(["bash", "-ec", text], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def state(folder: Path) -> str:
    """What git says of a repository, and all files in its work tree."""
    files = (
        "git symbolic-ref -q HEAD; git rev-parse HEAD; git status -s; find . -path ./.git -prune -o -print"
    )
    return shell(folder, f"{files}; git diff HEAD")


async def run(b: Bench, *commands: str) -> None:
    b.server.script = by_step([*(call("terminal", command=each) for each in commands), say("done")])
    await b.turn("go", attended=False, approve="normal")


KNOWN = (
    "git checkout -q other",
    "git switch -q main",
    "git stash -u -q",
    "git stash pop -q",
    "git merge -q --no-edit other",
    "git reset -q --hard HEAD~1",
    "git checkout -q other -- .pre-commit-config.yaml && git reset -q --hard",
    "git rebase -q main~1 other",
    "git checkout -q -b own main && echo 1 > o && git add o && git commit -qm o && git checkout -q other",
    "git checkout -q own",
    "git merge -q --no-edit other",
)


@pytest.mark.thorough
async def test_what_git_brings_from_known_commits_is_what_a_person_gets(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        other = tmp_path / "other"
        shell(tmp_path, f"cp -a {b.workspace} {other}")
        b.server.script = by_step([*(call("terminal", command=each) for each in KNOWN), say("done")])
        async with b.engine(attended=False, approve="normal") as engine:
            await engine.run("go")
        for number, each in enumerate(KNOWN, 1):
            shell(other, f"export GIT_EDITOR=true; {each}")
            assert result(b, number)["exit_code"] == 0 and "note" not in result(b, number), each
        files = "git status -sb; git diff HEAD; find . -path ./.git -prune -o -print | sort; cat .npmrc"
        assert shell(b.workspace, files) == shell(other, files)
        assert not b.seen(Noticed)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "way",
    [
        "git merge -q evil",
        "git reset -q --hard evil",
        "git checkout -q evil",
        "git checkout -q evil -- .bashrc",
        "git bundle create -q b evil; git branch -D evil -q; git fetch -q b evil:w; rm b; git merge -q w",
        "git init -q --bare r.git; git push -q r.git evil; git -C . pull -q r.git evil",
        "git format-patch -q -1 evil --stdout | git am -q",
        "git stash store $(git rev-parse evil) -m x; git checkout -q stash@{0} -- .",
    ],
)
async def test_where_the_agents_own_commit_brings_one_the_whole_command_goes_back(
    tmp_path: Path, way: str
) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        before = state(b.workspace)
        await run(b, EVIL, way)
        if result(b, 2).get("status") == "blocked":
            pytest.skip("it is asked about before it runs")
        assert state(b.workspace) == before
        assert "the whole command was taken back" in result(b, 2)["note"], result(b, 2)
        assert ".bashrc" in result(b, 2)["note"]


FORGED = """
import os, subprocess, zlib
name = subprocess.check_output(["git", "rev-parse", "other:.github/workflows/ci.yml"], text=True).strip()
path = f".git/objects/{name[:2]}/{name[2:]}"
os.chmod(path, 0o644)
open(path, "wb").write(zlib.compress(b"blob 5\\0evil\\n"))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["object", "graft", "replacement"])
async def test_what_takes_the_place_of_a_known_commit_is_not_taken_for_it(tmp_path: Path, way: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        if way == "object":
            (b.workspace / "forge.py").write_text(FORGED)
            forge, bring = "python3 forge.py", "git checkout -q other"
        elif way == "graft":
            text = "os.popen('git rev-parse main evil').read().replace(chr(10), ' ')"
            forge = f"python3 -c \"import os; open('.git/info/grafts', 'w').write({text})\""
            bring = "git checkout -q evil"
        else:
            forge, bring = "git replace other evil", "git checkout -q other"
        await run(b, f"{EVIL}; {forge}", bring)
        assert "the whole command was taken back" in result(b, 2)["note"], result(b, 2)
        assert shell(b.workspace, "git branch --show-current") == "main\n"
        assert not (b.workspace / ".bashrc").exists() and not (b.workspace / ".github").exists()


@pytest.mark.thorough
async def test_a_person_may_keep_what_the_agents_own_commit_brings(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, PROJECT)
        b.server.script = by_step(
            [call("terminal", command=EVIL), call("terminal", command="git merge -q evil"), say("done")]
        )
        async with attended(b, "once") as (engine, asked):
            await engine.run("go")
        [question] = asked
        assert ".bashrc" in question.headline and "HEAD" not in question.headline
        assert shell(b.workspace, "git rev-parse HEAD") == shell(b.workspace, "git rev-parse evil")
        assert shell(b.workspace, "git status -s") == "?? .vscode/settings.json\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A repository that git serves over the network, and the port."""
    far = tmp_path / "far"
    far.mkdir()
    shell(
        far, "git init -q -b main; git config user.name A; git config user.email a@b; echo a > a; git add a"
    )
    shell(far, "git commit -qm base")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [
        "git",
        "daemon",
        f"--port={port}",
        "--listen=127.0.0.1",
        "--export-all",
        f"--base-path={tmp_path}",
    ]
    with subprocess.Popen([*argv, str(tmp_path)]) as daemon:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield far, port
        daemon.terminate()


@pytest.mark.thorough
@pytest.mark.parametrize("whose", ["person", "agent"])
async def test_what_comes_from_a_remote_of_the_persons_stays(
    tmp_path: Path, served: tuple[Path, int], whose: str
) -> None:
    far, port = served
    async with bench(tmp_path, lambda *_: None) as b:
        b.config(f"sandbox:\n  hosts: ['localhost:{port}', '127.0.0.1:{port}']\n")
        shell(b.workspace, f"git clone -q git://127.0.0.1:{port}/far/.git .")
        shell(b.workspace, "git config user.name A; git config user.email a@example.org")
        shell(far, "mkdir -p .github/workflows; echo ci > .github/workflows/ci.yml; git add -A")
        shell(far, "git commit -qm ci")
        if whose == "person":
            await run(b, "git pull -q; git status -sb")
            assert result(b, 1) == {"output": "## main...origin/main\n", "exit_code": 0}
        else:
            made = "git update-ref refs/remotes/origin/main evil; git reset -q --hard origin/main"
            await run(b, "git config -l > /dev/null; " + EVIL, made)
            assert not (b.workspace / ".bashrc").exists() and "taken back" in result(b, 2)["note"]


async def test_what_a_submodule_brings_into_its_empty_folder_is_only_told() -> None:
    with room() as top:
        async with bench(top, lambda *_: None) as b:
            lib, seed = top / "lib", top / "seed"
            shell(top, "mkdir lib seed")
            shell(lib, f"{PROJECT}\ngit checkout -q other")
            shell(seed, "git init -q -b main; git config user.name A; git config user.email a@b")
            allowed = "git -c protocol.file.allow=always submodule"
            shell(seed, f"{allowed} add -q {lib} libs/x; git commit -qm lib")
            shell(b.workspace, f"git clone -q {seed} .; git submodule init")
            await run(b, f"{allowed} update --init --recursive")
            assert result(b, 1)["exit_code"] == 0 and "taken back" not in str(result(b, 1)), result(b, 1)
            assert (b.workspace / "libs/x/.github/workflows/ci.yml").exists()
            assert [each.text for each in b.seen(Noticed) if "fetched" in each.text]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "way",
    [
        "mkdir -p data; echo x > data/config.toml; ln -s data .cargo",
        "mkdir -p data/workflows; echo x > data/workflows/ci.yml; rm -rf .github; ln -s data .github",
        "mkdir -p src/.hg; printf '[hooks]\\nupdate = x\\n' > src/.hg/hgrc",
        "cd src && git init -q . && echo x > .envrc",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::x\\n' > .gitmodules",
    ],
)
async def test_what_leads_to_guarded_places_by_another_way_goes_back(tmp_path: Path, way: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        shell(b.workspace, "git init -q -b main; mkdir src; echo a > src/a")
        (b.workspace / "act.sh").write_text(way)
        await run(b, "bash act.sh")
        assert "taken back" in result(b, 1).get("note", ""), result(b, 1)
        for place in (".cargo", ".github", "src/.hg/hgrc", "src/.envrc", ".gitmodules"):
            assert not (b.workspace / place).exists(), place
