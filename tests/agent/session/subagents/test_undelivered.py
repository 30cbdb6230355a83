"""What agents are told is read once, whatever is killed before they could read it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.store.nodes import Node
from agent.events import AgentEnded, AgentStarted
from agent.session.subagents.agent_table import TOLD, unheard
from tests.agent.session.subagents.test_delegation import asked, team, until
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.team import report, task_of
from tools.results import ToolError

FOREVER: dict[str, Any] = {"pace": 0.02}
TELLING = """
import asyncio, sys
from pathlib import Path
from agent.session.options import Options
from agent.session.runtime import open_engine

async def main():
    engine = await open_engine(Options(workspace=Path(sys.argv[1]), approve="all"))
    engine.submit("Go.")
    while not any(run.id == sys.argv[2] and run.state == sys.argv[3] for run in engine.scheduler.runs()):
        await asyncio.sleep(0.002)
    for text in sys.argv[4:]:
        await engine.scheduler.send_input(sys.argv[2], text)
    print(engine.session.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def told_and_killed(made: Bench, agent: str, state: str, *texts: str) -> str:
    """The session of a process that told an agent something while it was `state`, and was killed at once."""
    environ = {
        **os.environ,
        "HERMES_HOME": str(made.home),
        "OPENAI_BASE_URL": made.server.base_url,
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
    }
    command = (sys.executable, "-c", TELLING, str(made.workspace), agent, state, *texts)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environ)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            return (await process.stdout.readline()).decode().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def heard(made: Bench, goal: str) -> list[str]:
    """What the person and others said to an agent, as its last request has it."""
    last = [request for request in made.server.requests if task_of(request) == goal][-1]
    return [str(each["content"]) for each in last.messages if each["role"] == "user"]


@pytest.mark.thorough
async def test_words_for_one_that_waits_for_room_are_read_after_a_kill(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", tasks=[{"goal": "first"}, {"goal": "second"}])],
        "first": lambda _: say("word " * 4_000, **FOREVER),
        "second": [say(report("Done after all."))],
    }
    async with team(tmp_path, scripts, "subagents: {at_once: 1, forecast_tokens: null}\n") as made:
        session = await told_and_killed(made, "agent-2", "queued", "Mind the yen.", "And the won.")
        async with made.engine(resume=session) as engine:
            assert engine.scheduler.run("agent-2").inputs == ["Mind the yen.", "And the won."]
            await engine.scheduler.resume("agent-2")
            (after,) = await engine.scheduler.wait(["agent-2"])
            assert after.outcome == "completed"
        task, *words = heard(made, "second")
        assert task.startswith("Your task: second") and words == ["Mind the yen.", "And the won."]


@pytest.mark.thorough
async def test_words_for_one_that_just_began_are_read_after_a_kill_and_only_once(tmp_path: Path) -> None:
    def child(request: Any) -> Any:
        if "Mind the yen." in str(request.messages[-1]["content"]):
            return say(report("I minded it."))
        return say("word " * 4_000, **FOREVER)

    scripts = {"main": [call("delegate_task", goal="child")], "child": child}
    async with team(tmp_path, scripts) as made:
        session = await told_and_killed(made, "agent-1", "running", "Mind the yen.")
        for number in range(2):
            async with made.engine(resume=session) as engine:
                assert engine.scheduler.run("agent-1").inputs == ([] if number else ["Mind the yen."])
                if not number:
                    await engine.scheduler.resume("agent-1")
                    (after,) = await engine.scheduler.wait(["agent-1"])
                    assert after.summary == "I minded it."
        assert heard(made, "child").count("Mind the yen.") == 1


@pytest.mark.thorough
async def test_words_that_are_a_reason_to_go_on_survive_the_wait_for_room(tmp_path: Path) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="quick"),
            call("delegate_task", goal="slow", background=True),
            say("Sent."),
        ],
        "quick": [say(report("Once.")), say(report("Twice."))],
        "slow": lambda _: say("word " * 4_000, **FOREVER),
    }
    async with team(tmp_path, scripts, "subagents: {at_once: 1, forecast_tokens: null}\n") as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            await until(made, lambda: asked(made, "slow"))
            await engine.scheduler.send_input("agent-1", "Once more.")
            assert engine.scheduler.run("agent-1").state == "queued"
            session = engine.session.id
        async with made.engine(resume=session) as engine:
            await engine.scheduler.resume("agent-1")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert after.summary == "Twice."
        assert heard(made, "quick")[1:] == ["Once more."]


@pytest.mark.thorough
async def test_words_that_come_while_the_report_is_made_let_the_agent_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "main": [call("delegate_task", goal="child", background=True), say("Sent.")],
        "child": [say(report("Once.")), say(report("Twice."))],
    }
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        held, begun = asyncio.Event(), asyncio.Event()
        workspaces = engine.scheduler.services.workspaces
        leave = workspaces.leave

        async def slowly(run: Any) -> None:
            begun.set()
            await held.wait()
            await leave(run)

        monkeypatch.setattr(workspaces, "leave", slowly)
        await engine.run("Go.")
        await begun.wait()
        telling = asyncio.create_task(engine.scheduler.send_input("agent-1", "One more thing."))
        await asyncio.sleep(0)
        held.set()
        await telling
        (after,) = await engine.scheduler.wait(["agent-1"])
        assert after.summary == "Twice."
        assert heard(made, "child")[1:] == ["One more thing."]


@pytest.mark.thorough
async def test_one_that_is_being_stopped_is_told_nothing_that_it_would_never_read(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="child", background=True), say("Sent.")],
        "child": lambda _: say("word " * 4_000, **FOREVER),
    }
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        await engine.run("Go.")
        await until(made, lambda: asked(made, "child"))
        engine.scheduler.interrupt(["agent-1"])
        with pytest.raises(ToolError, match="agent-1 is being stopped"):
            await engine.scheduler.send_input("agent-1", "Wait.")


@pytest.mark.thorough
async def test_the_model_is_told_when_the_person_lets_an_agent_go_on_and_what_came_of_it(
    tmp_path: Path,
) -> None:
    scripts = {
        "main": [call("delegate_task", goal="child"), say("Done."), say("I see.")],
        "child": [say(report("Once.")), say(report("Twice."))],
    }
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        await engine.run("Go.")
        await engine.scheduler.send_input("agent-1", "Look at the tests too.")
        await engine.scheduler.wait(["agent-1"])
        await until(made, lambda: not engine.scheduler.run("agent-1").notices)
        await engine.run("And?")
        notes = [node.content for node in engine.session.path if node.kind == "notice"]
        said = [node.content for node in engine.session.path if node.kind == "user"]
        assert said == ["Go.", "And?"]
        on = next(note for note in notes if "lets agent agent-1" in note)
        assert "had ended (completed)" in on and "They told it: Look at the tests too." in on
        (again,) = [note for note in notes if note.startswith("[Agent agent-1 has ended: completed.")]
        assert again.endswith("Twice.")
        assert len(made.seen(AgentStarted)) == len(made.seen(AgentEnded)) == 2


@pytest.mark.thorough
async def test_what_the_model_was_not_told_before_the_end_it_is_told_in_the_next_process_once(
    tmp_path: Path,
) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="child"),
            call("delegate_task", goal="later", background=True),
            say("Done."),
            say("I see."),
            say("And still."),
        ],
        "child": [say(report("Once.")), say(report("Twice."))],
        "later": [say(report("Later."))],
    }
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            session = (await engine.run("Go.")).session
            await engine.scheduler.wait(["agent-2"])
            await engine.scheduler.send_input("agent-1", "Look at the tests too.")
            await engine.scheduler.wait(["agent-1"])
        for text in ("And?", "Still?"):
            async with made.engine(resume=session) as engine:
                await engine.run(text)
                notes = [node.content for node in engine.session.path if node.kind == "notice"]
            assert sum(note.startswith("[The user lets agent agent-1 continue.") for note in notes) == 1
            twice = [note for note in notes if note.startswith("[Agent agent-1 has ended: completed.")]
            assert len(twice) == 1 and twice[0].endswith("Twice.")
            assert sum(note.startswith("[Agent agent-2 has ended: completed.") for note in notes) == 1


@pytest.mark.thorough
async def test_what_the_model_asks_of_its_agents_is_not_told_as_the_persons_wish(tmp_path: Path) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="child"),
            call("subagents", action="send_input", id="agent-1", text="More."),
            call("subagents", action="wait", id="agent-1"),
            say("Done."),
        ],
        "child": [say(report("Once.")), say(report("Twice."))],
    }
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        await engine.run("Go.")
        notes = [node.content for node in engine.session.path if node.kind == "notice"]
        assert not any("The user lets" in note for note in notes)
        assert heard(made, "child")[1:] == ["More."]


def node(kind: str, content: str) -> Node:
    return Node(1, "s", None, kind, 0.0, content, {})


def told(text: str) -> Node:
    return Node(1, "s", None, "notice", 0.0, "", {"kind": TOLD, "text": text})


def test_words_count_as_read_by_the_message_that_says_the_same_once_each() -> None:
    path = [told("a"), told("a"), node("user", "a"), told("b"), node("assistant", "b")]
    assert unheard(path) == ["a", "b"]
    assert unheard([node("user", "a"), told("a")]) == ["a"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))))
def test_nothing_is_both_read_and_waiting(events: Sequence[tuple[bool, str]]) -> None:
    path = [told(text) if tells else node("user", text) for tells, text in events]
    waiting = unheard(path)
    assert len(waiting) <= sum(tells for tells, _ in events)
    assert unheard([*path, *(node("user", text) for text in waiting)]) == []
