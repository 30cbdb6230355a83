"""A session with a person notices what changes in the workspace, and whose work it was."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError
from agent.events import Event, FilesChanged, Noticed
from agent.session.conversation.stored_events import stored_events
from agent.workspace import change_reporter
from agent.workspace.changes import ProjectChanges
from agent.workspace.project_tree import ProjectTree
from agent.workspace.watcher import Watcher
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, by_step, call, say
from tests.support.team import UNASKED, by_task, report
from tools.registry import registry


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> list[Watcher]:
    """The watchers that are made, in order; what is changed before one is ready is not news to it."""
    made: list[Watcher] = []

    class Kept(Watcher):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            made.append(self)

    monkeypatch.setattr(change_reporter, "Watcher", Kept)
    return made


async def soon(b: Bench, kind: type[Event], count: int = 1) -> None:
    """Wait until so many events of a kind were seen."""
    while len(b.seen(kind)) < count:
        await asyncio.sleep(0.05)


async def test_the_agents_own_work_is_put_down_to_its_call(tmp_path: Path, watchers: list[Watcher]) -> None:
    script = by_step([call("write_file", path="made.txt", content="one\ntwo\n"), say("done")])
    async with bench(tmp_path, script) as b, b.engine(attended=True) as engine:
        await watchers[0].ready()
        await engine.run("go")
        await soon(b, FilesChanged)
        (change,) = b.seen(FilesChanged)
        assert (change.by, change.call != "") == ("agent", True)
        assert [(file.path, file.kind) for file in change.files] == [("made.txt", "added")]
        assert not [event for event in b.seen(Noticed) if event.kind == "files"]


async def test_what_an_agent_does_beside_another_is_put_down_to_it_and_counted_once(
    tmp_path: Path, watchers: list[Watcher]
) -> None:
    async with bench(tmp_path, ()) as b:
        over = b.workspace / "node_modules"  # which nobody watches

        def written(_request: Any) -> Reply:
            over.mkdir()
            return say(report())

        wait = "until [ -e node_modules ]; do sleep 0.05; done; echo x > seen.txt"
        b.server.script = by_task(
            {
                "main": [call("delegate_task", tasks=[{"goal": "wait"}, {"goal": "write"}]), say("Over.")],
                "wait": [call("terminal", command=wait), say(report())],
                "write": [call("write_file", path="made.txt", content="one\n"), written],
            }
        )
        b.config(UNASKED)
        async with b.engine(attended=True) as engine:
            await watchers[0].ready()
            await engine.run("go")
            await watchers[0].catch_up()
    assert not [event for event in b.seen(Noticed) if event.kind == "files"]
    assert {event.by for event in b.seen(FilesChanged)} == {"agent"}
    whose = [(event.agent, file.path) for event in b.seen(FilesChanged) for file in event.files]
    assert sorted(whose) == [("agent-1", "seen.txt"), ("agent-2", "made.txt")]


async def test_an_edit_of_the_person_is_a_notice_before_the_next_message_and_a_note_with_it(
    tmp_path: Path, watchers: list[Watcher]
) -> None:
    async with bench(tmp_path, by_step([say("hello"), say("I see")])) as b:
        (b.workspace / "notes.txt").write_text("one\n")
        async with b.engine(attended=True) as engine:
            await engine.run("hi")
            await watchers[0].ready()
            (b.workspace / "notes.txt").write_text("one\ntwo\n")
            await engine.run("look")
            path = await engine.whole_path()
        said = [getattr(event, "text", "") for event in b.events if event.type in ("user_message", "notice")]
        assert said == ["hi", sentence := "You changed notes.txt (+1 −0)", "look"]
        replayed = [event for event in stored_events(path, registry) if isinstance(event, Noticed)]
        assert [(event.kind, event.text) for event in replayed] == [("files", sentence)]
        told = [message["content"] for message in b.server.requests[-1].messages if message["role"] == "user"]
        assert any("+two" in text for text in told)
        assert not b.server.refusals


async def test_a_flood_of_changes_names_some_files_and_counts_the_rest(
    tmp_path: Path, watchers: list[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_reporter, "MAX_TOLD", 30)
    async with bench(tmp_path, by_step([say("hello")])) as b, b.engine(attended=True):
        await watchers[0].ready()
        for number in range(100):
            (b.workspace / f"{number:03}.txt").write_text(f"{number}\n")
        while sum(len(each.files) + each.more for each in b.seen(FilesChanged)) < 100:
            await asyncio.sleep(0.05)
        told = b.seen(FilesChanged)
        assert sum(len(each.files) + each.more for each in told) == 100
        assert all(len(each.files) == 30 if each.more else len(each.files) <= 30 for each in told)
        assert any(each.more for each in told)


def test_both_names_of_a_renamed_file_count() -> None:
    moved = tuple((f"old/{number}", f"new/{number}") for number in range(change_reporter.MAX_TOLD))
    event = change_reporter.changes_event(ProjectChanges(modified=("a",), renamed=moved), "others")
    assert len(event.files) == change_reporter.MAX_TOLD
    assert event.more == change_reporter.MAX_TOLD + 1
    assert event.files[0].path == "a" and event.files[1].path == "new/0"


async def test_the_watcher_can_be_turned_off_and_on_for_a_session_and_says_so(
    tmp_path: Path, watchers: list[Watcher]
) -> None:
    async with bench(tmp_path, by_step([say("hello")])) as b, b.engine(attended=True) as engine:
        await watchers[0].ready()
        assert engine.watches
        await engine.watch(False)
        (b.workspace / "unseen.txt").write_text("one\n")
        assert not engine.watches
        await engine.watch(True)
        (b.workspace / "seen.txt").write_text("one\n")
        await soon(b, FilesChanged)
        assert [file.path for file in b.seen(FilesChanged)[0].files] == ["seen.txt"]
        told = [event.text for event in b.seen(Noticed) if event.kind == "info"]
        assert [("unnoticed" in text) for text in told[-2:]] == [True, False]


@pytest.mark.thorough
async def test_files_that_are_taken_back_are_not_put_down_to_the_person(
    tmp_path: Path, watchers: list[Watcher]
) -> None:
    script = by_step([call("write_file", path="made.txt", content="one\n"), say("done")])
    async with bench(tmp_path, script) as b, b.engine(attended=True) as engine:
        await watchers[0].ready()
        await engine.run("go")
        await engine.history.undo()
        await engine.history.redo()
        await watchers[0].catch_up()
        told = [(change.by, change.call != "", change.files[0].kind) for change in b.seen(FilesChanged)]
        assert told == [("agent", True, "added"), ("agent", False, "removed"), ("agent", False, "added")]
        assert not [event for event in b.seen(Noticed) if event.kind == "files"]


@pytest.mark.thorough
async def test_what_a_call_changes_while_the_project_is_still_read_is_not_put_down_to_the_person(
    tmp_path: Path, watchers: list[Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    survey, seen, go = ProjectTree.survey, threading.Event(), threading.Event()

    def slow(tree: ProjectTree) -> None:
        survey(tree)
        seen.set()
        go.wait(60)

    monkeypatch.setattr(ProjectTree, "survey", slow)
    script = by_step([call("write_file", path="made.txt", content="one\n"), say("done")])
    async with bench(tmp_path, script) as b:
        (b.workspace / "made.txt").write_text("before\n")
        async with b.engine(attended=True) as engine:
            await asyncio.to_thread(seen.wait)
            await engine.run("go")
            go.set()
            await watchers[0].ready()
            (b.workspace / "mine.txt").write_text("one\n")
            await soon(b, FilesChanged)
            (change,) = b.seen(FilesChanged)
            assert [file.path for file in change.files] == ["mine.txt"]


async def test_a_watcher_that_is_not_wanted_rests_until_it_is_asked_for(
    tmp_path: Path, watchers: list[Watcher]
) -> None:
    async with bench(tmp_path, by_step([say("hello")])) as b:
        b.home.mkdir(exist_ok=True)
        (b.home / "config.yaml").write_text("watcher: {enabled: false}\n")
        async with b.engine(attended=True) as engine:
            (b.workspace / "unseen.txt").write_text("one\n")
            assert not engine.watches
            await engine.watch(True)
            await watchers[0].ready()
            (b.workspace / "seen.txt").write_text("one\n")
            await soon(b, FilesChanged)
            assert [file.path for file in b.seen(FilesChanged)[0].files] == ["seen.txt"]


async def test_a_session_nobody_attends_has_no_watcher_to_turn_on(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("hello")])) as b, b.engine() as engine:
        with pytest.raises(HermesError, match="only where a person works"):
            await engine.watch(True)
