"""After undo everything is as it was, byte, mode and link, or it was named beforehand as not covered."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import Restored, apply_restore
from agent.workspace.checkpoints.restore.plan import plan_restore
from tests.agent.workspace.checkpoints.conftest import Open, command
from tests.agent.workspace.checkpoints.torture import CHANGES, different, git_state, look, plant
from tools.services.actions import DeletePath, WritePath

LIMITS = CaptureLimits(file=1_000_000, beforehand=100_000_000)


async def undo(recorder: StepRecorder, position: int) -> Restored:
    steps = recorder.store.line("session").steps()
    plan = plan_restore(recorder.root, steps, position, recorder.store.objects, limit=LIMITS.file)
    assert [(item.path, item.reason) for item in plan.having("conflict")] == []
    done = await recorder.run(
        lambda: apply_restore(plan, {}, recorder.store, "session", session="session", label="back")
    )
    await recorder.adopt(change.path for change in (done.step.changes if done.step else ()))
    return done


@pytest.mark.thorough
async def test_a_tree_with_everything_comes_back_exactly_and_goes_again(
    opened: Open, root: Path, tmp_path: Path
) -> None:
    plant(root, tmp_path / "outside")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    repositories = git_state(root)
    uncovered = {item.path for item in recorder.coverage().left_out}
    assert uncovered == {"pipe", "socket"}
    earlier = look(root)
    step = await command(recorder, CHANGES)
    assert step is not None and step.coverage.complete
    later = look(root)
    assert len(different(earlier, later)) > 70
    for position, expected in ((0, earlier), (step.number, later), (0, earlier)):
        done = await undo(recorder, position)
        assert done.skipped == ()
        assert different(look(root), expected) == {}
    assert git_state(root) == repositories
    assert (tmp_path / "outside" / "secret").read_text() == "not of this workspace"


@pytest.mark.thorough
async def test_everything_that_is_deleted_at_once_comes_back(
    opened: Open, root: Path, tmp_path: Path
) -> None:
    plant(root, tmp_path / "outside")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    earlier = look(root)
    step = await command(recorder, "rm -rf -- * .[!.]*")
    assert step is not None
    lost = {item.path for item in step.coverage.left_out}
    assert lost == {"pipe", "socket"}
    assert list(root.iterdir()) == []
    done = await undo(recorder, 0)
    assert {item.path for item in done.skipped} == {"pipe", "socket"}
    assert different(look(root), earlier) == {}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "text", ["chmod 700 .", "chmod 2775 .; echo x >new", "rm -r $PWD", "rm -r $PWD; mkdir $PWD"]
)
async def test_the_mode_of_the_workspace_itself_comes_back(opened: Open, root: Path, text: str) -> None:
    (root / "file").write_text("here")
    root.chmod(0o751)
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    step = await command(recorder, text)
    assert step is not None and "." in {change.path for change in step.changes}
    later = stat.S_IMODE(root.stat().st_mode) if root.exists() else 0o751
    for _ in range(2):
        assert (await undo(recorder, 0)).skipped == ()
        assert (stat.S_IMODE(root.stat().st_mode), (root / "file").read_text()) == (0o751, "here")
        assert (await undo(recorder, step.number)).skipped == ()
        assert stat.S_IMODE(root.stat().st_mode) == later


async def test_a_session_of_an_older_version_tells_no_change_of_the_workspace_itself(
    opened: Open, root: Path
) -> None:
    (root / "file").write_text("here")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    await recorder.stop()
    (baseline,) = recorder.store.baselines.iterdir()
    head, *lines = baseline.read_text().splitlines()
    others = [line for line in lines if json.loads(line)[0] != "."]
    assert len(others) == len(lines) - 1
    head = json.dumps(json.loads(head) | {"paths": len(others)})
    baseline.write_text("\n".join([head, *others]) + "\n")
    later = opened(LIMITS)
    later.start(since=0.0)
    assert await later.missed_changes() == ()
    assert later.position == 0


async def test_a_workspace_that_is_removed_as_a_whole_is_made_again(opened: Open, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("here")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    assert await command(recorder, f"rm -r {root}") is not None
    assert not root.exists()
    assert (await undo(recorder, 0)).skipped == ()
    assert (root / "folder" / "file").read_text() == "here"


@pytest.mark.parametrize(
    "keep",
    [
        lambda file, new: (file.write_text(new), os.utime(file, ns=_times(file.with_name("reference")))),
        lambda file, new: subprocess.run(
            ["sh", "-c", f"printf {new} >x; touch -r file x; cp -p x file; rm x"], cwd=file.parent, check=True
        ),
        lambda file, new: subprocess.run(
            ["sh", "-c", f"printf {new} >x; touch -r file x; mv x file"], cwd=file.parent, check=True
        ),
    ],
)
async def test_a_change_that_keeps_size_and_time_is_found(
    opened: Open, root: Path, keep: Callable[[Path, str], object]
) -> None:
    file = root / "file"
    file.write_text("one")
    os.utime(file, (1_000_000_000, 1_000_000_000))
    subprocess.run(["cp", "-p", "file", "reference"], cwd=root, check=True)
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    async with recorder.during("c", "terminal", "session") as recording:
        from tools.services.actions import RunCommand

        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
        before = file.stat()
        keep(file, "two")
        assert (file.stat().st_mtime_ns, file.stat().st_size) == (before.st_mtime_ns, before.st_size)
    assert recording.step is not None
    assert [change.path for change in recording.step.changes] == ["file"]
    await undo(recorder, 0)
    assert file.read_text() == "one"


def _times(path: Path) -> tuple[int, int]:
    return path.stat().st_atime_ns, path.stat().st_mtime_ns


async def test_files_with_times_in_the_future_are_not_read_before_every_command(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints import file_register

    (root / "file").write_text("x")
    os.utime(root / "file", (4_000_000_000, 4_000_000_000))
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    await command(recorder, "sleep 0.1")
    taken: list[str] = []
    capture = file_register.capture_path

    def noted(root: Path, path: str, *rest: object, **more: object) -> object:
        taken.append(path)
        return capture(root, path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(file_register, "capture_path", noted)
    assert await command(recorder, "cat file") is None
    assert taken == []


async def test_what_no_checkpoint_keeps_stays_with_a_file_that_is_still_there(
    opened: Open, root: Path
) -> None:
    file = root / "file"
    file.write_text("one")
    os.setxattr(file, "user.note", b"mine")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    await command(recorder, "echo two >file")
    await undo(recorder, 0)
    assert file.read_text() == "one"
    assert os.getxattr(file, "user.note") == b"mine"


async def test_a_large_run_of_zeros_stays_a_hole(opened: Open, root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(10_000_000)
    recorder = opened(CaptureLimits(file=100_000_000, beforehand=100_000_000))
    recorder.start()
    await recorder.ready()
    await command(recorder, "rm sparse")
    await undo_any(recorder)
    status = (root / "sparse").stat()
    assert status.st_size == 10_000_000
    assert status.st_blocks * 512 < 1_000_000


async def undo_any(recorder: StepRecorder) -> None:
    steps = recorder.store.line("session").steps()
    plan = plan_restore(recorder.root, steps, 0, recorder.store.objects, limit=100_000_000)
    await recorder.run(lambda: apply_restore(plan, {}, recorder.store, "session", session="s", label="back"))


async def test_a_folder_that_a_tool_deletes_comes_back_with_all_that_is_in_it(
    opened: Open, root: Path
) -> None:
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "folder" / "deep" / "file").write_text("x")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    earlier = look(root)
    async with recorder.during("c", "delete", "session"):
        await recorder.acting("c", DeletePath(tool="patch", path=root / "folder"))
        subprocess.run(["rm", "-r", "folder"], cwd=root, check=True)
    await undo(recorder, 0)
    assert look(root) == earlier


async def test_a_tool_and_a_program_that_change_one_file_at_once_leave_one_chain(
    opened: Open, root: Path
) -> None:
    file = root / "file"
    file.write_text("one")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    from tools.services.actions import RunCommand

    async with recorder.during("program", "terminal", "session"):
        await recorder.acting("program", RunCommand(tool="terminal", command="x", cwd=root))
        file.write_text("by the program")
        async with recorder.during("tool", "write_file", "session"):
            await recorder.acting("tool", WritePath(tool="write_file", path=file))
            file.write_text("by the tool")
        (root / "other").write_text("x")
    calls = [(step.call, [change.path for change in step.changes]) for step in steps_of(recorder)]
    assert calls == [("program", ["file"]), ("tool", ["file"]), ("program", ["other"])]
    await undo(recorder, 1)
    assert file.read_text() == "by the program"
    await undo(recorder, 0)
    assert file.read_text() == "one"


def steps_of(recorder: StepRecorder):
    return recorder.store.line("session").steps()


async def test_what_a_person_edits_between_two_commands_is_not_ours_to_take_back(
    opened: Open, root: Path
) -> None:
    (root / "theirs").write_text("one")
    (root / "both").write_text("a\nb\nc\n")
    recorder = opened(LIMITS)
    recorder.start()
    await recorder.ready()
    await command(recorder, "printf 'A\\nb\\nc\\n' >both")
    (root / "theirs").write_text("two")
    (root / "both").write_text("A\nb\nC\n")
    await command(recorder, "echo x >ours", call="c2")
    plan = plan_restore(root, steps_of(recorder), 0, recorder.store.objects, limit=LIMITS.file)
    # Where nothing is ours there is nothing to decide: it stays.
    assert {item.path: item.state for item in plan.items} == {"both": "conflict", "ours": "change"}
    choices = {"both": "merge"}
    await recorder.run(
        lambda: apply_restore(plan, choices, recorder.store, "session", session="s", label="back")  # type: ignore[arg-type]
    )
    assert (root / "theirs").read_text() == "two"
    assert (root / "both").read_text() == "a\nb\nC\n"
    assert not (root / "ours").exists()


async def test_hermes_own_folder_inside_a_workspace_is_not_looked_into(tmp_path: Path) -> None:
    from agent.workspace.checkpoints.store import CheckpointStore

    root = tmp_path.resolve()
    (root / "file").write_text("x")
    recorder = StepRecorder(CheckpointStore(root / "home" / "checkpoints"), "session", root, LIMITS, print)
    recorder.start()
    await recorder.ready()
    assert await command(recorder, "cat file") is None
    step = await command(recorder, "echo y >file")
    assert step is not None and [change.path for change in step.changes] == ["file"]
    await recorder.stop()
