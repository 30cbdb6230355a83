"""What calls do to a workspace becomes steps that can be taken back, whoever writes the files."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import StoreError
from agent.workspace.checkpoints import file_register
from agent.workspace.checkpoints.entries import TICK
from agent.workspace.checkpoints.file_register import GONE_FROM_GIT, TAKEN_ALONG, CaptureLimits
from agent.workspace.checkpoints.git_words import step_names
from agent.workspace.checkpoints.precapture import TOO_MUCH
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.plan import plan_restore
from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.conftest import LIMITS, Open, command
from tests.agent.workspace.checkpoints.restore.trees import look
from tools.results import ToolError
from tools.services.actions import DeletePath, RunCommand, WritePath


async def back(recorder: StepRecorder, position: int) -> None:
    """Restore everything to a position."""
    steps = recorder.store.line("session").steps()
    plan = plan_restore(recorder.root, steps, position, recorder.store.objects, limit=LIMITS.file)
    done = await recorder.run(
        lambda: apply_restore(plan, {}, recorder.store, "session", session="session", label="back")
    )
    assert done.skipped == ()
    await recorder.adopt(change.path for change in (done.step.changes if done.step else ()))


async def test_everything_a_command_changed_is_taken_back(opened: Open, root: Path) -> None:
    (root / "kept").write_text("same")
    (root / "changed").write_text("old")
    (root / "gone").write_bytes(b"\0\xff binary")
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "folder" / "deep" / "file").write_text("deep")
    (root / "link").symlink_to("nowhere")
    earlier = look(root)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    step = await command(
        recorder,
        "echo new >changed; rm gone link; ln -s elsewhere link; rm -r folder; mkdir made; echo x >made/x;"
        "chmod 700 kept; : >empty; mkdir empty-folder",
    )
    assert step is not None and step.kind == "command" and step.coverage.complete
    later = look(root)
    await back(recorder, 0)
    assert look(root) == earlier
    await back(recorder, step.number)
    assert look(root) == later


async def test_a_file_tool_is_recorded_without_a_look_at_everything(opened: Open, root: Path) -> None:
    (root / "other").write_text("x")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    path = root / "new" / "folder" / "file"
    async with recorder.during("c", "write_file new/folder/file", "session") as recording:
        await recorder.acting("c", WritePath(tool="write_file", path=path, creates=True))
        path.parent.mkdir(parents=True)
        path.write_text("made")
        (root / "other").write_text("by somebody else")
    assert recording.step is not None and recording.step.kind == "tool"
    assert [change.path for change in recording.step.changes] == ["new", "new/folder", "new/folder/file"]
    await back(recorder, 0)
    assert sorted(each.name for each in root.iterdir()) == ["other"]


async def test_a_deleted_file_comes_back(opened: Open, root: Path) -> None:
    (root / "file").write_text("here")
    recorder = opened()
    recorder.start()
    async with recorder.during("c", "patch", "session"):
        await recorder.acting("c", DeletePath(tool="patch", path=root / "file"))
        (root / "file").unlink()
    await back(recorder, 0)
    assert (root / "file").read_text() == "here"


async def test_what_the_person_changed_before_a_command_is_a_step_apart(opened: Open, root: Path) -> None:
    (root / "theirs").write_text("one")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    (root / "theirs").write_text("two")
    step = await command(recorder, "echo x >ours")
    outside, ours = recorder.store.line("session").steps()
    assert (outside.kind, [change.path for change in outside.changes]) == ("outside", ["theirs"])
    assert step == ours
    assert [change.path for change in ours.changes] == ["ours"]


async def test_a_restore_of_another_process_is_neither_news_nor_a_conflict(opened: Open, root: Path) -> None:
    recorder = opened()
    recorder.start()
    await recorder.ready()
    await command(recorder, "echo one >a")
    await command(recorder, "echo two >a", "c2")
    other = CheckpointStore(recorder.store.folder)
    plan = plan_restore(root, other.line("session").steps(), 1, other.objects, limit=LIMITS.file)
    apply_restore(plan, {}, other, "session", session="session", label="back")
    assert recorder.position == 3
    step = await command(recorder, "echo b >b", "c3")
    assert step is not None and [change.path for change in step.changes] == ["b"]
    kinds = [each.kind for each in recorder.store.line("session").steps()]
    assert kinds == ["command", "command", "restore", "command"]
    await back(recorder, 0)
    assert list(root.iterdir()) == []


async def test_a_command_without_effects_makes_no_step(opened: Open, root: Path) -> None:
    (root / "file").write_text("x")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    assert await command(recorder, "touch file; cat file; printf x >file") is None
    assert recorder.position == 0


async def test_a_call_that_is_interrupted_leaves_its_step(opened: Open, root: Path) -> None:
    recorder = opened()
    recorder.start()
    await recorder.ready()

    async def interrupted() -> None:
        async with recorder.during("c", "terminal", "session"):
            await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
            (root / "half").write_text("done")
            await asyncio.sleep(60)

    task = asyncio.create_task(interrupted())
    while not (root / "half").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (step,) = recorder.store.line("session").steps()
    assert [change.path for change in step.changes] == ["half"]


async def test_what_a_killed_process_was_doing_is_found_at_the_next_start(opened: Open, root: Path) -> None:
    (root / "file").write_text("before")
    first = opened()
    first.start()
    await first.ready()
    await first.stop()
    (root / "file").write_text("half written")
    second = opened()
    second.start(cut_off="call-7", label="cut off: terminal make")
    await second.ready()
    (step,) = second.store.line("session").steps()
    assert (step.call, [change.path for change in step.changes]) == ("call-7", ["file"])
    await back(second, 0)
    assert (root / "file").read_text() == "before"


def git(root: Path, *arguments: str) -> None:
    config = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *config, *arguments], cwd=root, check=True, capture_output=True)


async def test_tracked_files_are_brought_back_from_gits_own_objects(opened: Open, root: Path) -> None:
    git(root, "init", "-q")
    for number in range(5):
        (root / f"file{number}").write_text(f"text {number}\n" * 50)
    (root / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (root / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    # The bytes of the file that git converts are ours to keep; those of the others git has.
    kept = {recorder.store.objects.read(digest) for digest in recorder.store.objects.names()}
    assert (root / "dos.txt").read_bytes() in kept
    assert not kept & {(root / f"file{number}").read_bytes() for number in range(5)}
    earlier = look(root)
    await command(recorder, "rm file*; echo x >dos.txt")
    await back(recorder, 0)
    now = look(root)
    assert now == earlier


async def tracked_file(root: Path) -> None:
    git(root, "init", "-q")
    (root / "file").write_text("text")
    git(root, "add", "-A")
    # What was written within the last clock tick is read again before every command, and then kept.
    await asyncio.sleep(0.1)


async def test_contents_that_git_lost_during_a_command_come_back(opened: Open, root: Path) -> None:
    await tracked_file(root)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    step = await command(recorder, "rm -rf .git *")
    assert step is not None and step.coverage.complete
    await back(recorder, 0)
    assert (root / "file").read_text() == "text"
    git(root, "fsck")


async def test_contents_that_git_lost_where_files_have_one_name_only_are_named_as_lost(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    await tracked_file(root)
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr("agent.workspace.checkpoints.git_keep.COPIED_BYTES", 10)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    assert [item.path for item in recorder.coverage().left_out] == [".git/objects"]
    step = await command(recorder, "rm -rf .git/objects file")
    assert step is not None
    assert {item.reason for item in step.coverage.left_out} == {TAKEN_ALONG, GONE_FROM_GIT}


async def test_large_and_special_files_are_named_beforehand(opened: Open, root: Path) -> None:
    (root / "large").write_bytes(b"x" * 3_000)
    (root / "small").write_text("x")
    os.mkfifo(root / "pipe")
    recorder = opened(CaptureLimits(file=1_000, beforehand=10_000))
    recorder.start()
    await recorder.ready()
    left = {item.path: item.reason for item in recorder.coverage().left_out}
    assert left == {"large": "larger than 1,000 bytes", "pipe": "is a pipe"}
    step = await command(recorder, "echo y >>large; echo y >>small")
    assert step is not None
    assert [item.path for item in step.coverage.left_out] == ["large"]


async def test_more_than_may_be_kept_beforehand_is_named_by_folder(opened: Open, root: Path) -> None:
    (root / "node_modules").mkdir()
    for number in range(10):
        (root / "node_modules" / f"m{number}").write_bytes(b"x" * 500)
    (root / "mine").write_bytes(b"y" * 500)
    recorder = opened(CaptureLimits(file=1_000, beforehand=600))
    recorder.start()
    await recorder.ready()
    (left,) = recorder.coverage().left_out
    assert (left.path, left.reason) == ("node_modules", f"10 files: {TOO_MUCH}")


async def test_hard_links_are_noticed(opened: Open, root: Path) -> None:
    (root / "one").write_text("both")
    (root / "two").hardlink_to(root / "one")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    await command(recorder, "rm two; echo apart >two")
    await back(recorder, 0)
    assert (root / "one").stat().st_ino == (root / "two").stat().st_ino


async def test_a_command_that_can_link_out_of_the_workspace_has_everything_looked_at(
    opened: Open, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("first")
    recorder = opened()
    monkeypatch.setattr(file_register, "WATCHED", 0)
    recorder.links_stay = False
    recorder.start()
    await recorder.ready()
    # Until the clock has gone on, the file is looked at in any case.
    await asyncio.sleep(2 * TICK / 1_000_000_000)
    await command(recorder, "true")
    out = tmp_path / "out"
    step = await command(recorder, f"ln folder/file {out}; echo second > {out}; rm {out}")
    # The folder of the file has no event by that.
    assert step is not None and [change.path for change in step.changes] == ["folder/file"]
    await back(recorder, 0)
    assert (root / "folder" / "file").read_text() == "first"


async def test_a_store_that_cannot_be_written_is_told_once_and_then_no_call_may_change_anything(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("x")
    troubles: list[str] = []
    recorder = opened(troubles=troubles)

    def full(_self: object, _data: bytes) -> str:
        raise StoreError("There is no room.")

    # Before the start, or contents that are stored then need no room at the first command.
    monkeypatch.setattr(type(recorder.store.objects), "add", full)
    recorder.start()
    await recorder.ready()
    for _ in range(2):
        with pytest.raises(ToolError, match="could not be undone"):
            await command(recorder, "echo z >file")
    assert (root / "file").read_text() == "x"
    assert troubles == ["What happens to files cannot be kept, so it cannot be undone: There is no room."]


async def test_git_folders_at_any_depth_go_back_but_for_their_objects(opened: Open, root: Path) -> None:
    (root / "nested" / ".git" / "objects" / "ab").mkdir(parents=True)
    (root / "nested" / ".git" / "HEAD").write_text("ref: x")
    (root / "nested" / "file").write_text("one")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    step = await command(
        recorder, "echo y >nested/.git/HEAD; echo z >nested/.git/objects/ab/z; echo y >nested/file"
    )
    assert step is not None
    assert [change.path for change in step.changes] == ["nested/.git/HEAD", "nested/file"]


async def test_what_a_person_changed_while_a_command_ran_is_named_when_it_is_taken_along(
    opened: Open, root: Path
) -> None:
    for name in ("notes", "report", "tooled"):
        (root / name).write_text("one")
    recorder = opened()
    recorder.start()
    await recorder.ready()
    async with recorder.during("c1", "run sort report >sorted", "session"):
        await recorder.acting("c1", RunCommand(tool="terminal", command="sort", cwd=root))
        (root / "sorted").write_text("by the command")
        (root / "report").write_text("by the command")
        (root / "notes").write_text("by the person")
        (root / "new").write_text("by the person")
    async with recorder.during("c2", "write tooled", "session"):
        await recorder.acting("c2", WritePath(tool="write_file", path=root / "tooled", creates=False))
        (root / "tooled").write_text("by a tool")
    steps = recorder.store.line("session").steps()
    plan = plan_restore(root, steps, 0, recorder.store.objects, limit=LIMITS.file)
    done = await recorder.restore(plan, {}, session="session", label="back")
    assert done.unnamed == ("notes", "new")
    assert (
        done.sentence()
        == "3 paths restored, 2 paths removed; changed while a command ran, perhaps by you: notes, new."
    )


async def test_a_folder_that_only_holds_what_changed_is_not_counted(opened: Open, root: Path) -> None:
    recorder = opened()
    recorder.start()
    await recorder.ready()
    async with recorder.during("c1", "run mkdir", "session"):
        await recorder.acting("c1", RunCommand(tool="terminal", command="mkdir", cwd=root))
        (root / "deep" / "er").mkdir(parents=True)
        (root / "deep" / "er" / "file").write_text("one")
        (root / "empty").mkdir()
    (step,) = recorder.store.line("session").steps()
    assert step_names(step) == ("deep/er/file", "empty")


@pytest.mark.parametrize(
    ("command", "writes", "perhaps"),
    [
        ("make", {"Makefile": "out.txt: a\n", "out.txt": "x\n"}, ()),
        ("python gen.py", {"gen.py": "open(f'result_{1}.csv', 'w')", "result_1.csv": "1\n"}, ()),
        ("make", {"prog": "\x7fELF\0\0"}, ()),
        ("npm install left-pad", {"package-lock.json": "{}", "package.json": "{}"}, ()),
        ("cargo clippy", {"libdemo-1.rmeta": ""}, ()),
        ("uv add attrs", {"uv.lock": "version = 1", "pyproject.toml": "[project]"}, ()),
        ("npm test", {"package.json": "{}", "sub/package-lock.json": "{}"}, ("package.json",)),
        ("./x", {f"page{number}.html": "<p>" for number in range(40)}, ()),
        (f"echo {'long ' * 100}; echo x >note", {"note": "x"}, ()),
        ("sleep 1", {"thoughts.md": "mine"}, ("thoughts.md",)),
        ("make", {"Makefile": "out.txt: a\n", "thoughts.md": "mine"}, ("thoughts.md",)),
    ],
)
async def test_only_texts_that_nothing_the_command_reads_names_may_be_those_of_a_person(
    command: str, writes: dict[str, str], perhaps: tuple[str, ...], opened: Open, root: Path
) -> None:
    for name in {"Makefile", "gen.py"} & writes.keys():
        (root / name).write_text(writes[name])
    recorder = opened()
    recorder.start()
    await recorder.ready()
    async with recorder.during("c1", f"run {command}", "session") as recording:
        await recorder.acting("c1", RunCommand(tool="terminal", command=command, cwd=root))
        for name in writes.keys() - {"Makefile", "gen.py"}:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(writes[name])
    assert recording.step is not None
    assert recording.step.perhaps == perhaps


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give no watches")
@pytest.mark.parametrize("ends", [False, True], ids=["before a restore", "at the end of the session"])
async def test_a_change_without_an_event_is_taken_back_and_named(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr(file_register, "WATCHED", 0)
    for name in ("a", "b"):
        (root / name).mkdir()
    (root / "a/file").write_text("old")
    recorder = opened()
    recorder.links_stay = True
    recorder.start()
    await recorder.ready()
    await asyncio.sleep(2 * TICK / 1_000_000_000)
    # The first look with watches reads everything.
    await command(recorder, "echo 1 >b/other")
    await command(recorder, "ln a/file b/name; echo new >b/name; rm b/name; echo 2 >b/other")
    (root / "b/mine").write_text("by the person")
    await (recorder.stop() if ends else recorder.record_unseen())
    *_, theirs, found = recorder.store.line("session").steps()
    assert (theirs.kind, [change.path for change in theirs.changes]) == ("outside", ["b/mine"])
    assert (found.kind, found.perhaps) == ("command", ("a/file",))
    if not ends:
        plan = plan_restore(root, (found,), 0, recorder.store.objects, limit=LIMITS.file)
        assert [(item.path, item.unnamed) for item in plan.items] == [("a/file", True)]
        await back(recorder, 0)
        assert (root / "a/file").read_text() == "old"
        assert (root / "b/mine").read_text() == "by the person"
        position = recorder.position
        await recorder.record_unseen()
        assert recorder.position == position
