"""One message on several branches: apart from each other, and from the project until one is picked."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.store import Store
from agent.errors import HermesError, StoreError
from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Event,
    Noticed,
    QuestionAsked,
    ToolFinished,
)
from agent.workspace.checkpoints.meanwhile import finish_detached
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.engines import Bench, bench
from tests.support.replies import call, refuse, say
from tools.context import PersonAnswer

INTERNAL = "Internal error (RuntimeError: out of luck); the log has the details."


def attempt_of(request: Any) -> str:
    """Which copy a request comes from; empty for the session itself."""
    told = [str(message["content"]) for message in request.messages if "alone in a copy" in str(message)]
    return told[-1].split("/copies/")[1].split("/")[0] if told else ""


class Engineer:
    """A model that plays a part in each copy, in the order the copies first ask."""

    def __init__(self, *parts: Any) -> None:
        self._parts = list(parts)
        self._roles: dict[str, Any] = {}

    def __call__(self, request: Any) -> Any:
        copy = attempt_of(request)
        if not copy or "copy is gone" in str(request.messages):
            return say("yes")
        if copy not in self._roles:
            self._roles[copy] = self._parts[len(self._roles)]
        last = request.messages[-1]
        return say("done") if last["role"] == "tool" else self._roles[copy]


def files(b: Bench) -> dict[str, str]:
    found = (path for path in sorted(b.workspace.rglob("*")) if path.is_file())
    return {str(path.relative_to(b.workspace)): path.read_text() for path in found}


def copies(b: Bench) -> list[str]:
    folder = b.home / "copies"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def write(name: str, text: str) -> Any:
    return call("write_file", path=name, content=text)


@pytest.mark.thorough
async def test_three_attempts_work_apart_and_the_picked_one_is_undone_with_one_key(tmp_path: Path) -> None:
    parts = (
        write("a", "first"),
        call("terminal", command="echo second >a; mkdir sub; echo b >sub/b; rm old"),
        write("c", "third"),
    )
    async with bench(tmp_path, Engineer(*parts)) as b, b.engine() as engine:
        (b.workspace / "old").write_text("old")
        await engine.run("hello")
        begun = await engine.attempts.start("build it", 3)
        assert [attempt.head for attempt in begun] == ["attempt-1", "attempt-2", "attempt-3"]
        await engine.attempts.wait()
        assert [attempt.outcome for attempt in begun] == ["done"] * 3
        assert files(b) == {"old": "old"}
        assert copies(b) == []
        numbers: dict[tuple[str, ...], int] = {}
        for attempt in begun:
            changes = await engine.history.changes(0, attempt.position)
            numbers[tuple(change.path for change in changes if change.path != "old")] = attempt.number
        first, second = numbers[("a",)], numbers["a", "sub", "sub/b"]
        went = await engine.attempts.pick(second)
        assert (went.head, engine.session.head) == (f"attempt-{second}", f"attempt-{second}")
        assert files(b) == {"a": "second\n", "sub/b": "b\n"}
        said = [node.content for node in engine.session.path if node.kind == "user"]
        assert said == ["hello", "build it"]
        assert (await engine.run("go on")).outcome == "done"
        await engine.history.undo()
        await engine.history.undo()
        assert files(b) == {"old": "old"}
        assert engine.session.head == "main"
        await engine.attempts.pick(first)
        assert files(b) == {"a": "first", "old": "old"}
        await engine.history.switch("main")
        assert files(b) == {"old": "old"}
        started, ended = b.seen(AgentStarted), b.seen(AgentEnded)
        assert sorted(event.agent for event in ended) == [event.agent for event in started]
        assert all(event.calls == 1 and event.tokens for event in ended)
        assert any(event.action.startswith("write") for event in b.seen(AgentProgressed))
        assert all(event.display.detail is None for event in b.seen(ToolFinished) if event.agent != "main")


@pytest.mark.thorough
async def test_one_fails_and_one_is_stopped_and_the_third_is_not_disturbed(tmp_path: Path) -> None:
    slowly = call("terminal", command="echo half >half; sleep 300")
    parts = (write("a", "good"), slowly, refuse(400, "no such thing"))
    async with bench(tmp_path, Engineer(*parts)) as b, b.engine() as engine:
        begun = await engine.attempts.start("build it", 3)
        async with asyncio.timeout(60):
            while sum(attempt.running for attempt in begun) > 1:
                await asyncio.sleep(0.02)
            slow = next(attempt for attempt in begun if attempt.running)
            while not list(b.home.glob("copies/*/work/half")):
                await asyncio.sleep(0.02)
            assert await engine.attempts.stop(slow.number) == (slow,)
            await engine.attempts.wait()
        assert slow.outcome == "interrupted"
        assert sorted(attempt.outcome for attempt in begun) == ["done", "failed", "interrupted"]
        good = next(attempt for attempt in begun if attempt.outcome == "done")
        assert files(b) == {}
        await engine.attempts.pick(slow.number)
        assert files(b) == {"half": "half\n"}
        await engine.history.undo()
        assert files(b) == {}
        outcomes = {event.agent: event.outcome for event in b.seen(AgentEnded)}
        assert outcomes == {attempt.head: attempt.outcome for attempt in begun}
        await engine.attempts.pick(good.number)
        assert files(b) == {"a": "good"}


async def test_an_attempt_whose_model_fails_says_so_and_can_still_be_looked_at(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(refuse(400, "no such thing"))) as b, b.engine() as engine:
        (attempt,) = await engine.attempts.start("build it", 1, ["another"])
        await engine.attempts.wait()
        assert attempt.outcome == "failed"
        assert "no such thing" in attempt.text
        assert (files(b), copies(b)) == ({}, [])
        assert b.server.requests[-1].body["model"] == "another"
        (ended,) = b.seen(AgentEnded)
        assert (ended.outcome, ended.agent) == ("failed", "attempt-1")
        await engine.attempts.pick(1)
        assert engine.session.head == "attempt-1"


@pytest.mark.thorough
async def test_requests_of_a_attempt_are_counted(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(write("a", "x"))) as b, b.engine() as engine:
        (attempt,) = await engine.attempts.start("build it", 1, max_turns=1)
        await engine.attempts.wait()
        assert attempt.outcome == "budget"
        assert files(b) == {}
        await engine.attempts.pick(1)
        assert files(b) == {"a": "x"}


@pytest.mark.thorough
async def test_what_the_person_changed_meanwhile_is_a_conflict_when_a_attempt_is_picked(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, Engineer(write("a", "theirs"))) as b, b.engine() as engine:
        (b.workspace / "a").write_text("old")
        (attempt,) = await engine.attempts.start("build it", 1)
        (b.workspace / "a").write_text("mine")
        await engine.attempts.wait()
        (b.workspace / "a").write_text("mine again")
        plan = await engine.history.plan(attempt.position)
        assert [(item.path, item.state) for item in plan.items] == [("a", "conflict")]
        await engine.attempts.pick(1)
        assert files(b) == {"a": "mine again"}
        await engine.history.switch("main")
        assert files(b) == {"a": "mine again"}
        await engine.attempts.pick(1, {"a": "checkpoint"})
        assert files(b) == {"a": "theirs"}


async def test_a_question_of_a_attempt_names_it_and_esc_in_the_session_leaves_it_alone(
    tmp_path: Path,
) -> None:
    ask = call("clarify", question="Which way?", choices=["left", "right"])
    async with bench(tmp_path, Engineer(ask)) as b, b.engine(attended=True) as engine:
        (attempt,) = await engine.attempts.start("build it", 1)
        async with asyncio.timeout(60):
            while not engine.pending_requests.pending():
                await asyncio.sleep(0.01)
        engine.interrupt()
        await asyncio.sleep(0.05)
        (asked,) = engine.pending_requests.pending()
        assert isinstance(asked, QuestionAsked)
        assert (asked.agent, asked.reply.done()) == ("attempt-1", False)
        asked.reply.set_result(PersonAnswer("answered", "left"))
        await engine.attempts.wait()
        assert attempt.outcome == "done"


async def test_file_tools_of_a_attempt_do_not_reach_the_project_itself(tmp_path: Path) -> None:
    target = tmp_path / "work" / "a"
    async with bench(tmp_path, Engineer(write(str(target), "x"))) as b:
        # Inside the sandbox the temporary folders, where tests work, are other ones.
        b.config("sandbox: {mode: 'off'}")
        await check_kept_out(b)


async def check_kept_out(b: Bench) -> None:
    async with b.engine() as engine:
        (attempt,) = await engine.attempts.start("build it", 1)
        await engine.attempts.wait()
        assert (attempt.outcome, files(b)) == ("done", {})
        results = [event.result for event in b.seen(ToolFinished)]
        assert "You work in a copy of it" in json.loads(results[0])["error"]


async def test_what_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(write("a", "x"))) as b, b.engine() as engine:
        for prompt, count in (("", 1), ("x", 0), ("x", 9), ("  ", 2)):
            with pytest.raises(HermesError):
                await engine.attempts.start(prompt, count)
        with pytest.raises(HermesError, match="none was begun"):
            await engine.attempts.pick(1)
        assert [head.name for head in await engine.history.heads()] == ["main"]
        b.config("checkpoints: {enabled: false}")
    async with b.engine() as engine:
        with pytest.raises(HermesError, match="not kept"):
            _ = engine.attempts


async def test_a_start_that_is_cut_off_leaves_no_attempt_that_never_ends(tmp_path: Path) -> None:
    class Stops(list[Event]):
        def append(self, event: Event) -> None:
            super().append(event)
            if isinstance(event, AgentStarted):
                starting.cancel()

    async with bench(tmp_path, Engineer()) as b:
        b.events = Stops()
        async with b.engine() as engine:
            starting = asyncio.create_task(engine.attempts.start("build it", 2))
            with pytest.raises(asyncio.CancelledError):
                await starting
            await engine.attempts.wait()
            assert [each.outcome for each in await engine.attempts.list_attempts()] == ["interrupted"]
            assert [event.outcome for event in b.seen(AgentEnded)] == ["interrupted"]
            assert copies(b) == []


async def test_an_attempt_ends_with_its_state_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of luck")

    async with bench(tmp_path, Engineer(write("a", "1"), write("a", "2"))) as b, b.engine() as engine:
        await engine.run("hello")
        monkeypatch.setattr("agent.workspace.isolated_copies.workspace_copy.WorkspaceCopy.changes", fail)
        monkeypatch.setattr("agent.session.attempts.parallel_attempts.open_attempt", fail)
        await engine.attempts.start("build it", 2)
        await engine.attempts.wait()
        ended = b.seen(AgentEnded)
        assert [each.summary for each in ended] == [INTERNAL] * 2 and copies(b) == []
        assert all(each.outcome == "failed" for each in await engine.attempts.list_attempts())
        told = sorted(each.text for each in b.seen(Noticed) if "cannot be kept" in each.text)
        assert told == [f"What attempt-{number} did cannot be kept: {INTERNAL}" for number in (1, 2)]


async def test_a_full_disk_leaves_no_copy_of_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.")

    async with bench(tmp_path, Engineer(write("a", "1"))) as b, b.engine() as engine:
        await engine.run("hello")
        await engine.attempts.start("build it", 1)
        monkeypatch.setattr(engine.session.store, "use_head", full)
        await engine.attempts.wait()
        assert copies(b) == [] and "The disk is full." in str(b.seen(Noticed))


async def test_attempts_begin_where_the_session_ended_when_they_were_asked_for(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(write("a", "x"))) as b, b.engine() as engine:
        for number in range(2_000):
            (b.workspace / str(number)).touch()
        await engine.run("hello")
        starting = asyncio.create_task(engine.attempts.start("build it", 1))
        while not copies(b):
            await asyncio.sleep(0)
        await engine.run("meanwhile")
        await starting
        await engine.attempts.wait()
        path = await engine.session.store.path(engine.session.id, "attempt-1")
        assert [node.content for node in path if node.kind == "user"] == ["hello", "build it"]


async def test_a_session_that_closes_while_attempts_begin_ends_them_too(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(write("a", "x"))) as b:
        async with b.engine() as engine:
            starting = asyncio.create_task(engine.attempts.start("build it", 1))
            while not copies(b):
                await asyncio.sleep(0)
        (attempt,) = await starting
        assert attempt.outcome == "interrupted"
        assert copies(b) == []


@pytest.mark.thorough
async def test_closing_the_session_stops_its_attempts_and_keeps_their_work(tmp_path: Path) -> None:
    slow = call("terminal", command="echo x >x; sleep 300")
    async with bench(tmp_path, Engineer(slow)) as b:
        async with b.engine() as engine:
            await engine.run("hello")
            await engine.attempts.start("build it", 1)
            async with asyncio.timeout(60):
                while not list(b.home.glob("copies/*/work/x")):
                    await asyncio.sleep(0.02)
        assert copies(b) == []
        async with b.engine(resume_last=True) as engine:
            assert engine.session.head == "main"
            await engine.history.switch("attempt-1")
            assert files(b) == {"x": "x\n"}
            assert not [event for event in b.seen(Noticed) if event.kind == "recovery"]


PROGRAM = """
import asyncio, sys
from pathlib import Path
from agent.session.options import Options
from agent.session.runtime import open_engine
async def main():
    engine = await open_engine(Options(workspace=Path(sys.argv[1]), approve="all"))
    await engine.run("hello")
    await engine.attempts.start("build it", 2)
    await engine.attempts.wait()
asyncio.run(main())
"""


@pytest.mark.thorough
async def test_a_kill_leaves_no_copies_and_marks_the_branches_as_interrupted(tmp_path: Path) -> None:
    slow = call("terminal", command="echo x >x; sleep 300")
    async with bench(tmp_path, Engineer(slow, slow)) as b:
        environ = {
            "HERMES_HOME": str(b.home),
            "OPENAI_BASE_URL": b.server.base_url,
            "OPENAI_API_KEY": "test-key",
            "HERMES_MODEL": "scripted",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(Path.cwd()),
        }
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(b.workspace), env=environ, stderr=subprocess.DEVNULL
        )
        async with asyncio.timeout(60):
            while len(list(b.home.glob("copies/*/work/x"))) < 2:
                await asyncio.sleep(0.05)
        child.kill()
        await child.wait()
        assert len(copies(b)) == 4
        async with b.engine(resume_last=True) as engine:
            assert engine.session.head == "main"
            notices = [event.text for event in b.seen(Noticed) if event.kind == "recovery"]
            assert any("Attempts that were cut off: attempt-1, attempt-2." in text for text in notices)
            for head in ("attempt-1", "attempt-2"):
                path = await engine.session.store.path(engine.session.id, head)
                assert path[-1].data["outcome"] == "interrupted"
                assert [node.data["outcome"] for node in path if node.kind == "tool"] == ["interrupted"]
            await engine.history.switch("attempt-1")
            assert files(b) == {}
        assert copies(b) == []
        b.events.clear()
        async with b.engine(resume_last=True) as engine:
            assert engine.session.head == "attempt-1"
            assert not [event for event in b.seen(Noticed) if event.kind == "recovery"]


async def test_a_line_that_a_kill_left_at_a_attempt_leads_back(tmp_path: Path) -> None:
    async with bench(tmp_path, Engineer(write("a", "x"))) as b, b.engine() as engine:
        (attempt,) = await engine.attempts.start("build it", 1)
        await engine.attempts.wait()
        line = engine.session.id
        name = b.home / "checkpoints" / "lines" / f"{line}.log"
        whole = name.read_bytes().splitlines(keepends=True)
        name.write_bytes(b"".join(whole[:-1]))
        log = CheckpointStore(b.home / "checkpoints").line(line)
        assert log.last == attempt.position
        assert finish_detached(log)
        assert not finish_detached(log)
        there, back = log.steps()[-2:]
        assert [(each.before, each.after) for each in there.changes] == [
            (each.after, each.before) for each in back.changes
        ]
    async with await Store.open(b.home / "state.db") as store:
        assert (await store.heads(line))[0].name == "main"
