"""Back and forth in a session: conversation and files together, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError
from agent.events import BranchSwitched, PrefixBroken, TurnEnded
from agent.session.engine import Engine
from tests.support.engines import Bench, bench
from tests.support.replies import call, say


class Engineer:
    """A model that writes what it is told: `write NAME TEXT`, `run COMMAND`, or anything else to talk."""

    def __call__(self, request: Any) -> Any:
        last = request.messages[-1]
        if last["role"] == "tool":
            return say("done")
        words = str(last["content"]).split(" ", 2)
        if words[0] == "write":
            return call("write_file", path=words[1], content=words[2])
        if words[0] == "run":
            return call("terminal", command=" ".join(words[1:]))
        return say("yes")


@asynccontextmanager
async def working(folder: Path, *texts: str) -> AsyncIterator[tuple[Bench, Engine]]:
    """An engine that has worked on these messages."""
    async with bench(folder, Engineer()) as b, b.engine() as engine:
        for text in texts:
            assert (await engine.run(text)).outcome == "done"
        yield b, engine


def files(b: Bench) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(b.workspace.iterdir())}


def said(engine: Engine) -> list[str]:
    return [node.content for node in engine.session.path if node.kind == "user"]


def asked(engine: Engine, text: str) -> int:
    """The node of a message of the person."""
    return next(node.id for node in engine.session.path if node.kind == "user" and node.content == text)


async def test_the_tree_names_calls_by_what_they_do_and_notes_as_a_person_reads_them(tmp_path: Path) -> None:
    async with working(tmp_path, "run touch a", "write b.txt hello") as (_, engine):
        await engine.session.add("notice", "[You have one more request.]", {"kind": "info"})
        await engine.session.add("notice", "[x]", {"kind": "info", "shown": "One request is left."})
        rows = await engine.history.outline()
        assert [row.tool for row in rows if row.kind == "tool"] == ["run touch a", "write b.txt"]
        notes = [row.text for row in rows if row.kind == "notice"]
        assert notes[-2:] == ["Told the model: You have one more request.", "One request is left."]


async def test_a_long_message_that_is_undone_is_named_by_its_beginning(tmp_path: Path) -> None:
    message = "say what " + "stands here " * 20
    async with working(tmp_path, message) as (_, engine):
        operation, went = await engine.history.undo()
        assert (len(operation.label), operation.label[-1], went.draft) == (80, "…", message)


async def test_a_message_that_is_sent_during_a_move_goes_on_from_where_that_leads(tmp_path: Path) -> None:
    async with working(tmp_path, "hello", "run touch a") as (b, engine):
        move = asyncio.create_task(engine.history.rewind(asked(engine, "run touch a")))
        while not engine.history._going.locked():
            await asyncio.sleep(0)
        engine.submit("write b two")
        await asyncio.gather(move, engine.add_note("Process 1 ended."), engine.set_effort("high"))
        await engine.idle()
        notes = [node.content for node in engine.session.path if node.kind == "notice"]
        assert "Process 1 ended." in notes and any("high" in each for each in notes)
        assert (engine.session.head, said(engine)) == ("main-2", ["hello", "write b two"])
        assert files(b) == {"b": "two"}
        assert (await engine.history.undo())[0].label == "write b two"
        assert files(b) == {}


@pytest.mark.thorough
async def test_a_rewind_takes_back_conversation_and_files_and_gives_the_message_back(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write a two", "run echo x >b") as (b, engine):
        went = await engine.history.rewind(asked(engine, "write a two"))
        assert (files(b), said(engine), went.draft) == ({"a": "one"}, ["write a one"], "write a two")
        assert engine.session.head == "main-2"
        switched = b.seen(BranchSwitched)[-1]
        assert (switched.head, switched.reason, switched.draft) == ("main-2", "rewind", "write a two")
        assert (await engine.run("write a other")).outcome == "done"
        assert (files(b), said(engine)) == ({"a": "other"}, ["write a one", "write a other"])
        assert [broken.declared for broken in b.seen(PrefixBroken)] == [True]
        await engine.history.switch("main")
        assert files(b) == {"a": "two", "b": "x\n"}
        assert said(engine) == ["write a one", "write a two", "run echo x >b"]
        await engine.history.switch("main-2")
        assert (files(b), said(engine)) == ({"a": "other"}, ["write a one", "write a other"])


@pytest.mark.thorough
async def test_files_alone_are_taken_back_and_the_model_hears_of_it(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write a two") as (b, engine):
        await engine.history.rewind(asked(engine, "write a two"), conversation=False)
        assert (files(b), said(engine)) == ({"a": "one"}, ["write a one", "write a two"])
        await engine.run("hello")
        assert "took files back" in str(b.server.requests[-1].messages)


@pytest.mark.thorough
async def test_the_conversation_alone_is_taken_back(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write a two") as (b, engine):
        await engine.history.rewind(asked(engine, "write a two"), files=False)
        assert (files(b), said(engine)) == ({"a": "two"}, ["write a one"])


@pytest.mark.thorough
async def test_turns_are_undone_one_by_one_and_done_again(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write b two", "run rm a") as (b, engine):
        states = [{}, {"a": "one"}, {"a": "one", "b": "two"}, {"b": "two"}]
        for count in (2, 1, 0):
            operation, went = await engine.history.undo()
            assert operation.kind == "turn"
            assert files(b) == states[count]
            assert went.draft == ["write a one", "write b two", "run rm a"][count]
            assert len(said(engine)) == count
        with pytest.raises(HermesError, match="nothing to undo"):
            await engine.history.undo()
        for count in (1, 2, 3):
            await engine.history.redo()
            assert files(b) == states[count]
            assert len(said(engine)) == count
        with pytest.raises(HermesError, match="nothing to redo"):
            await engine.history.redo()
        assert [head.name for head in await engine.history.heads()] == ["main"]


async def test_the_first_turn_is_not_told_as_nothing_while_it_runs(tmp_path: Path) -> None:
    async with working(tmp_path) as (b, engine):
        with pytest.raises(HermesError, match="nothing to undo"):
            await engine.history.undo()
        turn = asyncio.create_task(engine.run("run touch at; while [ ! -e go ]; do sleep 0.05; done"))
        while not (b.workspace / "at").exists():
            await asyncio.sleep(0.02)
        with pytest.raises(HermesError, match="works at the moment"):
            await engine.history.undo()
        (b.workspace / "go").touch()
        await turn
        assert (await engine.history.undo())[0].kind == "turn"


@pytest.mark.thorough
async def test_every_journey_is_undone_like_a_turn(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write a two") as (b, engine):
        await engine.history.rewind(asked(engine, "write a two"))
        await engine.history.undo()
        assert (files(b), engine.session.head, len(said(engine))) == ({"a": "two"}, "main", 2)
        await engine.history.fork(asked(engine, "write a one"), "side", files=True)
        assert (files(b), engine.session.head) == ({}, "side")
        await engine.history.undo()
        assert (files(b), engine.session.head) == ({"a": "two"}, "main")
        await engine.history.restore(await engine.history.plan(1))
        assert files(b) == {"a": "one"}
        await engine.history.undo()
        assert (files(b), len(said(engine))) == ({"a": "two"}, 2)
        await engine.history.redo()
        assert files(b) == {"a": "one"}


@pytest.mark.thorough
async def test_what_the_person_wrote_since_stays_unless_they_choose_otherwise(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write a two") as (b, engine):
        (b.workspace / "a").write_text("mine")
        plan = await engine.history.plan(1)
        assert [(item.path, item.state) for item in plan.items] == [("a", "conflict")]
        await engine.history.undo()
        assert files(b) == {"a": "mine"}
        await engine.history.redo()
        await engine.history.undo({"a": "checkpoint"})
        assert files(b) == {"a": "one"}


@pytest.mark.thorough
async def test_what_the_person_wrote_between_commands_is_no_step_of_ours(tmp_path: Path) -> None:
    async with working(tmp_path, "run echo one >a") as (b, engine):
        (b.workspace / "theirs").write_text("x")
        await engine.run("run echo two >b")
        await engine.history.restore(await engine.history.plan(0))
        assert files(b) == {"theirs": "x"}


async def test_nothing_moves_while_the_agent_works(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one") as (b, engine):
        engine.submit("run sleep 30")
        while not any(node.content == "run sleep 30" for node in engine.session.path):
            await asyncio.sleep(0.01)
        with pytest.raises(HermesError, match="works at the moment"):
            await engine.history.undo()
        engine.interrupt()
        await engine.idle()
        assert files(b) == {"a": "one"}


@pytest.mark.parametrize("how", ["a message", "steering", "what waits"])
async def test_what_is_sent_right_after_the_end_of_a_stopped_turn_begins_the_next(
    tmp_path: Path, how: str
) -> None:
    async with working(tmp_path) as (b, engine):
        engine.submit("run sleep 30")
        while not any(node.content == "run sleep 30" for node in engine.session.path):
            await asyncio.sleep(0.01)
        engine.submit("write b left")
        engine.interrupt()
        while not b.seen(TurnEnded):
            await asyncio.sleep(0)
        assert engine.busy, "the turn is still made undoable"
        send = {
            "a message": engine.submit,
            "steering": engine.steer,
            "what waits": lambda _: engine.send_queue(),
        }
        send[how]("write a next")
        await engine.idle()
        wanted = ["write b left"] if how == "what waits" else ["write a next", "write b left"]
        assert said(engine) == ["run sleep 30", *wanted] and engine.queue == ()
        assert files(b) == {"b": "left"} | ({} if how == "what waits" else {"a": "next"})


@pytest.mark.thorough
async def test_a_branch_may_begin_with_a_note_of_the_one_it_leaves(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write b two") as (b, engine):
        await engine.history.fork(asked(engine, "write a one"), carry_over=True)
        await engine.run("hello")
        heard = str(b.server.requests[-1].messages)
        assert "Carried over from branch main" in heard
        assert "asked: write b two" in heard and "made b" in heard


@pytest.mark.thorough
async def test_a_note_tells_what_was_done_since_both_branches_parted(tmp_path: Path) -> None:
    async with working(tmp_path, "write a one", "write b two") as (_, engine):
        other = asked(engine, "write b two")
        end = engine.session.path[-1].id
        await engine.history.fork(asked(engine, "write a one"))
        await engine.run("write c three")
        went = await engine.history.fork(end, carry_over=True)
        assert went.note
        note = next(node for node in reversed(engine.session.path) if node.kind == "notice")
        assert "asked: write c three" in note.content and "made c" in note.content
        assert "write b two" not in note.content
        assert other in [node.id for node in engine.session.path]
        assert not (await engine.history.fork(engine.session.path[-1].id, carry_over=True)).note


@pytest.mark.thorough
async def test_a_resumed_session_goes_on_where_it_was_and_can_still_be_undone(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer()) as b:
        async with b.engine() as engine:
            await engine.run("write a one")
            await engine.run("write a two")
            await engine.history.rewind(asked(engine, "write a two"))
            session = engine.session.id
        async with b.engine(resume=session) as engine:
            assert (engine.session.head, said(engine)) == ("main-2", ["write a one"])
            await engine.history.undo()
            assert (files(b), engine.session.head) == ({"a": "two"}, "main")


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["nowhere", "main2"])
async def test_a_branch_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, target: str) -> None:
    async with working(tmp_path, "hello") as (_, engine):
        with pytest.raises(HermesError, match=f"no branch {target}; there are main"):
            await engine.history.switch(target)


async def test_only_a_message_of_the_person_can_be_taken_back(tmp_path: Path) -> None:
    async with working(tmp_path, "hello") as (_, engine):
        with pytest.raises(HermesError, match="message of yours"):
            await engine.history.rewind(engine.session.path[-1].id)


@pytest.mark.thorough
async def test_without_checkpoints_the_conversation_travels_and_files_stay(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer()) as b:
        b.config("checkpoints: {enabled: false}")
        async with b.engine() as engine:
            await engine.run("write a one")
            await engine.run("write a two")
            await engine.history.undo()
            assert (files(b), said(engine)) == ({"a": "two"}, ["write a one"])
            with pytest.raises(HermesError, match="not kept"):
                await engine.history.plan(0)


@asynccontextmanager
async def two_windows(folder: Path) -> AsyncIterator[tuple[Bench, Engine, Engine]]:
    """Two engines on one session after a message of each; the second one is on a branch of its own."""
    async with bench(folder, Engineer()) as b, b.engine() as first:
        await first.run("write a one")
        async with b.engine(resume=first.session.id) as second:
            await first.run("hello")
            await second.run("hello too")
            assert first.session.head == "main" != second.session.head
            yield b, first, second


@pytest.mark.thorough
async def test_a_window_undoes_and_does_again_what_it_did_itself(tmp_path: Path) -> None:
    async with two_windows(tmp_path) as (b, first, second):
        operation, went = await first.history.undo()
        assert (operation.label, went.draft) == ("hello", "hello")
        assert (said(first), said(second)) == (["write a one"], ["write a one", "hello too"])
        operation, went = await second.history.undo()
        assert (operation.label, went.draft) == ("hello too", "hello too")
        assert (await first.history.redo())[0].label == "hello"
        assert (await second.history.redo())[0].label == "hello too"
        assert (said(first)[-1], said(second)[-1], files(b)) == ("hello", "hello too", {"a": "one"})


@pytest.mark.thorough
async def test_files_that_another_window_changed_since_are_not_taken_back_unasked(tmp_path: Path) -> None:
    async with two_windows(tmp_path) as (b, first, second):
        await first.run("write a mine")
        await second.run("write a theirs")
        with pytest.raises(HermesError, match=f"branch {second.session.head} .write a theirs."):
            await first.history.undo()
        assert (files(b), said(first)[-1]) == ({"a": "theirs"}, "write a mine")
        assert (await second.history.undo())[0].label == "write a theirs"
        assert (await first.history.undo())[0].label == "write a mine"
        assert files(b) == {"a": "one"}
        await first.history.rewind(asked(first, "hello"))
        with pytest.raises(HermesError, match="There is nothing to redo"):
            await second.history.redo()


@pytest.mark.thorough
async def test_a_window_that_goes_on_alone_can_undo_what_it_shares_with_the_other(tmp_path: Path) -> None:
    async with two_windows(tmp_path) as (b, first, _):
        await first.history.undo()
        assert (await first.history.undo())[0].label == "write a one"
        assert (files(b), said(first)) == ({}, [])
