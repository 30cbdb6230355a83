"""What calls of the model do to files is kept as steps that the nodes of the session know."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.store.store import Store
from agent.events import Noticed, StepTaken
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.restore.apply import new_restore, record_restore
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.engines import bench
from tests.support.replies import by_step, call, say
from tools.files.committing import written_down
from tools.files.planning import OnDisk, Write


@pytest.mark.thorough
async def test_file_tools_commands_and_scripts_each_leave_a_step(tmp_path: Path) -> None:
    script = "from hermes_tools import write_file\nwrite_file('c.txt', 'x')\nopen('d.txt', 'w').write('d')\n"
    replies = by_step(
        [
            call("write_file", path="a.txt", content="tool"),
            call("terminal", command="echo command >b.txt; rm seed"),
            call("execute_code", code=script),
            call("terminal", command="ls"),
            say("done"),
        ]
    )
    async with bench(tmp_path, replies) as b:
        (b.workspace / "seed").write_text("x")
        assert (await b.turn("go")).outcome == "done"
        taken = [event for event in b.events if isinstance(event, StepTaken)]
        assert [(event.step, event.paths, event.coverage) for event in taken] == [
            (1, ("a.txt",), "full"),
            (2, ("b.txt", "seed"), "full"),
            (3, ("c.txt", "d.txt"), "full"),
        ]
        async with await Store.open(b.home / "state.db") as store:
            (session,) = await store.list_sessions()
            rows = await store.outline(session.id)
        steps = [(row.kind, row.step) for row in rows if row.step is not None]
        assert steps == [("user", 0), ("tool", 1), ("tool", 2), ("tool", 3)]
        line = CheckpointStore(b.home / "checkpoints").line(session.id)
        assert [step.kind for step in line.steps()] == ["tool", "command", "command"]


async def test_a_restore_that_was_cut_off_is_finished_when_a_session_opens(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("hello")])) as b:
        (b.workspace / "a.txt").write_text("new")
        checkpoints = CheckpointStore(b.home / "checkpoints")
        now = capture_path(b.workspace, "a.txt", checkpoints.objects, limit=1_000)
        assert now is not None
        wanted = replace(now, digest=checkpoints.objects.add(b"old"), size=3)
        root = str(b.workspace)
        cut_off = new_restore("line", "line", "back to step 0", root, [Move("a.txt", now, wanted)])
        with suppress(ZeroDivisionError), record_restore(checkpoints.pending, cut_off):
            raise ZeroDivisionError
        await b.turn("go")
        assert (b.workspace / "a.txt").read_text() == "old"
        (told,) = [event.text for event in b.seen(Noticed) if event.kind == "recovery"]
        assert told.startswith("A restore that was cut off is finished")


async def test_where_steps_are_not_wanted_none_are_kept_and_nothing_is_said(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("write_file", path="a.txt", content="x"), say("done")])) as b:
        b.config("checkpoints: {enabled: false}")
        assert (await b.turn("go")).outcome == "done"
        assert not [event for event in b.events if isinstance(event, StepTaken)]
        assert (b.workspace / "a.txt").read_text() == "x"
        assert not [event for event in b.events if isinstance(event, Noticed) and event.kind == "warning"]


@pytest.mark.thorough
async def test_a_session_that_goes_on_without_a_person_hears_what_changed_in_between(tmp_path: Path) -> None:
    replies = [call("terminal", command="echo line >>log.txt"), say("done"), say("heard")]
    async with bench(tmp_path, by_step(replies)) as b:
        (b.workspace / "notes.txt").write_text("one")
        (b.workspace / "gone.txt").write_text("one")
        await b.turn("go")
        await b.turn("another session")
        async with await Store.open(b.home / "state.db") as store:
            first = min(await store.list_sessions(), key=lambda session: session.created)
        (b.workspace / "notes.txt").write_text("two")
        (b.workspace / "gone.txt").unlink()
        (b.workspace / ".gitignore").write_text("out/\n")
        for cache in ("src/__pycache__/a.pyc", "node_modules/left/index.js", ".venv/bin/pip", "out/app.js"):
            (b.workspace / cache).parent.mkdir(parents=True)
            (b.workspace / cache).write_text("made by a program")
        await b.turn("go on", resume=first.id)
        told = "Since this session was last at work, others did this to files: "
        what = "changed log.txt, notes.txt; new .gitignore, src; gone gone.txt."
        assert f"{told}{what}" in str(b.server.requests[-1].body)
        assert [event.text for event in b.seen(Noticed) if event.kind == "files"] == [told + what]
        line = CheckpointStore(b.home / "checkpoints").line(first.id)
        assert [step.kind for step in line.steps()] == ["command", "outside"]


@pytest.mark.thorough
async def test_a_session_that_goes_on_where_nothing_changed_hears_nothing(tmp_path: Path) -> None:
    replies = [say("hello"), call("write_file", path="ours.txt", content="x"), say("done"), say("again")]
    async with bench(tmp_path, by_step(replies)) as b:
        (b.workspace / "notes.txt").write_text("one")
        async with b.engine() as engine:
            await engine.run("hello")
            await engine.run("go")
            await engine.history.undo()
        await b.turn("go on", resume_last=True)
        assert not [event for event in b.seen(Noticed) if event.kind == "files"]


@pytest.mark.thorough
async def test_a_session_that_is_resumed_hears_of_a_patch_that_was_cut_off(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("done"), say("heard")])) as b:
        for name in ("a.txt", "b.txt"):
            (b.workspace / name).write_text("one\n")
        await b.turn("go")
        async with await Store.open(b.home / "state.db") as store:
            (session,) = await store.list_sessions()
        edits = b.home / "edits"
        effects = [
            Write(path, b"two\n", OnDisk(path.lstat(), path.read_bytes()))
            for path in (b.workspace / "a.txt", b.workspace / "b.txt")
        ]
        with written_down(edits, effects, session.id, b.workspace):
            (journal,) = edits.glob("*.json")
            data = journal.read_bytes()
        (b.workspace / "a.txt").write_text("two\n")
        journal.write_bytes(data)
        await b.turn("something new")
        assert (b.workspace / "b.txt").read_text() == "two\n"
        text = "A patch was cut off; it is finished now: a.txt, b.txt."
        assert [event.text for event in b.seen(Noticed) if event.kind == "recovery"] == [text]
        await b.turn("go on", resume=session.id)
        assert f"[{text}]" in str(b.server.requests[-1].body)
        assert not list(edits.iterdir())
