"""Whole turns against a strict model server: what a person would see happen."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    ApprovalAsked,
    AssistantMessageAdded,
    Decision,
    Event,
    Noticed,
    PrefixBroken,
    QuestionAsked,
    QueueChanged,
    ReplyCut,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UsageChanged,
    UserMessageAdded,
)
from agent.knowledge.context.message_history import conversation
from agent.session.engine import Engine
from tests.support.engines import Bench, bench
from tests.support.faults import FAULTS
from tests.support.replies import Call, Reply, by_step, call, calls, say
from tools.context import PersonAnswer


def conversation_of(bench_: Bench, request: int = -1) -> list[str]:
    """Roles of a request, shortened: `suatut…`."""
    return "".join(message["role"][0] for message in bench_.server.requests[request].messages)  # type: ignore[return-value]


def until(engine: Engine, kind: type[Event]) -> asyncio.Future[Any]:
    """The next event of a kind."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def listen(event: Event) -> None:
        if isinstance(event, kind) and not found.done():
            found.set_result(event)

    engine.stream.subscribe(listen)
    return found


async def test_an_answer_is_streamed_stored_and_counted(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("Hello there, friend.", reasoning="greet")])) as b:
        ended = await b.turn("hi")
        assert (ended.outcome, ended.text, ended.exit_code) == ("done", "Hello there, friend.", 0)
        assert "".join(event.text for event in b.seen(TextAdded)) == "Hello there, friend."
        assert b.seen(AssistantMessageAdded)[0].reasoning == "greet"
        assert b.seen(UsageChanged)[0].session_output > 0
        assert not b.server.refusals


@pytest.mark.thorough
async def test_the_next_turn_extends_the_request_byte_for_byte(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("one"), call("todo_read"), say("two"), say("three")])) as b:
        async with b.engine() as engine:
            await engine.run("first")
            await engine.run("second")
        async with b.engine(resume_last=True) as engine:
            await engine.run("third")
        bodies = [request.body["messages"] for request in b.server.requests]
        for earlier, later in itertools.pairwise(bodies):
            assert json.dumps(later[: len(earlier)]) == json.dumps(earlier)
        assert len({json.dumps(request.body["tools"]) for request in b.server.requests}) == 1
        assert not b.seen(PrefixBroken)


@pytest.mark.thorough
async def test_read_only_calls_run_side_by_side_and_answer_in_order(tmp_path: Path) -> None:
    wanted = [("read_file", {"path": f"f{number}.txt"}) for number in range(6)]
    async with bench(tmp_path, by_step([calls(*wanted), say("read")])) as b:
        for number in range(6):
            (b.workspace / f"f{number}.txt").write_text(f"content {number}\n")
        assert (await b.turn("read all")).outcome == "done"
        kinds = [type(event) for event in b.events if isinstance(event, (ToolStarted, ToolFinished))]
        assert kinds[:2] == [ToolStarted, ToolStarted]
        results = [
            message["content"] for message in b.server.requests[-1].messages if message["role"] == "tool"
        ]
        assert [f"content {number}" in result for number, result in enumerate(results)] == [True] * 6


async def test_without_a_person_the_gate_says_no_and_the_turn_ends_as_denied(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="touch x"), say("I may not.")])) as b:
        ended = await b.turn("do it", approve="careful")
        assert (ended.outcome, ended.exit_code) == ("denied", 4)
        assert not (b.workspace / "x").exists()
        assert b.seen(ToolFinished)[0].outcome == "denied"


@pytest.mark.thorough
async def test_a_denied_call_followed_by_a_successful_one_is_no_denied_turn(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="cat a"), call("read_file", path="a"), say("It says A.")])
    async with bench(tmp_path, script) as b:
        (b.workspace / "a").write_text("A\n")
        assert (await b.turn("what is in a?", approve="ask")).outcome == "done"


@pytest.mark.thorough
async def test_a_person_can_allow_deny_with_a_reason_and_answer(tmp_path: Path) -> None:
    script = by_step(
        [
            call("terminal", command="echo one > one"),
            call("terminal", command="echo two > two"),
            call("clarify", question="Which?", choices=["a", "b"]),
            say("done"),
        ]
    )
    decisions = iter([Decision("once"), Decision("deny", "not now")])
    async with bench(tmp_path, script) as b, b.engine(approve="careful", attended=True) as engine:

        def answer(event: Event) -> None:
            if isinstance(event, ApprovalAsked):
                event.reply.set_result(next(decisions))
            elif isinstance(event, QuestionAsked):
                event.reply.set_result(PersonAnswer("answered", "b"))

        engine.stream.subscribe(answer)
        await engine.run("go")
        assert (b.workspace / "one").exists()
        assert not (b.workspace / "two").exists()
        results = [event.result for event in b.seen(ToolFinished)]
        assert "not now" in results[1]
        assert json.loads(results[2])["outcome"] == "answered"


@pytest.mark.thorough
async def test_an_interrupt_kills_the_command_and_the_session_goes_on(tmp_path: Path) -> None:
    script = by_step(
        [calls(("terminal", {"command": "echo started; sleep 300"}), ("todo_read", {})), say("Fine.")]
    )
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            running = asyncio.create_task(engine.run("wait"))
            await until(engine, ToolStarted)
            await asyncio.sleep(0.3)
            engine.interrupt()
            ended = await running
            assert (ended.outcome, ended.exit_code) == ("interrupted", 130)
            begun, waiting = b.seen(ToolFinished)
            assert (begun.outcome, waiting.outcome) == ("interrupted", "interrupted")
            assert begun.seconds > 0 and waiting.seconds == 0
            assert (await engine.run("go on")).text == "Fine."
        assert conversation_of(b) == "suattu"
        assert not b.server.refusals


async def test_an_interrupt_while_the_model_writes_keeps_what_was_written(tmp_path: Path) -> None:
    script = by_step([say("word " * 400, pace=0.01), say("Fine.")])
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            running = asyncio.create_task(engine.run("talk"))
            await until(engine, TextAdded)
            engine.interrupt()
            assert (await running).outcome == "interrupted"
            await engine.run("go on")
        texts = [message["content"] for message in b.server.requests[-1].messages]
        assert texts[2].startswith("word")
        assert "interrupted" in texts[2]


async def test_an_interrupt_at_once_still_keeps_the_message(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("x")])) as b:
        async with b.engine() as engine:
            engine.submit("remember me")
            engine.interrupt()
            await engine.idle()
            assert engine.session.last_user_text() == "remember me"
        assert b.seen(TurnEnded)[-1].outcome == "interrupted"
        kinds = [type(event) for event in b.events if isinstance(event, (UserMessageAdded, TurnEnded))]
        assert kinds == [UserMessageAdded, TurnEnded]


async def test_an_interrupt_resolves_a_pending_question_as_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("clarify", question="Which?"), say("x")])) as b:
        async with b.engine(attended=True) as engine:
            running = asyncio.create_task(engine.run("ask me"))
            question = await until(engine, QuestionAsked)
            engine.interrupt()
            assert (await running).outcome == "interrupted"
            assert question.reply.result().outcome == "cancelled"
            assert engine.pending_requests.pending() == ()


@pytest.mark.thorough
async def test_steering_is_read_before_the_next_request_and_the_queue_after_the_turn(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="sleep 0.3"), say("one"), say("two")])
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            engine.submit("start")
            await until(engine, ToolStarted)
            engine.submit("later")
            assert engine.queue == ("later",)
            engine.steer("and mind this")
            await engine.idle()
        assert conversation_of(b, 1) == "suatu"
        assert b.server.requests[1].messages[-1]["content"] == "and mind this"
        assert [event.origin for event in b.seen(UserMessageAdded)] == ["prompt", "steer", "queue"]
        assert [event.text for event in b.seen(TurnEnded)] == ["one", "two"]


async def test_a_message_that_is_run_begins_after_what_was_queued_in_the_turn_before(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("one"), say("two"), say("three")])) as b:
        async with b.engine() as engine:
            first = asyncio.ensure_future(engine.run("first"))
            await until(engine, UserMessageAdded)
            engine.submit("queued")
            await first
            assert (await engine.run("last")).text == "three"
        kinds = [node.kind for node in engine.path if node.kind in ("user", "assistant")]
        assert kinds == ["user", "assistant"] * 3
        assert [event.text for event in b.seen(UserMessageAdded)] == ["first", "queued", "last"]


async def test_a_message_that_is_stopped_while_it_waits_never_begins(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="sleep 60"), say("third")])
    async with bench(tmp_path, script) as b, b.engine() as engine:
        engine.submit("first")
        await until(engine, ToolStarted)
        waiting = [asyncio.ensure_future(engine.run(text)) for text in ("second", "and more")]
        await asyncio.sleep(0)
        engine.interrupt()
        ended = await asyncio.gather(*waiting)
        assert {(each.outcome, each.exit_code) for each in ended} == {("interrupted", 130)}
        assert not engine.busy
        assert (await engine.run("third")).text == "third"
        assert [event.text for event in b.seen(UserMessageAdded)] == ["first", "third"]


async def test_a_wait_that_is_cancelled_leaves_the_turn_before_alone(tmp_path: Path) -> None:
    script = by_step([call("clarify", question="Which?"), say("Heard."), say("third")])
    async with bench(tmp_path, script) as b, b.engine(attended=True) as engine:
        asked = until(engine, QuestionAsked)
        first = asyncio.ensure_future(engine.run("first"))
        question = await asked
        waiting = asyncio.ensure_future(engine.run("second"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        question.reply.set_result(PersonAnswer("answered", "a"))
        assert (await first).text == "Heard."
        assert (await engine.run("third")).text == "third"
        assert [event.text for event in b.seen(UserMessageAdded)] == ["first", "third"]


async def test_an_interrupt_leaves_the_queue_alone(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="sleep 60"), say("x")])) as b:
        async with b.engine() as engine:
            engine.submit("start")
            await until(engine, ToolStarted)
            engine.submit("later")
            engine.interrupt()
            await engine.idle()
            assert engine.queue == ("later",)
            assert not engine.busy


@pytest.mark.thorough
async def test_what_cannot_be_stored_waits_in_the_queue_until_it_can(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda request: say("Heard.")) as b:
        async with b.engine() as engine:
            await engine.run("first")
            store, aside = b.home / "state.db", b.home / "aside.db"
            store.rename(aside)
            engine.submit("this must not be lost")
            engine.submit("nor this")
            await engine.idle()
            assert engine.queue == ("this must not be lost", "nor this")
            assert b.seen(TurnEnded)[-1].outcome == "failed"
            aside.rename(store)
            engine.submit("again")
            await engine.idle()
            assert engine.queue == ()
        told = [event.text for event in b.seen(UserMessageAdded)]
        assert told == ["first", "again", "this must not be lost", "nor this"]


async def test_steering_that_cannot_be_stored_waits_in_the_queue(tmp_path: Path) -> None:
    script = by_step([call("clarify", question="Which?"), say("Heard.")])
    async with bench(tmp_path, script) as b:
        async with b.engine(attended=True) as engine:
            asked = until(engine, QuestionAsked)
            engine.submit("first")
            question = await asked
            engine.steer("mind this")
            engine.steer("and that")
            store, aside = b.home / "state.db", b.home / "aside.db"

            def vanish(event: Event) -> None:
                if isinstance(event, ToolFinished):
                    store.rename(aside)

            engine.stream.subscribe(vanish)
            question.reply.set_result(PersonAnswer("answered", "a"))
            await engine.idle()
            assert engine.queue == ("mind this", "and that")
            aside.rename(store)


async def test_steering_shows_until_it_is_read_and_waits_in_the_queue_if_it_never_is(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="sleep 60"), say("x")])) as b:
        async with b.engine() as engine:
            engine.submit("start")
            await until(engine, ToolStarted)
            engine.submit("later")
            engine.steer("mind this")
            engine.steer("and that")
            engine.interrupt()
            await engine.idle()
            assert engine.queue == ("mind this", "and that", "later")
        changes = [(event.queued, event.steering) for event in b.seen(QueueChanged)]
        assert (("later",), ("mind this", "and that")) in changes
        assert changes[-1] == (("mind this", "and that", "later"), ())


async def test_an_answer_that_hit_the_output_limit_is_continued(tmp_path: Path) -> None:
    script = by_step([say("The answer is ", finish="length"), say("forty-two.")])
    async with bench(tmp_path, script) as b:
        assert (await b.turn("?")).text == "The answer is forty-two."
        assert not b.server.refusals


async def test_an_empty_reply_is_nudged(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("ready"), say("")])) as b:
        b.server.script = [say(""), say("Here I am.")]
        assert (await b.turn("?")).text == "Here I am."
        assert not b.server.refusals


async def test_a_call_whose_arguments_were_cut_off_is_not_run(tmp_path: Path) -> None:
    cut = Reply(calls=(Call("write_file", '{"path": "x", "content": "half of'),), finish="length")
    async with bench(tmp_path, by_step([cut, say("I see.")])) as b:
        assert (await b.turn("write")).outcome == "done"
        assert not (b.workspace / "x").exists()
        assert "cut off" in b.seen(ToolFinished)[0].result
        assert not b.server.refusals


async def test_the_iteration_limit_ends_the_turn_with_a_summary(tmp_path: Path) -> None:
    script = by_step([call("todo_read"), call("search", pattern="x"), say("Not finished yet.")])
    async with bench(tmp_path, script) as b:
        ended = await b.turn("work", max_steps=2)
        assert (ended.outcome, ended.text) == ("budget", "Not finished yet.")
        assert ended.exit_code == 1


async def test_an_unknown_tool_is_answered_with_the_tools_on_offer(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("launch_rockets", target="moon"), say("ok")])) as b:
        assert (await b.turn("go")).outcome == "done"
        assert "read_file" in b.seen(ToolFinished)[0].result


@pytest.mark.thorough
async def test_the_task_list_is_shown_and_comes_back_with_the_session(tmp_path: Path) -> None:
    todos = [{"id": "1", "content": "look", "status": "in_progress"}]
    async with bench(tmp_path, by_step([call("todo_write", todos=todos), say("ok"), say("still")])) as b:
        await b.turn("plan")
        b.events.clear()
        await b.turn("and?", resume_last=True)
        assert b.seen(TodosChanged)[0].items[0].content == "look"


@pytest.mark.thorough
async def test_a_full_window_masks_old_results_at_one_declared_break(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        number = sum(message["role"] == "tool" for message in request.messages)
        return say("done") if number >= 12 else call("terminal", command=f"seq {number}000 {number}900")

    async with bench(tmp_path, script) as b:
        address = b.server.base_url
        b.config(
            f"providers: {{p: {{base_url: '{address}', models: {{scripted: {{context_window: 20000}}}}}}}}\n"
        )
        ended = await b.turn("count", model="p/scripted")
        assert ended.outcome == "done"
        breaks = b.seen(PrefixBroken)
        assert breaks
        assert all(each.declared for each in breaks)
        assert len(breaks) <= 4
        assert any(event.kind == "compaction" for event in b.seen(Noticed))
        assert not b.server.refusals


@pytest.mark.thorough
async def test_what_left_memory_is_in_the_store_and_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.core.store.stored_path.NEWEST", 5)

    def script(request: Any) -> Reply:
        number = sum(message["role"] == "tool" for message in request.messages)
        return say("done") if number >= 12 else call("terminal", command=f"seq {number}000 {number}900")

    async with bench(tmp_path, script) as b:
        address = b.server.base_url
        b.config(
            f"providers: {{p: {{base_url: '{address}', models: {{scripted: {{context_window: 20000}}}}}}}}\n"
        )
        async with b.engine(model="p/scripted") as engine:
            assert await engine.session.whole_path() == tuple(engine.session.path)
            await engine.run("count")
            assert not engine.session.path.is_in_memory
            whole = await engine.session.whole_path()
            assert [node.id for node in engine.session.path] == [node.id for node in whole]
            assert all("900" in node.content for node in whole if node.kind == "tool")
            sent = list(engine.session.messages())
            assert sent == conversation(whole)


@pytest.mark.thorough
async def test_an_overflow_makes_room_and_tries_again(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        size, number = len(request.raw), len(b.server.requests)
        if size > 55_000:
            return FAULTS["overflow_openai"](say(""))
        return (
            say("done") if number >= 9 else call("terminal", command=f"seq {number}000 {number}999; seq 2000")
        )

    async with bench(tmp_path, script) as b:
        ended = await b.turn("count")
        assert (ended.outcome, ended.error) == ("done", "")
        assert b.seen(PrefixBroken)


async def test_a_cut_reply_is_kept_marked_and_fetched_again(tmp_path: Path) -> None:
    cut = say("This is only the beginning of", cut_at=-700)
    script = [cut, say("The whole answer.")]
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            ended = await engine.run("?")
            kept = [node.content for node in engine.session.path if node.data.get("kind") == "cut"]
        assert ended.text == "The whole answer."
        assert b.seen(ReplyCut)
        assert kept
        assert kept[0].startswith("This is")


async def test_the_fallback_model_answers_when_the_first_cannot(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        return say("I can.") if request.body["model"] == "second" else Reply(status=401, body=b"{}")

    async with bench(tmp_path, script) as b:
        b.config("model: {fallbacks: [second]}\n")
        assert (await b.turn("?")).text == "I can."


async def test_a_model_that_cannot_be_reached_ends_the_turn_with_a_sentence_and_code_3(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, []) as b:
        b.config("model: {retries: 0}\n")
        ended = await b.turn("?")
        assert (ended.outcome, ended.exit_code) == ("failed", 3)
        assert ended.error


@pytest.mark.thorough
async def test_a_session_open_elsewhere_goes_on_as_a_branch(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("one"), say("two"), say("three")])) as b:
        async with b.engine() as first:
            await first.run("first")
            async with b.engine(resume_last=True) as second:
                await second.run("in the second window")
                assert second.session.head != "main"
            assert (await first.run("in the first window")).outcome == "done"
            texts = [node.content for node in first.session.path if node.kind == "user"]
        assert texts == ["first", "in the first window"]


@pytest.mark.thorough
async def test_a_result_too_large_for_the_conversation_is_kept_as_a_file(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("search", pattern="needle", limit=2000), say("ok")])) as b:
        (b.workspace / "big.txt").write_text("needle " + "x" * 300 + "\n")
        text = "".join(f"needle {number} {'y' * 180}\n" for number in range(1500))
        (b.workspace / "more.txt").write_text(text)
        await b.turn("find")
        result = json.loads(b.seen(ToolFinished)[0].result)
        assert len(b.seen(ToolFinished)[0].result) <= 100_000
        if "full_result" in result:
            assert Path(result["full_result"]).stat().st_mode & 0o077 == 0


@pytest.mark.thorough
async def test_the_end_of_a_background_process_is_shown_at_once_and_told_with_the_next_request(
    tmp_path: Path,
) -> None:
    start = call("terminal", command="sleep 0.2; echo finished", background=True, notify_on_complete=True)
    async with bench(tmp_path, by_step([start, say("Started."), say("I see.")])) as b:
        async with b.engine() as engine:
            await engine.run("start it")
            await until(engine, Noticed)
            assert engine.busy is False
            await engine.run("and?")
        assert any("proc_" in event.text for event in b.seen(Noticed))
        told = [message["content"] for message in b.server.requests[-1].messages if message["role"] == "user"]
        assert any("proc_" in text for text in told)


async def test_the_chosen_personality_is_in_the_prompt_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("Arr."), say("ok")])) as b:
        b.config("display: {personality: pirate}\n")
        await b.turn("hi")
        assert "# Tone" in b.server.requests[0].messages[0]["content"]
        b.config("display: {personality: pirat}\n")
        await b.turn("hi")
        assert any("personality" in event.text for event in b.seen(Noticed))
        assert "# Tone" not in b.server.requests[1].messages[0]["content"]


@pytest.mark.thorough
async def test_a_fault_of_ours_ends_the_call_and_not_the_turn(tmp_path: Path, monkeypatch: Any) -> None:
    script = by_step(
        [calls(("write_file", {"path": "a", "content": "x"}), ("todo_read", {})), say("On."), say("On.")]
    )

    async def broken(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    async with bench(tmp_path, script) as b, b.engine() as engine:
        with monkeypatch.context() as patch:
            patch.setattr("agent.session.turns.call_runner.call_tool", broken)
            ended = await engine.run("write it")
        assert (ended.outcome, ended.text) == ("done", "On.")
        done = b.seen(ToolFinished)
        assert [each.outcome for each in done] == ["failed", "failed"]
        assert "its effects may be partial (OSError: [Errno 28] No space left" in done[0].result
        assert (await engine.run("go on")).text == "On."
