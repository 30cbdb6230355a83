"""Agents that an agent sends: through the whole engine, against the scripted model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    ApprovalAsked,
    Decision,
    QuestionAsked,
    StepTaken,
    TextAdded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from agent.session.engine import Engine
from tests.support.engines import Bench, bench
from tests.support.model_server import call, calls, say
from tests.support.replies import Reply
from tests.support.team import UNASKED, by_task, report, task_of
from tests.support.waiting import PATIENCE


@asynccontextmanager
async def team(folder: Path, scripts: Mapping[str, Any], config: str = UNASKED) -> AsyncIterator[Bench]:
    async with bench(folder, by_task(scripts)) as made:
        made.config(config)
        yield made


def results(made: Bench, agent: str = "main") -> list[dict[str, Any]]:
    """Results of the calls of one agent, in order."""
    return [json.loads(event.result) for event in made.seen(ToolFinished) if event.agent == agent]


async def until(made: Bench, wanted: Any) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while not wanted():
            await asyncio.sleep(0.01)


def asked(made: Bench, goal: str) -> int:
    """Requests that the agent with this goal has sent."""
    return sum(task_of(request) == goal for request in made.server.requests)


@pytest.mark.thorough
async def test_several_agents_work_side_by_side_and_report(tmp_path: Path) -> None:
    tasks = [{"goal": "write a"}, {"goal": "write b"}]
    scripts = {
        "main": [call("delegate_task", tasks=tasks, context="Letters go to files."), say("Both are done.")],
        "write a": [
            call("write_file", path="a.txt", content="a"),
            say(report("Wrote a.", findings=["a fits"])),
        ],
        "write b": [call("write_file", path="b.txt", content="b"), say(report("Wrote b."))],
    }
    async with team(tmp_path, scripts) as made:
        ended = await made.turn("Write both.")
        assert (ended.outcome, ended.text) == ("done", "Both are done.")
        assert made.server.refusals == []
        assert [(made.workspace / f"{name}.txt").read_text() for name in "ab"] == ["a", "b"]
        (result,) = results(made)
        assert result["outcome"] == "completed"
        first, second = result["results"]
        assert (first["id"], first["outcome"], first["summary"]) == ("agent-1", "completed", "Wrote a.")
        assert first["findings"] == ["a fits"]
        assert (first["files"], second["files"]) == (["a.txt"], ["b.txt"])
        assert first["usage"]["requests"] == 2
        # Their calls have the same ids; what each did is its own step all the same.
        steps = {event.agent: (event.call, event.paths) for event in made.seen(StepTaken)}
        assert [paths for _, paths in steps.values()] in ([("a.txt",), ("b.txt",)], [("b.txt",), ("a.txt",)])
        assert steps["agent-1"][1] == ("a.txt",)
        assert steps["agent-1"][0] == steps["agent-2"][0]
        assert [event.agent for event in made.seen(AgentStarted)] == ["agent-1", "agent-2"]
        assert {event.call for event in made.seen(AgentStarted)} == {made.seen(ToolFinished)[-1].call}
        ends = {event.agent: event for event in made.seen(AgentEnded)}
        assert {event.outcome for event in ends.values()} == {"done"}
        assert ends["agent-1"].tokens == first["usage"]["tokens"]
        context = [r.messages[1]["content"] for r in made.server.requests if task_of(r) == "write a"]
        assert all("Letters go to files." in text and "Write both." not in text for text in context)


@pytest.mark.thorough
async def test_a_failed_agent_makes_the_whole_not_completed(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", tasks=[{"goal": "good"}, {"goal": "bad"}]), say("One failed.")],
        "good": [say(report())],
        "bad": [say(report("No way in.", "failed", open_points=["find the key"]))],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        (result,) = results(made)
        assert result["outcome"] == "partial"
        assert [each["outcome"] for each in result["results"]] == ["completed", "failed"]
        assert result["results"][1]["open_points"] == ["find the key"]


@pytest.mark.thorough
async def test_an_agent_whose_own_agent_failed_never_reads_as_completed(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="middle"), say("Over.")],
        "middle": [call("delegate_task", goal="leaf"), say(report("All fine, I say."))],
        "leaf": [say(report("Could not.", "failed"))],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        (result,) = results(made)
        assert result["outcome"] == "failed"
        assert result["results"][0]["reason"] == "Agents it had sent did not complete: agent-2 (failed)."
        parents = {event.agent: event.parent for event in made.seen(AgentStarted)}
        assert parents == {"agent-1": "main", "agent-2": "agent-1"}


@pytest.mark.thorough
async def test_agents_of_agents_send_no_further_ones(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def leaf(request: Any) -> Reply:
        seen.append({tool["function"]["name"] for tool in request.body["tools"]})
        return say(report())

    scripts = {
        "main": [call("delegate_task", goal="middle"), say("Over.")],
        "middle": [call("delegate_task", goal="leaf"), say(report())],
        "leaf": leaf,
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        assert results(made)[0]["outcome"] == "completed"
        (tools,) = seen
        assert "read_file" in tools
        assert not tools & {"delegate_task", "subagents", "clarify", "checkpoint"}


@pytest.mark.thorough
async def test_three_work_at_once_and_the_others_wait_in_order(tmp_path: Path) -> None:
    goals = [f"goal {number}" for number in range(7)]
    running: list[int] = []
    tasks = [{"goal": goal} for goal in goals]
    scripts: dict[str, Any] = {goal: [say(report(), delay=0.1)] for goal in goals}
    scripts["main"] = [call("delegate_task", tasks=tasks), say("Over.")]
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            engine.stream.subscribe(
                lambda _: running.append(sum(run.state == "running" for run in engine.scheduler.runs()))
            )
            await engine.run("Go.")
        began = [event.agent for event in made.seen(AgentProgressed) if event.state == "running"]
        assert list(dict.fromkeys(began)) == [f"agent-{number}" for number in range(1, 8)]
        assert max(running) == 3
        assert results(made)[0]["outcome"] == "completed"


@pytest.mark.thorough
async def test_agents_that_wait_for_their_own_leave_their_room_to_them(tmp_path: Path) -> None:
    middles = [f"middle {number}" for number in range(3)]
    scripts: dict[str, Any] = {
        "main": [call("delegate_task", tasks=[{"goal": m} for m in middles]), say("Over.")]
    }
    for middle in middles:
        scripts[middle] = [call("delegate_task", goal=f"leaf of {middle}"), say(report())]
        scripts[f"leaf of {middle}"] = [say(report())]
    async with team(tmp_path, scripts, "subagents: {at_once: 1}\n") as made:
        async with asyncio.timeout(PATIENCE):
            await made.turn("Go.")
        assert results(made)[0]["outcome"] == "completed"


@pytest.mark.thorough
async def test_a_budget_of_tokens_ends_an_agent_with_what_it_had(tmp_path: Path) -> None:
    budget = {"tokens": 60_000}
    look = [call("write_file", path=f"{n}.txt", content="word " * 900) for n in range(60)]
    scripts = {
        "main": [call("delegate_task", goal="much", budget=budget), say("Over.")],
        "much": look,
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        (result,) = results(made)
        (one,) = result["results"]
        assert (result["outcome"], one["outcome"]) == ("failed", "budget")
        assert "The budget of agent-1 is reached" in one["reason"]
        assert 0 < one["usage"]["tokens"] <= 60_000
        assert "0.txt" in one["files"]
        assert made.seen(AgentEnded)[0].outcome == "budget"


@pytest.mark.thorough
async def test_a_budget_of_turns_leaves_a_last_request_for_a_summary(tmp_path: Path) -> None:
    look = [call("read_file", path=f"{n}.txt") for n in range(3)]
    scripts = {
        "main": [call("delegate_task", goal="much", budget={"turns": 4}), say("Over.")],
        "much": [*look, say("Three looks, nothing found.")],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        (one,) = results(made)[0]["results"]
        assert (one["outcome"], one["summary"]) == ("budget", "Three looks, nothing found.")
        assert one["usage"]["requests"] == 4


@pytest.mark.thorough
async def test_time_that_is_over_ends_an_agent_in_the_middle_of_a_command(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="slow", budget={"seconds": 1}), say("Over.")],
        "slow": [call("terminal", command="sleep 300"), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        async with asyncio.timeout(PATIENCE):
            await made.turn("Go.")
        (one,) = results(made)[0]["results"]
        assert (one["outcome"], one["reason"]) == ("budget", "Its time was over before it was done.")


async def test_a_readonly_agent_has_no_tool_to_change_anything(tmp_path: Path) -> None:
    offered: list[set[str]] = []

    def looker(request: Any) -> Reply:
        offered.append({tool["function"]["name"] for tool in request.body["tools"]})
        if len(offered) == 1:
            return call("write_file", path="x", content="x")
        return say(report())

    scripts = {
        "main": [call("delegate_task", goal="look", isolation="readonly"), say("Over.")],
        "look": looker,
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        assert not offered[0] & {"write_file", "patch", "terminal", "execute_code", "delegate_task"}
        assert {"read_file", "search", "todo_write"} <= offered[0]
        assert not (made.workspace / "x").exists()


@pytest.mark.thorough
async def test_an_agent_gets_only_the_toolsets_it_is_given_and_a_wrong_name_or_field_sends_nobody(
    tmp_path: Path,
) -> None:
    offered: list[set[str]] = []

    def looker(request: Any) -> Reply:
        offered.append({tool["function"]["name"] for tool in request.body["tools"]})
        return say(report())

    tasks = [{"goal": "look"}, {"goal": "never", "toolsets": ["no such thing"]}]
    scripts = {
        "main": [
            call("delegate_task", tasks=tasks),
            call("delegate_task", tasks=[{"goal": "look", "skills": ["x"]}]),
            call("delegate_task", goal="look", max_turns=3),
            call("delegate_task", goal="look", toolsets=["terminal"]),
            say("Over."),
        ],
        "look": looker,
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        refused, unknown, misplaced, _ = results(made)
        assert refused["error"].startswith("There is no toolset or tool named no such thing; known toolsets:")
        known = "goal, context, toolsets, agent, model, isolation, budget"
        assert unknown["error"] == f"Unknown parameter tasks[0].skills; tasks[0] takes: {known}."
        assert misplaced["error"].startswith("Unknown parameter max_turns; this tool takes: goal, context,")
        assert offered == [{"terminal", "process", "todo_write", "todo_read"}]


@pytest.mark.thorough
async def test_background_agents_are_announced_when_they_end(tmp_path: Path) -> None:
    scripts = {
        "main": [
            call("delegate_task", goal="slow", background=True),
            say("It works."),
            say("I have seen it."),
        ],
        "slow": [say(report("Found it."), delay=0.2)],
    }
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            assert (await engine.run("Go.")).text == "It works."
            await until(made, lambda: made.seen(AgentEnded))
            assert (await engine.run("And?")).text == "I have seen it."
        assert results(made)[0]["started"] == ["agent-1"]
        last = [str(message["content"]) for message in made.server.requests[-1].messages]
        assert any(text.startswith("[Agent agent-1 has ended: completed.") for text in last)
        assert any("Found it." in text for text in last)


async def running(made: Bench, engine: Engine, goal: str = "slow") -> None:
    """Wait until the agent with this goal has asked the model."""
    await until(made, lambda: asked(made, goal) > 0)
    await asyncio.sleep(0.1)


SLOW = say("word " * 10_000, pace=0.02)
"""An answer that takes longer than any test waits."""


@pytest.mark.thorough
async def test_a_killed_agent_stops_amid_its_answer_and_sends_nothing_after(
    tmp_path: Path,
) -> None:
    scripts = {"main": [call("delegate_task", goal="slow"), say("Over.")], "slow": [SLOW, say("never")]}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await until(made, lambda: any(event.agent == "agent-1" for event in made.seen(TextAdded)))
            killed = await asyncio.wait_for(engine.scheduler.kill("agent-1"), PATIENCE)
            assert killed.outcome == "killed"
            assert killed.summary.startswith("word")
            request = next(r for r in made.server.requests if task_of(r) == "slow")
            await asyncio.wait_for(request.hung_up.wait(), PATIENCE)
            assert (await turn).outcome == "done"
            assert asked(made, "slow") == 1
            account = engine.scheduler.run("agent-1").account
            assert account.room() == 2_000_000 - engine.scheduler.account.spent.tokens, (
                "all room is given back"
            )
        (one,) = results(made)[0]["results"]
        assert (one["outcome"], one["reason"]) == ("killed", "It was stopped before it was done.")


async def test_an_agent_ends_with_a_report_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    scripts = {"main": [call("delegate_task", goal="look"), say("Over.")], "look": [say(report())]}
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        monkeypatch.setattr("agent.session.subagents.agent_copies.AgentWorkspaces.leave", fail)
        assert (await engine.run("Go.")).outcome == "done"
        (ended,) = results(made)[0]["results"]
        assert (ended["outcome"], ended["reason"]) == (
            "failed",
            "Internal error (RuntimeError: out of luck); the log has the details.",
        )
        assert engine.scheduler.run("agent-1").is_over


@pytest.mark.thorough
async def test_killing_a_waiting_or_unknown_agent_is_no_trouble(tmp_path: Path) -> None:
    tasks = [{"goal": "slow"}, {"goal": "later"}]
    scripts = {
        "main": [call("delegate_task", tasks=tasks), say("Over.")],
        "slow": [SLOW],
        "later": [say("never")],
    }
    async with team(tmp_path, scripts, "subagents: {at_once: 1}\n") as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await running(made, engine)
            assert (await engine.scheduler.kill("agent-2")).outcome == "killed"
            assert (await engine.scheduler.kill("agent-1")).outcome == "killed"
            assert (await engine.scheduler.kill("agent-1")).outcome == "killed"
            await turn
        assert asked(made, "later") == 0


@pytest.mark.thorough
async def test_a_paused_agent_is_still_until_it_is_resumed(tmp_path: Path) -> None:
    steps = [SLOW, SLOW]

    def slow(_request: Any) -> Reply:
        return steps.pop() if len(steps) == 2 else say(report("After the pause."))

    scripts = {"main": [call("delegate_task", goal="slow"), say("Over.")], "slow": slow}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await running(made, engine)
            engine.scheduler.pause("agent-1")
            request = next(r for r in made.server.requests if task_of(r) == "slow")
            await asyncio.wait_for(request.hung_up.wait(), PATIENCE)
            await asyncio.sleep(0.2)
            assert asked(made, "slow") == 1
            assert engine.scheduler.run("agent-1").standing == "paused"
            await engine.scheduler.resume("agent-1")
            assert (await turn).outcome == "done"
        (one,) = results(made)[0]["results"]
        assert (one["outcome"], one["summary"]) == ("completed", "After the pause.")


async def test_a_paused_agent_can_be_killed_and_sends_nothing(tmp_path: Path) -> None:
    scripts = {"main": [call("delegate_task", goal="slow"), say("Over.")], "slow": lambda _: SLOW}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await running(made, engine)
            engine.scheduler.pause("agent-1")
            await asyncio.sleep(0.1)
            assert (await asyncio.wait_for(engine.scheduler.kill("agent-1"), PATIENCE)).outcome == "killed"
            await turn
        assert asked(made, "slow") == 1


@pytest.mark.thorough
async def test_what_an_agent_is_told_reaches_its_next_request(tmp_path: Path) -> None:
    def slow(request: Any) -> Reply:
        if len(request.messages) < 4:
            return call("terminal", command="until test -e told; do sleep 0.05; done")
        return say(report(str(request.messages[-1]["content"])))

    scripts = {"main": [call("delegate_task", goal="slow"), say("Over.")], "slow": slow}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await running(made, engine)
            await engine.scheduler.send_input("agent-1", "Mind the gap.")
            (made.workspace / "told").touch()
            await turn
        (one,) = results(made)[0]["results"]
        assert one["summary"] == "Mind the gap."


@pytest.mark.thorough
async def test_an_interrupted_turn_leaves_no_agent_running_and_each_can_go_on(tmp_path: Path) -> None:
    def slow(request: Any) -> Reply:
        return say(report("Went on.")) if "Continue where you stopped" in str(request.messages[-1]) else SLOW

    scripts = {"main": [call("delegate_task", goal="slow"), say("Over.")], "slow": slow}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await running(made, engine)
            engine.interrupt()
            assert (await turn).outcome == "interrupted"
            await until(made, lambda: engine.scheduler.run("agent-1").is_over)
            assert engine.scheduler.run("agent-1").standing == "interrupted"
            await engine.scheduler.resume("agent-1")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert (after.outcome, after.summary) == ("completed", "Went on.")
        assert made.server.refusals == []


@pytest.mark.thorough
async def test_the_tool_lists_waits_for_and_shows_agents(tmp_path: Path) -> None:
    def awaited() -> bool:
        return any(event.arguments.get("action") == "wait" for event in made.seen(ToolStarted))

    scripts = {
        "main": [
            call("delegate_task", goal="quick", background=True),
            call("subagents", action="list"),
            call("subagents", action="wait"),
            call("subagents", action="result", id="agent-1"),
            calls(("subagents", {"action": "kill", "id": "agent-9"}), ("subagents", {"action": "pause"})),
            call("subagents", action="send_input", id="agent-1", text="More."),
            call("subagents", action="wait", id="agent-1"),
            say("Over."),
        ],
        "quick": [say(report("First."), until=awaited, delay=0.2), say(report("Second."))],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        _, listed, waited, result, unknown, nobody, told, again = results(made)
        assert listed["agents"][0]["id"] == "agent-1"
        assert waited["results"][0]["summary"] == result["summary"] == "First."
        assert unknown["error"] == "There is no agent 'agent-9'. Agents of this session: agent-1."
        assert nobody["error"] == "Say which agent to pause: its id, as `list` shows it."
        assert told["state"] == "queued"
        assert again["results"][0]["summary"] == "Second."


@pytest.mark.thorough
async def test_an_approval_names_the_agent_that_asks_and_its_clock_stands_still_meanwhile(
    tmp_path: Path,
) -> None:
    scripts = {
        "main": [call("delegate_task", goal="write", budget={"seconds": 100}), say("Over.")],
        "write": [call("write_file", path=".vscode/a.json", content="a"), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        async with made.engine(approve="normal", attended=True) as engine:
            began = time.monotonic()
            turn = asyncio.create_task(engine.run("Go."))
            await until(made, lambda: made.seen(ApprovalAsked))
            (question,) = made.seen(ApprovalAsked)
            assert (question.agent, question.tool) == ("agent-1", "write_file")
            assert made.seen(AgentProgressed)[-1].state == "waiting"
            await asyncio.sleep(1)
            question.reply.set_result(Decision("once"))
            await turn
            took = time.monotonic() - began
        (one,) = results(made)[0]["results"]
        assert one["outcome"] == "completed"
        assert one["seconds"] < took - 0.9
        assert (made.workspace / ".vscode/a.json").read_text() == "a"


async def test_killing_an_agent_takes_its_open_question_away(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="ask"), say("Over.")],
        "ask": [call("clarify", question="Which?", choices=["a", "b"]), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        async with made.engine(attended=True) as engine:
            turn = asyncio.create_task(engine.run("Go."))
            await until(made, lambda: made.seen(QuestionAsked))
            assert made.seen(QuestionAsked)[0].agent == "agent-1"
            assert (await asyncio.wait_for(engine.scheduler.kill("agent-1"), PATIENCE)).outcome == "killed"
            await turn
            assert engine.pending_requests.pending() == ()


@pytest.mark.thorough
async def test_a_long_report_is_kept_in_a_file(tmp_path: Path) -> None:
    scripts = {
        "main": [call("delegate_task", goal="talk"), say("Over.")],
        "talk": [say(report("word " * 6_000))],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        (one,) = results(made)[0]["results"]
        assert len(one["summary"]) == 4_000
        kept = Path(one["full_report"])
        assert len(kept.read_text()) > 29_000
        assert kept.stat().st_mode & 0o077 == 0


async def test_children_are_sessions_of_their_own_below_the_one_that_sent_them(tmp_path: Path) -> None:
    scripts = {"main": [call("delegate_task", goal="one"), say("Over.")], "one": [say(report())]}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            store, root = engine.session.store, engine.session.id
            (child,) = await store.children(root)
            path = await store.path(child.id)
            assert child.title == "one"
            assert path[0].data["parent"] == "main"
            assert path[0].data["call"] == made.seen(ToolFinished)[-1].call
            assert (path[-1].data["kind"], path[-1].data["outcome"]) == ("subagent_end", "completed")
            assert [each.id for each in await store.list_sessions()] == [root]
        assert {event.agent for event in made.seen(TurnEnded)} == {"main", "agent-1"}
