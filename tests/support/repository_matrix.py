"""Repositories in every layout × what a step does to them × what somebody does in between, and back again."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.session.history.session_checkpoints import steps_of_all
from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import Restored, apply_restore
from agent.workspace.checkpoints.restore.plan import plan_back
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.isolated_copies.workspace_copy import make_copy
from tools.services.actions import RunCommand

LIMITS = CaptureLimits(file=1_000_000, beforehand=10_000_000)
SETTINGS = {
    "protocol.file.allow": "always",
    "advice.detachedHead": "false",
    "advice.sparseIndexExpanded": "false",
    "user.name": "a",
    "user.email": "a@b",
}
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": str(len(SETTINGS)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(SETTINGS.values())},
}

_FILL = (
    "echo a >a; echo b >b; git add .; git commit -qm one; git branch topic; "
    "echo c >c; git add c; git commit -qm two; "
    "git checkout -q topic; echo t >t; git add t; git commit -qm topic; git checkout -q main; "
    "echo s >>b; git stash -q; git tag v1; echo loose >loose"
)
_INIT = "git init -q -b main"
LAYOUTS = {
    "plain": f"{_INIT} repo; cd repo; {_FILL}",
    "packed": f"{_INIT} repo; cd repo; {_FILL}; git gc -q; git pack-refs --all",
    "sha256": f"{_INIT} --object-format=sha256 repo; cd repo; {_FILL}",
    "separate": f"git init -q -b main --separate-git-dir=store repo; cd repo; {_FILL}",
    "bare": f"{_INIT} src; cd src; {_FILL}; cd ..; git clone -q --bare src .bare; rm -rf src; "
    "echo 'gitdir: ./.bare' >.git; git worktree add -q repo main; cd repo; "
    "echo s >>b; git stash -q; echo loose >loose",
    "inside bare": f"{_INIT} src; cd src; {_FILL}; cd ..; git clone -q --bare src hub; rm -rf src; "
    "cd hub; git worktree add -q ../repo main; cd ../repo; echo s >>b; git stash -q; echo loose >loose",
    "work tree": f"{_INIT} top; cd top; {_FILL}; git checkout -q -b other; git worktree add -q ../repo main; "
    "cd ../repo; echo loose >loose",
    "submodule": f"{_INIT} lib; (cd lib; {_FILL}); {_INIT} top; cd top; git commit -q --allow-empty -m top; "
    "git submodule -q add ../lib repo; git commit -qm sub; cd repo; git branch topic origin/topic; "
    "echo s >>b; git stash -q; echo loose >loose; cd ../..; ln -s top/repo repo",
    "alternates": f"{_INIT} src; cd src; {_FILL}; cd ..; git clone -q --shared src repo; cd repo; "
    "git branch topic origin/topic; echo s >>b; git stash -q; echo loose >loose",
    "split index": f"{_INIT} repo; cd repo; {_FILL}; git config core.splitIndex true; "
    "git update-index --split-index",
    "index v4": f"{_INIT} repo; cd repo; git config index.version 4; {_FILL}",
    "sparse": f"{_INIT} repo; cd repo; mkdir d; echo d >d/d; {_FILL}; "
    "git sparse-checkout set --cone --sparse-index d",
}
_WORK = "echo x >x; git add x"
STEPS = {
    "commit": f"{_WORK}; git commit -qm x",
    "amend": f"{_WORK}; git commit -q --amend -m other",
    "checkout": "git checkout -q topic",
    "merge": "git merge -q --no-edit topic",
    "rebase": "git rebase -q topic",
    "stash": "echo more >>a; git stash -q",
    "drop": "git stash drop -q",
    "reset": "git reset -q --hard HEAD~1",
    "gc": f"{_WORK}; git commit -qm x; git reflog expire --expire=now --all; git gc -q --prune=now",
    "branches": "git branch -q new; git branch -q -D topic; git tag -d v1",
    "clone": "git clone -q . ../made",
}
BETWEEN = {
    "nothing": "true",
    "looks": "sleep 0.02; touch a b; umask 027; git status; git log -1; git diff",
    "fetches": "git fetch -q . main:refs/remotes/there/main; git update-ref refs/prefetch/x HEAD",
    "packs": "git pack-refs --all; git gc -q",
    "elsewhere": "cd -P .; git worktree add -q -b mine ../mine; cd ../mine; "
    "echo m >m; git add m; git commit -qm mine",
    "commits": "git commit -q --allow-empty -m mine",
    "edits": "echo mine >>loose; echo new >mine",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one combination came to."""

    problems: tuple[str, ...]
    left: bool
    """Whether the repository stayed as it was, with a reason."""


def shell(root: Path, text: str) -> str:
    """What a shell command says, errors included."""
    done = subprocess.run(
        ["sh", "-c", text], cwd=root, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def standing(root: Path) -> dict[str, str]:
    """How a repository stands, in git's own words."""
    inside = root / "repo"
    return {
        "fsck": shell(inside, "git fsck --no-dangling --no-reflogs"),
        "status": shell(inside, "git status --porcelain=v2 --branch --ignore-submodules"),
        "refs": shell(inside, "git for-each-ref"),
        "head": shell(inside, "git symbolic-ref -q HEAD; git rev-parse HEAD"),
        "stash": shell(inside, "git stash list --format=%H"),
        "files": shell(
            root,
            "find . -name .git -prune -o -path ./.bare -prune -o -path ./hub -prune -o "
            "-path ./store -prune -o -type f -print0 | sort -z | xargs -0 sha256sum",
        ),
    }


async def tried(folder: Path, layout: str, step: str, between: str) -> Outcome:
    """Make the repository in `folder`, do the step, let somebody work, go back and forth; what was wrong."""
    root = folder / "work"
    root.mkdir(parents=True)
    root = root.resolve()
    shell(root, LAYOUTS[layout])
    problems: list[str] = []
    before = standing(root)
    if before["fsck"] or "fatal" in before["refs"]:
        return Outcome((f"not made: {before}",), False)
    store = CheckpointStore(folder / "home" / "checkpoints")
    recorder = StepRecorder(store, "session", root, LIMITS, problems.append)
    recorder.start()
    await recorder.ready()
    await asyncio.sleep(0.06)
    text = f"cd repo; {STEPS[step]}"
    async with recorder.during("c", f"run {step}", "session") as recording:
        await recorder.acting("c", RunCommand(tool="terminal", command=text, cwd=root))
        await asyncio.to_thread(shell, root, text)
    await recorder.stop()
    after = standing(root)
    if recording.step is None:
        return Outcome(tuple(problems) if before == after else ("no step was kept",), False)
    await asyncio.sleep(0.06)
    shell(root, f"cd repo; {BETWEEN[between]}")
    middle = standing(root)
    done = await _gone_to(store, root, 0)
    undone = standing(root)
    left = any(each.reason for each in done.units)
    problems += _wrong(before, after, middle, undone, done, between, left)
    if done.step is not None and not left:
        again = await _gone_to(store, root, recording.step.number)
        redone = standing(root)
        if any(each.reason for each in again.units):
            problems.append(f"redo: {again.sentence()}")
        problems += [
            f"redo: {key}: {middle[key]!r} is {redone[key]!r}" for key in middle if middle[key] != redone[key]
        ]
        # Further back at once, over what went forth and back; a look in between was the one above.
        rewound = await _gone_to(store, root, 0)
        problems += [f"rewind: {rewound.sentence()}"] if any(each.reason for each in rewound.units) else []
        back = standing(root)
        problems += [
            f"rewind: {key}: {undone[key]!r} is {back[key]!r}" for key in undone if undone[key] != back[key]
        ]
    return Outcome(tuple(problems), left)


async def copied(folder: Path, layout: str, step: str) -> tuple[str, ...]:
    """Make the repository, copy the workspace as attempts do, and work in the copy; what was wrong."""
    root = folder / "work"
    root.mkdir(parents=True)
    root = root.resolve()
    shell(root, LAYOUTS[layout])
    root.chmod(0o750)
    problems: list[str] = []
    before = standing(root)
    store = CheckpointStore(folder / "home" / "checkpoints")
    recorder = StepRecorder(store, "session", root, LIMITS, problems.append)
    recorder.start()
    await recorder.ready()
    copy = await make_copy(recorder, folder / "home" / "copies")
    there = standing(copy.root)
    problems += [f"{key}: {before[key]!r} is {there[key]!r}" for key in before if before[key] != there[key]]
    known = shell(copy.root, "cd repo; git worktree list")
    if "prunable" in known or str(root) in known.replace(str(copy.root), ""):
        problems.append(f"work trees: {known}")
    if copy.root.stat().st_mode != root.stat().st_mode:
        problems.append(f"the mode of the folder: {copy.root.stat().st_mode:o}")
    shell(copy.root, f"cd repo; {STEPS[step]}")
    worked, now = standing(copy.root), standing(root)
    if worked["fsck"] or worked == there:
        problems.append(f"the step in the copy: {worked}")
    problems += [
        f"original: {key}: {before[key]!r} is {now[key]!r}" for key in before if before[key] != now[key]
    ]
    await copy.close()
    await recorder.stop()
    return tuple(problems)


def _wrong(
    before: dict[str, str],
    after: dict[str, str],
    middle: dict[str, str],
    undone: dict[str, str],
    done: Restored,
    between: str,
    left: bool,
) -> Iterator[str]:
    if undone["fsck"]:
        yield f"fsck: {undone['fsck']}"
    if left:
        yield from (f"left, but {key} is not as it was" for key in middle if undone[key] != middle[key])
        if between != "commits" and not (between == "elsewhere" and after["head"] != before["head"]):
            yield f"left: {done.sentence()}"
        return
    if between in ("nothing", "looks", "packs"):
        yield from (
            f"{key}: {before[key]!r} is {undone[key]!r}" for key in before if before[key] != undone[key]
        )
        if done.skipped:
            yield f"skipped: {done.sentence()}"
        return
    mine = set(middle["refs"].splitlines()) - set(after["refs"].splitlines())
    yield from (f"lost {each}" for each in mine - set(undone["refs"].splitlines()))
    moved = {line.split()[-1] for line in mine}
    gone = set(before["refs"].splitlines()) - set(undone["refs"].splitlines())
    yield from (f"not back {each}" for each in gone if each.split()[-1] not in moved)
    same = [key for key in ("head", "stash") if middle[key] == after[key]]
    yield from (f"{key}: {before[key]!r} is {undone[key]!r}" for key in same if before[key] != undone[key])


async def _gone_to(store: CheckpointStore, root: Path, position: int) -> Restored:
    others = await steps_of_all(store, "session", root, LIMITS)

    def went() -> Restored:
        plan = plan_back(
            store.line("session"), root, position, store.objects, limit=LIMITS.file, others=others
        )
        return apply_restore(plan, {}, store, "session", session="session", label="back")

    return await asyncio.to_thread(went)
