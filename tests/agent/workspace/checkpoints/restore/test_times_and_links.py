"""Builds after going back build what they have to; what a step wrote through a hard link goes back, too."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import Restored
from agent.workspace.checkpoints.restore.plan import plan_back
from tests.agent.workspace.checkpoints.conftest import LIMITS, Open, command
from tests.agent.workspace.checkpoints.restore.trees import taken_back
from tests.support.thorough import thoroughly

MAKEFILE = "out: main.txt part.txt\n\tcat main.txt part.txt >out; printf '\\0' >>out\n"
MINUTE = 60_000_000_000


async def begun(opened: Open) -> StepRecorder:
    recorder = opened()
    recorder.start()
    await recorder.ready()
    return recorder


def made(root: Path) -> str:
    """What the build gives now."""
    subprocess.run(["make", "-s"], cwd=root, check=True)
    return (root / "out").read_text().rstrip("\0")


def earlier(root: Path, *names: str) -> None:
    """Give files times in this order, minutes apart and all of them past."""
    now = (root / names[-1]).stat().st_mtime_ns
    for number, name in enumerate(names):
        moment = now - (len(names) - number) * MINUTE
        os.utime(root / name, ns=(moment, moment))


def project(root: Path, *, is_built: bool) -> None:
    (root / "Makefile").write_text(MAKEFILE)
    (root / "main.txt").write_text("one\n")
    (root / "part.txt").write_text("part\n")
    made(root)
    (root / "main.txt").write_text("two\n")
    if is_built:
        made(root)
    earlier(root, "Makefile", "part.txt", *(["main.txt", "out"] if is_built else ["out", "main.txt"]))


def current(root: Path) -> str:
    return (root / "main.txt").read_text() + (root / "part.txt").read_text()


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
async def test_what_was_not_built_before_a_step_is_built_after_its_undo(opened: Open, root: Path) -> None:
    project(root, is_built=False)
    recorder = await begun(opened)
    await command(recorder, "make -s")
    assert taken_back(recorder, 0).skipped == ()
    assert (root / "out").read_text() == "one\npart\n\0"
    assert made(root) == "two\npart\n"


@pytest.mark.sample(1)
@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
@pytest.mark.parametrize("seed", [*range(6), 23, 64, 93, 115, *thoroughly(*range(6, 23), *range(24, 60))])
async def test_a_build_is_right_after_any_order_of_steps_edits_and_going_back(
    seed: int, opened: Open, root: Path
) -> None:
    chance = random.Random(seed)
    project(root, is_built=chance.random() < 0.5)
    recorder = await begun(opened)
    for number in range(4):
        match chance.randrange(5):
            case 0:
                await command(recorder, f"echo step{number} >main.txt")
            case 1:
                await command(recorder, f"echo step{number} >part.txt; make -s")
            case 2:
                await command(recorder, "make -s")
            case 3:
                (root / "main.txt").write_text(f"person {number}\n")
            case _:
                made(root)
    for _ in range(3):
        position, line = chance.randrange(recorder.position + 1), recorder.store.line(recorder.line)
        plan = plan_back(line, root, position, recorder.store.objects, limit=LIMITS.file, others=())
        await recorder.restore(plan, {}, session=recorder.line, label="back")
        assert made(root) == current(root)
        await recorder.catch_up()


async def test_everything_that_goes_back_has_the_times_that_were_recorded(opened: Open, root: Path) -> None:
    for name in ("a", "b", "c"):
        (root / name).write_text(name)
    (root / "link").symlink_to("a")
    earlier(root, "c", "a", "b")
    recorder = await begun(opened)
    before = {path.name: path.lstat().st_mtime_ns for path in root.iterdir()}
    await command(recorder, "echo x >a; rm b; rm link; ln -s b link")
    after = {path.name: path.lstat().st_mtime_ns for path in root.iterdir()}
    taken_back(recorder, 0)
    assert {path.name: path.lstat().st_mtime_ns for path in root.iterdir()} == before
    taken_back(recorder, 1)
    assert {path.name: path.lstat().st_mtime_ns for path in root.iterdir()} == after


def linked(root: Path) -> Path:
    """A file of the workspace that has two more names outside of it."""
    store = root.parent / "store.js"
    store.write_text("old\n" * 5_000)
    (root / "index.js").hardlink_to(store)
    (root.parent / "other.js").hardlink_to(store)
    return store


async def test_what_a_step_wrote_through_a_hard_link_goes_back_outside_too(opened: Open, root: Path) -> None:
    store = linked(root)
    recorder = await begun(opened)
    await command(recorder, "echo '// debug' >>index.js")
    assert store.read_text().endswith("debug\n")
    restored = taken_back(recorder, 0)
    assert (restored.skipped, restored.remarks) == ((), ())
    assert store.read_text() == (root.parent / "other.js").read_text() == "old\n" * 5_000
    assert (root / "index.js").samefile(store)
    taken_back(recorder, 1)
    assert store.read_text().endswith("debug\n")
    assert (root / "index.js").samefile(store)


async def test_a_link_that_a_step_made_does_not_carry_old_bytes_outside(opened: Open, root: Path) -> None:
    store = root.parent / "store.js"
    store.write_text("theirs\n")
    (root / "index.js").write_text("mine\n")
    recorder = await begun(opened)
    await command(recorder, "ln -f ../store.js index.js")
    taken_back(recorder, 0)
    assert (root / "index.js").read_text() == "mine\n"
    assert store.read_text() == "theirs\n"


@pytest.mark.parametrize("way", ["replaced by a person", "renamed by the step"])
async def test_a_change_that_stays_under_other_names_is_said(way: str, opened: Open, root: Path) -> None:
    store = linked(root)
    recorder = await begun(opened)
    renames = way == "renamed by the step"
    await command(recorder, "echo x >>index.js" + ("; mv index.js moved.js" if renames else ""))
    if not renames:
        copied = (root / "index.js").read_bytes()
        (root / "index.js").unlink()
        (root / "index.js").write_bytes(copied)
    restored: Restored = taken_back(recorder, 0)
    assert (root / "index.js").read_text() == "old\n" * 5_000
    assert store.read_text().endswith("x\n")
    assert [each.split(" was ")[0] for each in restored.remarks] == ["index.js"]


async def test_attributes_that_do_not_come_back_are_said(opened: Open, root: Path) -> None:
    for name in ("gone", "still"):
        (root / name).write_text(name)
        try:
            os.setxattr(root / name, "user.origin", b"somewhere")
        except OSError as error:
            pytest.skip(f"no attributes here: {error}")
    recorder = await begun(opened)
    await command(recorder, "rm gone; echo more >>still")
    restored = taken_back(recorder, 0)
    assert restored.remarks == ("user.origin of gone did not come back",)
    assert os.getxattr(root / "still", "user.origin") == b"somewhere"
