"""Repositories that the git of this machine may not read, and contents that its extensions keep."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from agent.workspace.checkpoints.git_refs import Refs
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.unit_marks import disk
from tests.agent.workspace.checkpoints.conftest import Open, command
from tests.agent.workspace.checkpoints.restore.trees import Tree, look, taken_back
from tools.services.actions import RunCommand

STORED = Path(__file__).parents[1] / "data" / "reftable.tar.xz"
"""Made by git 2.55: `base`; `agent` with a commit and a branch more; and that after a look, a fetch,
packing or a commit of somebody."""
GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    with tarfile.open(STORED) as archive:
        archive.extractall(tmp_path / "stored", filter="data")
    return tmp_path / "stored"


def become(folder: Path, model: Path) -> None:
    """Give a folder the contents of another one; what is alike is not touched."""
    wanted = {path.relative_to(model): path for path in model.rglob("*")}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.relative_to(folder) not in wanted:
            path.rmdir() if path.is_dir() else path.unlink()
    for rest, path in sorted(wanted.items()):
        target = folder / rest
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif not target.exists() or target.read_bytes() != path.read_bytes():
            target.unlink(missing_ok=True)
            shutil.copy2(path, target)


def without_objects(tree: Tree) -> Tree:
    return {path: each for path, each in tree.items() if not path.startswith("repo/.git/objects")}


def refs(root: Path) -> dict[str, str]:
    return dict(Refs(disk(root)).tables("repo/.git") or {})


@pytest.mark.sample(1)
@pytest.mark.parametrize("between", ["agent", "looked", "fetched", "packed", "commits"])
async def test_refs_in_tables_go_back_whatever_somebody_did_in_between(
    between: str, stored: Path, opened: Open, root: Path
) -> None:
    shutil.copytree(stored / "base", root / "repo", symlinks=True)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    before, first = without_objects(look(root)), refs(root)
    async with recorder.during("c", "terminal git commit", "session") as recording:
        await recorder.acting("c", RunCommand(tool="terminal", command="git commit", cwd=root))
        become(root / "repo", stored / "agent")
    assert recording.step is not None
    assert "main" in recording.step.git
    assert ".invalid" not in recording.step.git
    become(root / "repo", stored / between)
    theirs = {name: value for name, value in refs(root).items() if name.startswith("refs/remotes/")}
    if between in ("looked", "fetched", "packed"):
        steps = recorder.position
        assert await recorder.catch_up()
        assert recorder.position == steps, "no news"
    restored = taken_back(recorder, 0)
    if between == "commits":
        assert [item.path for item in restored.skipped] == ["repo/.git"]
        assert "refs/heads/main" in restored.skipped[0].reason
        assert (root / "repo" / "x").exists()
        return
    assert restored.skipped == ()
    assert refs(root) == {**first, **theirs}
    assert not (root / "repo" / "x").exists()
    if between == "agent":
        assert without_objects(look(root)) == before
    taken_back(recorder, 1)
    assert refs(root) == {**refs(root), "refs/heads/new": refs(root)["refs/heads/main"], **theirs}
    assert (root / "repo" / "x").exists()


def shell(root: Path, text: str) -> tuple[int, str]:
    environ = {**os.environ, **GIT, "HOME": str(root.parent)}
    done = subprocess.run(
        ["sh", "-c", text], cwd=root, env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


async def test_a_submodule_that_stays_keeps_its_settings(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**GIT, "HOME": str(root.parent)}.items():
        monkeypatch.setenv(name, value)
    made = (
        "git init -q src; cd src; git commit -q --allow-empty -m a; cd ..; git init -q; git submodule -q add"
    )
    made += " ./src sub; git commit -qm sub; git submodule -q deinit -f sub; rm -rf .git/modules/sub"
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    assert shell(root, made)[0] == 0
    recorder: StepRecorder = opened()
    recorder.start()
    await recorder.ready()
    assert await command(recorder, "git submodule -q update --init") is not None
    assert shell(root / "sub", "echo mine >mine; git add mine; git commit -qm mine")[0] == 0
    restored = taken_back(recorder, 0)
    assert ".git/config" in restored.skipped[0].reason
    assert shell(root, "git config submodule.sub.url")[0] == 0
    assert shell(root / "sub", "git log --format=%s")[1].split() == ["mine", "a"]


EXTENDED = {
    "lfs": {
        "program": "git-lfs",
        "make": "git init -q; git lfs install --local; git lfs track '*.bin'; for n in 1 2 3; do "
        "head -c 3000 /dev/urandom >a.bin; git add -A; git commit -qm c; done",
        "forget": "rm -rf .git/lfs/objects/*",
        "check": "git lfs fsck && git checkout -q HEAD~1 && git lfs fsck && git checkout -q -",
    },
    "annex": {
        "program": "git-annex",
        "make": "git init -q; git annex init -q here; for n in 1 2 3; do head -c 3000 /dev/urandom >a$n; "
        "git annex add -q a$n; git commit -qm c; done; git annex unlock -q a3; git commit -qam unlocked",
        "forget": "git annex drop -q --force a1 a2",
        "check": "git annex fsck -q && cat a1 a2 a3 | wc -c | grep -q 9000",
    },
}
STEPS = {
    "removes it": "chmod -R u+w lib; rm -rf lib",
    "forgets contents": "cd lib; {forget}",
    "adds and commits": "cd lib; head -c 500 /dev/urandom >b.bin; git add b.bin; git commit -qm more",
}


async def test_keeping_such_contents_before_the_first_command_is_no_change_by_others(
    opened: Open, root: Path
) -> None:
    assert shell(root, "git init -q")[0] == 0
    data = b"a large file"
    digest = sha256(data).hexdigest()
    stored = root / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    stored.parent.mkdir(parents=True)
    stored.write_bytes(data)
    recorder: StepRecorder = opened()
    recorder.start()
    await recorder.ready()
    assert stored.stat().st_nlink == 2
    assert await recorder.catch_up()
    assert recorder.position == 0
    recorded = await command(recorder, "rm -rf .git/lfs")
    assert recorded is not None
    assert recorded.number == 1
    assert recorded.coverage.complete, recorded.coverage.sentence()


@pytest.mark.thorough
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", EXTENDED)
async def test_contents_that_extensions_of_git_keep_come_back(
    kind: str, step: str, opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = EXTENDED[kind]
    if not shutil.which(tool["program"]):
        pytest.skip(f"{tool['program']} is not installed")
    for name, value in {**GIT, "HOME": str(root.parent)}.items():
        monkeypatch.setenv(name, value)
    (root / "lib").mkdir()
    assert shell(root / "lib", tool["make"])[0] == 0
    assert shell(root / "lib", tool["check"])[0] == 0, shell(root / "lib", tool["check"])
    recorder: StepRecorder = opened()
    recorder.start()
    await recorder.ready()
    before, head = contents(root), shell(root / "lib", "git rev-parse HEAD; git status --porcelain")
    recorded = await command(recorder, STEPS[step].format(**tool))
    assert recorded is not None
    assert recorded.coverage.complete, recorded.coverage.sentence()
    changed = contents(root)
    assert await asyncio.to_thread(shell, root, "cd lib && git status") is not None
    restored = taken_back(recorder, 0)
    assert restored.skipped == ()
    after = contents(root)
    assert {path for path, each in before.items() if after.get(path) != each} == set()
    assert step == "adds and commits" or contents(root) == before
    assert shell(root / "lib", "git rev-parse HEAD; git status --porcelain") == head
    assert shell(root / "lib", tool["check"])[0] == 0, shell(root / "lib", tool["check"])
    taken_back(recorder, restored.step.number - 1 if restored.step else 0)
    assert {path for path in contents(root) if "/objects/" not in path} >= {
        path for path in changed if "/objects/" not in path
    }


def contents(root: Path) -> Tree:
    """All that stands below, but for objects, of which git itself is asked, and for what looks write."""
    passing = ("/index", "ORIG_HEAD", "/logs/HEAD", "/annex/last-index")
    return {
        path: each
        for path, each in look(root).items()
        if not path.endswith(passing)
        and "/.git/objects/" not in path
        and ("/.git/annex/" not in path or "/annex/objects/" in path)
    }
