"""What happens at the same time, or fails in between, costs no byte and stops no call."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.workspace.checkpoints import file_register, scan
from agent.workspace.checkpoints.entries import KnownPath
from agent.workspace.checkpoints.file_register import Baseline, CaptureLimits
from agent.workspace.checkpoints.garbage_collection import verify
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.path_replacement import WRITTEN
from agent.workspace.checkpoints.restore.plan import plan_restore
from tests.agent.workspace.checkpoints.conftest import LIMITS, Open, command
from tests.agent.workspace.checkpoints.torture import look
from tests.support.restore_storm import edited_during_commands
from tools.services.actions import RunCommand


def plan_back(recorder: StepRecorder, position: int = 0):
    steps = recorder.store.line("session").steps()
    return plan_restore(recorder.root, steps, position, recorder.store.objects, limit=LIMITS.file)


async def ready(recorder: StepRecorder) -> StepRecorder:
    recorder.start()
    await recorder.ready()
    return recorder


async def test_a_folder_that_becomes_a_link_during_a_look_leads_nowhere(
    opened: Open, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not yours")
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("mine")
    recorder = await ready(opened())
    listed = scan._list_folder

    def swapped(descriptor: int, prefix: str, found: scan.ManifestScan):
        result = listed(descriptor, prefix, found)
        if prefix == "" and not (root / "folder").is_symlink():
            (root / "folder").rename(root / "moved")
            (root / "folder").symlink_to(outside)
        return result

    monkeypatch.setattr(scan, "_list_folder", swapped)
    await command(recorder, "true")
    monkeypatch.setattr(scan, "_list_folder", listed)
    await command(recorder, "true", call="c2")
    steps = recorder.store.line("session").steps()
    assert not any("secret" in change.path for step in steps for change in step.changes)
    digests = list(recorder.store.objects.names())
    assert b"not yours" not in [recorder.store.objects.read(digest) for digest in digests]


async def test_a_file_that_becomes_a_pipe_holds_nobody(opened: Open, root: Path) -> None:
    (root / "file").write_text("x")
    recorder = await ready(opened())
    async with asyncio.timeout(60):
        step = await command(recorder, "rm file; mkfifo file")
    assert step is not None
    assert [(item.path, item.reason) for item in step.coverage.left_out] == [("file", "is a pipe")]
    done = await recorder.run(
        lambda: apply_restore(plan_back(recorder), {}, recorder.store, "session", session="s", label="back")
    )
    assert done.skipped[0].path == "file"


async def test_a_folder_that_cannot_be_read_is_named_and_nothing_in_it_counts_as_deleted(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("x")
    recorder = await ready(opened())
    opens = os.open

    def closed(path, flags, *rest, **more):
        if str(path) in (str(root), f"{root}/folder"):
            raise PermissionError(13, "Permission denied", path)
        return opens(path, flags, *rest, **more)

    monkeypatch.setattr(scan.os, "open", closed)
    step = await command(recorder, "true")
    assert step is None
    monkeypatch.setattr(scan.os, "open", opens)
    assert await command(recorder, "true", call="c2") is None


async def test_two_recorders_in_one_workspace_lose_nothing(opened: Open, root: Path) -> None:
    (root / "file").write_text("start")
    one, two = opened(line="one"), opened(line="two")
    await asyncio.gather(ready(one), ready(two))

    async def work(recorder: StepRecorder, name: str) -> None:
        for number in range(6):
            await command(
                recorder, f"echo {name} {number} >file-{name}; echo {number} >>file", call=str(number)
            )

    await asyncio.gather(work(one, "a"), work(two, "b"))
    assert verify(one.store).sound
    for recorder in (one, two):
        steps = recorder.store.line(recorder.line).steps()
        await recorder.stop()
        plan = plan_restore(root, steps, 0, recorder.store.objects, limit=LIMITS.file)
        assert {item.path: item.state for item in plan.items if item.state == "lost"} == {}


async def test_a_disk_without_room_costs_a_step_and_what_was_is_kept_for_the_next(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.errors import StoreError

    (root / "file").write_text("one")
    recorder = await ready(opened())
    append = type(recorder._line).append

    def full(*_: object, **__: object) -> None:
        raise StoreError("There is no room.")

    monkeypatch.setattr(type(recorder._line), "append", full)
    assert await command(recorder, "echo two >file") is None
    monkeypatch.setattr(type(recorder._line), "append", append)
    await command(recorder, "echo three >file", call="c2")
    first, second = recorder.store.line("session").steps()
    # Which call it was can no longer be told, so it counts as somebody else's: nothing is lost by that.
    assert (first.kind, second.kind) == ("outside", "command")
    before = first.changes[0].before
    assert before is not None and before.digest is not None
    assert recorder.store.objects.read(before.digest) == b"one"


FULL = """
import asyncio, resource, sys
from pathlib import Path
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.store import CheckpointStore
from tools.services.actions import RunCommand
async def main():
    root, store = Path(sys.argv[1]), CheckpointStore(Path(sys.argv[2]))
    told = []
    recorder = StepRecorder(store, "session", root, CaptureLimits(10_000_000, 10_000_000), told.append)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    recorder.start()
    await recorder.ready()
    for number in range(3):
        async with recorder.during("c", "terminal", "session") as recording:
            await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
            (root / "small").write_text(f"{number}")
    await recorder.stop()
    print(len(told), recorder.position, sorted(each.name for each in store.objects.folder.iterdir()))
asyncio.run(main())
"""


@pytest.mark.thorough
def test_a_file_that_does_not_fit_on_the_disk_stops_nothing(root: Path, tmp_path: Path) -> None:
    (root / "large").write_bytes(random.Random(1).randbytes(100_000))
    (root / "small").write_text("x")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(root), str(tmp_path / "home" / "checkpoints")],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, position, left = done.stdout.split(" ", 2)
    assert told == "1"
    assert int(position) >= 1
    assert not any(name.startswith(".new-") for name in left)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    "record",
    [
        ["../escape", [1], True, ["file", 420, 1, 1, "a" * 64], ""],
        ["/etc/passwd", [1], True, ["file", 420, 1, 1, "a" * 64], ""],
        ["file", [1], True, ["file", 420, 1, 1, 7], ""],
        ["file", [1], True, ["file", 420, 1, 1, "../../x"], ""],
        ["file", [1], True, ["file", 420, 1, 1, None], "--batch"],
        ["file", [1], True, None, ""],
        ["file", "x", True, ["file", 420, 1, 1, None], ""],
        ["file", [1e999], True, ["file", 420, 1, 1, None], ""],
        [7, [1], True, ["file", 420, 1, 1, None], ""],
        {"path": "file"},
        "[" * 100_000,
    ],
)
def test_a_baseline_that_holds_nonsense_is_none(root: Path, tmp_path: Path, record: object) -> None:
    baseline = Baseline(tmp_path / "baselines", root)
    baseline.save({})
    head = {"format": 2, "root": str(root), "paths": 1}
    text = record if isinstance(record, str) else json.dumps(record)
    baseline.path.write_text(f"{json.dumps(head)}\n{text}\n")
    assert baseline.load() is None


async def test_a_baseline_that_was_cut_short_is_none(opened: Open, root: Path) -> None:
    for number in range(50):
        (root / f"f{number}").write_text("x")
    recorder = await ready(opened())
    await recorder.stop()
    (path,) = recorder.store.baselines.iterdir()
    data = path.read_bytes()
    baseline = Baseline(recorder.store.baselines, root)
    known = baseline.load()
    assert known is not None and len(known) == 51, "the files and the workspace itself"
    for cut in (0, 1, len(data) // 2, data.rfind(b"\n", 0, -1), data.rfind(b"\n", 0, -1) + 1, len(data) - 5):
        path.write_bytes(data[:cut])
        assert baseline.load() is None
    path.unlink()
    os.mkfifo(path)
    assert baseline.load() is None


async def test_a_baseline_that_names_contents_which_are_not_there_is_mended(opened: Open, root: Path) -> None:
    (root / "file").write_text("one")
    first = await ready(opened())
    await first.stop()
    shutil.rmtree(first.store.objects.folder)
    second = await ready(opened())
    await command(second, "echo two >file")
    plan = plan_back(second)
    assert [item.state for item in plan.items] == ["change"]


def test_a_huge_baseline_is_read_in_its_place_or_not_at_all(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints import file_register as module

    baseline = Baseline(tmp_path / "baselines", root)
    baseline.save({"file": KnownPath((1,), True, file_register.PathEntry(file_register.PathKind.FILE, 420))})
    assert baseline.load() is not None
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    assert baseline.load() is None


async def test_a_command_that_comes_before_everything_is_read_says_so_and_does_not_wait_for_ever(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints import recorder as module

    (root / "file").write_text("one")
    going = threading.Event()
    survey = file_register.FileRegister.survey
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    monkeypatch.setattr(
        file_register.FileRegister,
        "survey",
        lambda self: (going.wait(60), survey(self))[1],
    )
    recorder = opened()
    recorder.start()
    task = asyncio.create_task(command(recorder, "echo two >file"))
    while (root / "file").read_text() != "two\n":
        await asyncio.sleep(0.01)
    going.set()
    step = await task
    assert step is not None
    assert [(item.path, item.reason) for item in step.coverage.left_out] == [
        (".", "the workspace was still being read")
    ]


async def test_a_command_runs_while_a_large_workspace_is_still_being_kept(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints import recorder as module

    for number in range(30):
        (root / f"f{number:02}").write_text("old")
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "SLICE", 0.0)
    recorder = opened()
    recorder.start()
    while not recorder._surveyed.is_set():
        await asyncio.sleep(0)
    step = await command(recorder, "for each in f*; do echo new >$each; done")
    assert step is not None
    # Everything that was changed is told, whether its old contents were at hand or not.
    assert len(step.changes) == 30
    await recorder.ready()
    assert await command(recorder, "true", call="c2") is None


@pytest.mark.thorough
async def test_no_byte_of_a_person_who_edits_during_commands_is_lost(opened: Open, root: Path) -> None:
    typed = await edited_during_commands(await ready(opened()), rounds=20, seed=5)
    assert typed.written > 5
    assert typed.lost == ()


async def test_a_file_that_a_program_still_writes_to_stays(opened: Open, root: Path) -> None:
    (root / "log").write_text("start\n")
    (root / "gone").write_text("start\n")
    recorder = await ready(opened())
    await command(recorder, "echo more >>log; echo x >new")
    with (root / "log").open("a") as log, (root / "new").open("a") as new:
        done = await recorder.run(
            lambda: apply_restore(
                plan_back(recorder), {}, recorder.store, "session", session="s", label="back"
            )
        )
        log.write("after\n")
        new.write("after\n")
    assert {(item.path, item.reason) for item in done.skipped} == {("log", WRITTEN), ("new", WRITTEN)}
    assert (root / "log").read_text() == "start\nmore\nafter\n"
    assert (root / "new").read_text() == "x\nafter\n"
    assert sorted(look(root)) == ["gone", "log", "new"]


async def test_calls_with_the_same_id_are_kept_apart(opened: Open, root: Path) -> None:
    recorder = await ready(opened())
    async with recorder.during("c", "one", "session"):
        async with recorder.during("c", "two", "session"):
            await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
            (root / "file").write_text("x")
    assert [step.label for step in recorder.store.line("session").steps()] == ["two"]


async def test_a_recorder_that_was_stopped_stops_no_call(opened: Open, root: Path) -> None:
    recorder = await ready(opened())
    await recorder.stop()
    assert await command(recorder, "echo x >file") is None
    assert (root / "file").read_text() == "x\n"


async def test_the_file_cap_is_not_crossed_by_a_file_that_grows(opened: Open, root: Path) -> None:
    (root / "file").write_bytes(b"x" * 900)
    recorder = await ready(opened(CaptureLimits(file=1_000, beforehand=10_000)))
    await command(recorder, "cat file file >more; mv more file")
    plan = plan_restore(root, recorder.store.line("session").steps(), 0, recorder.store.objects, limit=1_000)
    assert [item.state for item in plan.items] == ["lost"]
