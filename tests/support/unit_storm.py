"""Steps over repositories and a database that are killed while they are recorded, undone, redone or rewound.

`python -m tests.support.unit_storm COUNT SEED FOLDER [KIND…]` forks a process for each kill, and one that
starts afterwards, as the next session does. Each step writes its number into every unit, so that one look
tells whether all of them are wholly before or wholly after. Prints as JSON what was not so.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.garbage_collection import verify
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import finish_abandoned
from agent.workspace.checkpoints.restore.plan import plan_back
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.repository_matrix import ENVIRONMENT
from tools.services.actions import RunCommand

LIMITS = CaptureLimits(10_000_000, 100_000_000)
MOMENTS = ("command", "capture", "restore")
"""What a kill is aimed at; it comes up to `LATEST` seconds later."""
LATEST = {"command": 0.2, "capture": 0.06, "restore": 0.12}


_LONGER = "printf '%-{n}0s\\n' {n} >n"
"""For programs that take two files of the same size and second for the same."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of unit: shell commands in its folder; `{n}` is the number of a step."""

    program: str
    make: str
    steps: tuple[str, ...]
    check: str
    """Says nothing where all is well."""
    number: str
    """Prints the number of the step it shows."""


UNITS = {
    "git": Unit(
        "git",
        "git init -q -b main; echo 0 >n; git add n; git commit -qm 0",
        (
            "echo {n} >n; echo {n} >f{n}; git add .; git commit -qm {n}",
            "echo {n} >n; git commit -qam {n} --amend",
            "git checkout -q -B b{n}; echo {n} >n; git commit -qam {n}; git branch -q -D gone; git tag t{n}",
            "echo {n} >n; git commit -qam {n}; git pack-refs --all; git gc -q --prune=now",
            "echo x >>n; git stash -q; echo {n} >n; git commit -qam {n}; "
            "git worktree add -q ../tree-{n} -b w{n}",
        ),
        "git fsck --no-dangling; git status --porcelain",
        "git log -1 --format=%s; cat n",
    ),
    "lfs": Unit(
        "git-lfs",
        "git init -q -b main; git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; "
        "echo 0 >n; echo 0 >n.bin; git add .; git commit -qm 0",
        ("echo {n} >n; echo {n} | tee n.bin >n{n}.bin; git add .; git commit -qm {n}",),
        "git fsck --no-dangling; git lfs fsck | grep -v 'fsck OK'; git status --porcelain",
        "git log -1 --format=%s; cat n n.bin",
    ),
    "hg": Unit(
        "hg",
        "hg init; echo 0 >n; hg add -q n; hg commit -u u -m 0",
        (
            "echo {n} >n; echo {n} >f{n}; hg add -q f{n}; hg commit -u u -m {n}",
            "echo {n} >n; hg commit -u u -m {n} --amend",
        ),
        "hg verify -q; hg status",
        "hg log -r . --template '{{desc}}\\n'; cat n",
    ),
    "svn": Unit(
        "svnadmin",
        "svnadmin create {store}; svn -q checkout file://{store} .; echo 0 >n; svn -q add n; "
        "svn -q commit -m 0; svn -q update",
        ("echo {n} >n; echo {n} >f{n}; svn -q add f{n}; svn -q commit -m {n}; svn -q update",),
        "svnadmin verify -q {store}; svn status -q",
        "svn log -l 1 | sed -n 4p; cat n",
    ),
    "fossil": Unit(
        "fossil",
        "fossil init -A u {store} >/dev/null; fossil open -f {store} >/dev/null; echo 0 >n; "
        "fossil add n >/dev/null; "
        "fossil commit --no-warnings --allow-older --user-override u -m at:0 >/dev/null",
        (
            f"{_LONGER}; echo {{n}} >f{{n}}; fossil add f{{n}} >/dev/null; "
            "fossil commit --no-warnings --allow-older --user-override u -m at:{n} >/dev/null",
        ),
        "fossil changes; fossil test-integrity -R {store} | "
        "tr '\\r' '\\n' | grep -vE '[0-9]/[0-9]| 0 errors|: ok'",
        "fossil info | sed -n 's/^comment:.*at:\\([0-9]*\\).*/\\1/p'; cat n",
    ),
    "darcs": Unit(
        "darcs",
        "darcs init -q; echo 0 >n; darcs add -q n; darcs record -q -a -A u --skip-long-comment -m at:0",
        (
            f"{_LONGER}; echo {{n}} >f{{n}}; darcs add -q f{{n}}; "
            "darcs record -q -a -A u --skip-long-comment -m at:{n}",
        ),
        "darcs check -q; darcs whatsnew -s | grep -v '^No changes'",
        "darcs log --last 1 | sed -n 's/.*at://p'; cat n",
    ),
    "database": Unit(
        "sqlite3",
        "sqlite3 app.db 'pragma journal_mode=wal; create table t(n, v); insert into t values(0, 0);' "
        ">/dev/null",
        (
            "sqlite3 app.db 'insert into t values({n}, hex(randomblob(9000)));'",
            "sqlite3 app.db 'begin; delete from t; insert into t values({n}, 1); commit; vacuum;'",
            "sqlite3 app.db 'pragma journal_mode=delete; insert into t values({n}, 1);' >/dev/null",
        ),
        "sqlite3 app.db 'pragma integrity_check' | grep -vx ok",
        "sqlite3 app.db 'select n from t order by rowid desc limit 1'",
    ),
}


def command_for(root: Path, name: str, text: str, number: int = 0) -> str:
    """A command in the folder of a unit."""
    return f"cd {root / name}; " + text.format(n=number, store=root / f"store-{name}")


def shell(root: Path, command: str) -> str:
    """What a command says, errors included."""
    env = ENVIRONMENT | {"HOME": str(root.parent), "HGRCPATH": "", "USER": "u", "DARCS_EMAIL": "u@u"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def storm(folder: Path, seed: int, problems: list[str], kinds: Sequence[str] = ()) -> str:
    """One kill in a workspace of its own, with these kinds or some by lot; what it met, in a word."""
    chance = random.Random(seed)
    there = [name for name, unit in UNITS.items() if shutil.which(unit.program)]
    names = [*kinds] or ["git", *chance.sample(there[1:], min(2, len(there) - 1))]
    root = folder / "person" / "work"
    for name in names:
        (root / name).mkdir(parents=True)
        if said := shell(root, command_for(root, name, UNITS[name].make)):
            problems.append(f"{seed}: {name} was not made: {said}")
    moment = chance.choice(MOMENTS)
    told, telling = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(told)
        _quietly(_work(root, folder / "home" / "checkpoints", names, seed, telling))
    os.close(telling)
    wanted = chance.randint(1, 4)
    with os.fdopen(told) as lines:
        for line in lines:
            wanted -= line.strip() == moment
            if not wanted:
                break
        time.sleep(chance.uniform(0, LATEST[moment]))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while _is_there(child):
        # What the command began goes on without us.
        time.sleep(0.02)
    home = folder / "home" / "checkpoints"
    return f"{moment}: {_of_child(lambda: _afterwards(root, home, names), seed, problems)}"


def _is_there(group: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return True
    return False


def _quietly(work: object) -> None:
    try:
        asyncio.run(work)  # type: ignore[arg-type]
    except BaseException as error:
        print(f"the child failed: {error!r}", file=sys.stderr)
    os._exit(0)


async def _work(root: Path, home: Path, names: Sequence[str], seed: int, telling: int) -> None:
    chance = random.Random(seed + 1)
    recorder = StepRecorder(CheckpointStore(home), "session", root, LIMITS, print)
    recorder.start()
    await recorder.ready()

    def command(number: int) -> None:
        os.write(telling, b"command\n")
        # One process, so that what is killed is only Hermes.
        shell(
            root,
            "; ".join(command_for(root, each, chance.choice(UNITS[each].steps), number) for each in names),
        )
        os.write(telling, b"capture\n")

    for number in range(1, 40):
        async with recorder.during(f"c{number}", "run all", "session"):
            await recorder.acting(
                f"c{number}", RunCommand(tool="terminal", command="run all", cwd=recorder.root)
            )
            await asyncio.to_thread(command, number)
        if number < 2 or chance.random() < 0.3:
            continue
        # Undo, redo, and further back.
        last = recorder.position
        for position in (last - 1, last, chance.randrange(last)):
            os.write(telling, b"restore\n")
            await _go(recorder, position)


async def _go(recorder: StepRecorder, position: int):
    store = recorder.store
    plan = plan_back(store.line("session"), recorder.root, position, store.objects, limit=LIMITS.file)
    return await recorder.restore(plan, {}, session="session", label="back")


def _of_child(look, seed: int, problems: list[str]) -> str:
    answer, answering = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = [f"{seed}: {each}" for each in asyncio.run(_collect(look()))]
        except BaseException as error:
            found = [f"{seed}: {error!r}"]
        os.write(answering, json.dumps(found).encode()[:60_000])
        os._exit(0)
    os.close(answering)
    with os.fdopen(answer) as lines:
        problems += (said := json.loads(lines.read() or '["no answer"]'))
    os.waitpid(child, 0)
    return f"{len(said)} problems" if said else "well"


async def _collect(look) -> list[str]:
    return [each async for each in look]


async def _afterwards(root: Path, home: Path, names: Sequence[str]):
    """The next start finishes what was cut off; then back to the beginning, and forth again."""
    store = CheckpointStore(home)
    for sentence in finish_abandoned(store):
        if "left as " in sentence or "not finished" in sentence:
            yield sentence
    for item in verify(store).problems:
        yield f"{item.place}: {item.sentence}"
    recorder = StepRecorder(store, "session", root, LIMITS, print)
    recorder.start("cut", "what was cut off")
    await recorder.ready()
    shown, said = _state_of(root, names)
    for each in said:
        yield f"after the start: {each}"
    last = recorder.position
    for position, wanted in ((0, "0"), (last, shown), (0, "0")):
        done = await _go(recorder, position)
        if done.skipped:
            yield f"to {position}: {done.sentence()}"
        found, said = _state_of(root, names)
        for each in said:
            yield f"at {position} of {last}: {each}"
        if found != wanted:
            yield f"at {position}: step {found} shows, not {wanted}"
        if position:
            last = recorder.position
    for path in root.rglob("*.hermes-*"):
        yield f"left behind: {path}"
    await recorder.stop()


def _state_of(root: Path, names: Sequence[str]) -> tuple[str, list[str]]:
    """The number that all units show, and what is wrong."""
    numbers: dict[str, list[str]] = {}
    said: list[str] = []
    for name in names:
        unit = UNITS[name]
        if text := shell(root, command_for(root, name, unit.check)).strip():
            said.append(f"{name}: {text[:300]}")
        numbers[name] = shell(root, command_for(root, name, unit.number)).split()
    if len({each for shown in numbers.values() for each in shown}) != 1:
        said.append(f"between: {numbers}")
    return next(iter(numbers.values()), [""])[0], said


def main(count: int, seed: int, folder: Path, *kinds: str) -> None:
    problems: list[str] = []
    shares: list[str] = []
    for number in range(seed, seed + count):
        place = folder / str(number)
        shares.append(storm(place, number, problems, kinds))
        print(number, shares[-1], file=sys.stderr, flush=True)
        said = [each for each in problems if each.startswith(f"{number}:")]
        print("\n".join(said), end="\n" if said else "", file=sys.stderr, flush=True)
        if not said:
            shutil.rmtree(place)
    print(json.dumps({"kills": len(shares), "problems": problems}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
