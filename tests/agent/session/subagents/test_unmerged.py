"""How much of a copy is neither merged nor discarded is told whenever that changes, and again on resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.events import AgentEnded, CopyChanged
from tests.agent.session.subagents.test_delegation import asked, team, until
from tests.agent.session.subagents.test_isolation import sent, settle
from tests.agent.session.subagents.test_recovery import killed_while
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.replies import Reply
from tests.support.team import report

TWO = [
    call("write_file", path="a.txt", content="a\n"),
    call("write_file", path="b.txt", content="b\n"),
    say(report("Wrote both.")),
]


def told(made: Bench) -> list[tuple[str, int]]:
    return [(event.agent, event.paths) for event in made.seen(CopyChanged)]


async def test_it_is_told_at_the_end_after_a_part_is_merged_and_when_all_is(tmp_path: Path) -> None:
    main = [sent(), settle("merge", paths=["a.txt"]), settle("merge"), say("Over.")]
    async with team(tmp_path, {"main": main, "child": TWO}) as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            assert engine.scheduler.copies.unmerged_count("agent-1") == 0
        assert told(made) == [("agent-1", 2), ("agent-1", 1), ("agent-1", 0)]
        events = [type(event) for event in made.events]
        assert events.index(CopyChanged) < events.index(AgentEnded)


async def test_what_is_discarded_is_told_and_one_without_changes_is_not_spoken_of(tmp_path: Path) -> None:
    main = [sent(), settle("discard"), sent("looks"), say("Over.")]
    scripts = {"main": main, "child": TWO, "looks": [say(report("Only looked."))]}
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        assert told(made) == [("agent-1", 2), ("agent-1", 0)]


@pytest.mark.thorough
async def test_it_is_known_again_with_the_session_also_after_a_part_was_merged(tmp_path: Path) -> None:
    scripts = {"main": [sent(), say("Later."), settle("merge", paths=["b.txt"]), say("One.")], "child": TWO}
    async with team(tmp_path, scripts) as made:
        session = (await made.turn("Go.")).session
        for left in (2, 1):
            made.events.clear()
            async with made.engine(resume=session) as engine:
                assert told(made) == [("agent-1", left)]
                assert engine.scheduler.copies.unmerged_count("agent-1") == left
                if left == 2:
                    await engine.run("Merge one.")
        async with made.engine(resume=session) as engine:
            await engine.scheduler.copies.discard(engine.scheduler.run("agent-1"))
        made.events.clear()
        async with made.engine(resume=session):
            assert told(made) == []


@pytest.mark.thorough
async def test_changes_of_one_that_was_killed_are_counted_when_the_session_is_opened(tmp_path: Path) -> None:
    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        return TWO[done] if done < 2 else say("word " * 4_000, pace=0.02)

    async with team(tmp_path, {"main": [sent()], "child": child}) as made:
        session = await killed_while(made, lambda: asked(made, "child") >= 3)
        for _ in range(2):
            made.events.clear()
            async with made.engine(resume=session):
                await until(made, lambda: told(made))
                assert told(made) == [("agent-1", 2)]


@pytest.mark.thorough
async def test_a_session_that_is_closed_while_copies_are_looked_at_finds_them_again(tmp_path: Path) -> None:
    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        return TWO[done] if done < 2 else say("word " * 4_000, pace=0.02)

    async with team(tmp_path, {"main": [sent()], "child": child}) as made:
        session = await killed_while(made, lambda: asked(made, "child") >= 3)
        for _ in range(3):
            async with made.engine(resume=session) as engine:
                assert engine.scheduler.copies.holds("agent-1")
        async with made.engine(resume=session) as engine:
            run = engine.scheduler.run("agent-1")
            await engine.scheduler.copies.merge(run, await engine.scheduler.copies.plan_merge(run.id))
        assert (made.workspace / "b.txt").read_text() == "b\n"
