"""Stores of version control other than git go back as a whole, or stay as a whole."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agent.workspace.checkpoints.recorder import StepRecorder
from tests.agent.workspace.checkpoints.conftest import Open, command
from tests.agent.workspace.checkpoints.restore.trees import look, taken_back
from tests.support.thorough import thoroughly

SET_UP = "echo a >a.txt; {add} a.txt; {commit} base; echo b >b.txt; {add} b.txt; {commit} second"
TOOLS: dict[str, dict[str, str]] = {
    "hg": {
        "program": "hg",
        "init": "hg init",
        "add": "hg add -q",
        "commit": "hg commit -u u -m",
        "look": "hg status; hg log -q; hg diff",
        "check": "hg verify -q",
        "state": "hg parents --template '{node}'; hg log --template '{node} {desc}\\n'; hg status",
        "drop": "hg --config extensions.strip= strip -q --no-backup tip",
    },
    "svn": {
        "program": "svnadmin",
        "init": "svnadmin create .store; svn -q checkout file://$PWD/.store .",
        "add": "svn -q add",
        "commit": "svn -q commit -m",
        "look": "svn status; svn diff; svn info",
        "check": "svnadmin verify -q .store; svn status -q",
        "state": "svn info --show-item revision; svnversion; svn status -q; "
        "svn log -q file://$PWD/.store | cut -c1-3",
        "drop": "svn -q revert -R .",
    },
    "darcs": {
        "program": "darcs",
        "init": "darcs init -q",
        "add": "darcs add -q",
        "commit": "darcs record -q -a -A u --skip-long-comment -m",
        "look": "darcs whatsnew; darcs log",
        "check": "darcs check -q",
        "state": "darcs log; darcs whatsnew -s",
        "drop": "darcs obliterate -q -a --last 1",
    },
    "bzr": {
        "program": "brz",
        "init": "brz init -q",
        "add": "brz add -q",
        "commit": "brz commit -q -m",
        "look": "brz status; brz log; brz diff",
        "check": "brz check -q",
        "state": "brz log; brz status",
        "drop": "brz uncommit -q --force",
    },
    "fossil": {
        "program": "fossil",
        "init": "fossil init -A u .store.fossil >/dev/null; fossil open -f .store.fossil >/dev/null",
        "add": "fossil add",
        "commit": "fossil commit --no-warnings --user-override u -m",
        "look": "fossil status; fossil timeline; fossil diff; fossil changes",
        "check": "fossil test-integrity -R .store.fossil",
        "state": "fossil timeline -n 9 | sed '$d'; fossil changes; fossil info | grep checkout",
        "drop": "fossil revert",
    },
}
TOOLS["hg2"] = {
    **TOOLS["hg"],
    "init": "hg --config format.use-dirstate-v2=yes --config storage.dirstate-v2.slow-path=allow init; "
    "printf '[storage]\ndirstate-v2.slow-path=allow\n' >.hg/hgrc",
}
STEPS = {
    "commits": "echo agent >agent.txt; echo more >>a.txt; {add} agent.txt; {commit} agent",
    "edits": "echo more >>a.txt; echo new >new.txt; {add} new.txt",
    "drops": "echo more >>b.txt; {drop}",
    "removes it": "find . -mindepth 1 -delete",
    "makes one": "mkdir inner; cd inner; {init}; echo i >i.txt; {add} i.txt; {commit} inner",
}
BETWEEN = {
    "nothing": "true",
    "looks": "{look}",
    "commits": "echo user >user.txt; {add} user.txt; {commit} user",
    "edits": "echo mine >>b.txt",
}


def environment(root: Path) -> dict[str, str]:
    home = root.parent / "person"
    home.mkdir(exist_ok=True)
    names = {"HGRCPATH": "", "DARCS_EMAIL": "u@example.org", "BRZ_EMAIL": "u <u@example.org>", "USER": "u"}
    return {**os.environ, "HOME": str(home), **names}


def run(tool: dict[str, str], root: Path, text: str) -> str:
    """What a person sees of a command, without what tells times."""
    for name, words in tool.items():
        text = text.replace(f"{{{name}}}", words)
    done = subprocess.run(
        ["sh", "-c", text],
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return f"{done.stdout}\n{done.returncode}"


def checked(tool: dict[str, str], root: Path) -> None:
    assert run(tool, root, "set -e; {check}").endswith("\n0"), run(tool, root, "{check}")


async def stepped(recorder: StepRecorder, tool: dict[str, str], text: str) -> None:
    for name, words in tool.items():
        text = text.replace(f"{{{name}}}", words)
    assert await command(recorder, text) is not None


MATRIX = [
    ("hg", "commits", "looks"),
    ("hg", "commits", "commits"),
    ("hg2", "commits", "looks"),
    ("svn", "commits", "looks"),
    ("bzr", "commits", "looks"),
    ("fossil", "commits", "looks"),
    ("darcs", "commits", "commits"),
]
ALL = [(tool, step, between) for tool in TOOLS for step in STEPS for between in BETWEEN]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "case", [*MATRIX, *thoroughly(*(each for each in ALL if each not in MATRIX))], ids="-".join
)
async def test_a_store_goes_back_or_stays_as_a_whole(
    case: tuple[str, str, str], opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, step, between = case
    tool = TOOLS[kind]
    if not shutil.which(tool["program"]):
        pytest.skip(f"{tool['program']} is not installed")
    for name, value in environment(root).items():
        monkeypatch.setenv(name, value)
    run(tool, root, "{init};" + SET_UP)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    first, files = run(tool, root, "{state}"), contents(root)
    recorder_saw = await recorder.catch_up()
    assert recorder_saw
    position = recorder.position
    await stepped(recorder, tool, STEPS[step])
    if between == "looks":
        # A second later files count as settled, and a look writes their times down.
        await asyncio.sleep(max(0.0, 1.1 - time.time() % 1) if step == "commits" else 0)
    run(tool, root, BETWEEN[between])
    late, theirs = run(tool, root, "{state}"), contents(root)
    if between in ("nothing", "looks"):
        steps = recorder.position
        assert await recorder.catch_up()
        assert recorder.position == steps, "a look is not a step"
    restored = taken_back(recorder, position)
    if between in ("nothing", "looks"):
        assert [(item.path, item.reason) for item in restored.skipped] == []
        assert (run(tool, root, "{state}"), contents(root)) == (first, files)
    elif step in ("commits", "edits", "drops"):
        assert {"user.txt"} & set(theirs) <= set(contents(root))
        assert len([item for item in restored.skipped if item.path.startswith((".", "_"))]) <= 2
    if step != "removes it" or between in ("nothing", "looks"):
        checked(tool, root)
    assert all(data == contents(root).get(name) for name, data in theirs.items() if name == "user.txt")
    if restored.step is not None:
        again = taken_back(recorder, restored.step.number - 1)
        if between in ("nothing", "looks"):
            assert again.skipped == ()
        assert (run(tool, root, "{state}"), contents(root)) == (late, theirs)


def contents(root: Path) -> dict[str, bytes]:
    """The files of the work tree."""
    own = (".hg/", ".svn/", "_darcs/", ".bzr/", ".fslckout", ".store")
    return {
        path: data
        for path, (kind, _, data) in look(root).items()
        if kind == "file" and not path.startswith(own)
    }
