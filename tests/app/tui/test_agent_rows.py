"""Subagents: events in, rows of the pane out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    CopyChanged,
    Event,
    QuestionAsked,
    RequestResolved,
    TurnStarted,
)
from app.tui.panes.agent_rows import AgentRows
from tests.support.waiting import until
from tests.widgets.panes.host import Host, lines


def team(*events: Event) -> AgentRows:
    made = AgentRows(lambda: 100.0)
    for event in events:
        made.handle(event)
    return made


def sent(agent: str, parent: str = "main", name: str = "") -> AgentStarted:
    return AgentStarted(agent=agent, parent=parent, name=name or agent, goal=f"the goal of {agent}")


def states(made: AgentRows) -> list[tuple[str, str, int]]:
    return [(row.agent, row.state, row.depth) for row in made.rows()]


def test_an_agent_that_was_sent_waits_with_its_goal() -> None:
    row = team(sent("a")).rows()[0]
    assert (row.state, row.goal, row.since) == ("pending", "the goal of a", 100.0)


def test_agents_stand_below_the_one_that_sent_them_in_the_order_they_were_sent() -> None:
    made = team(sent("a"), sent("b"), sent("a1", "a"), sent("b1", "b"), sent("a2", "a"), sent("a11", "a1"))
    assert [(row.agent, row.depth) for row in made.rows()] == [
        ("a", 0), ("a1", 1), ("a11", 2), ("a2", 1), ("b", 0), ("b1", 1),
    ]  # fmt: skip


def test_progress_and_end_give_the_figures() -> None:
    made = team(
        sent("a"),
        AgentProgressed(agent="a", action="reading x", calls=3, tokens=900, cost=0.01, budget=0.25),
    )
    row = made.rows()[0]
    assert (row.state, row.action, row.calls, row.tokens, row.cost, row.budget) == (
        "running", "reading x", 3, 900, 0.01, 0.25,
    )  # fmt: skip
    made.handle(AgentEnded(agent="a", outcome="done", summary="4 findings", seconds=12.5, calls=5))
    row = made.rows()[0]
    assert (row.state, row.action, row.seconds, row.since) == ("done", "4 findings", 12.5, None)


def test_every_end_has_a_state_of_its_own() -> None:
    made = team(*(sent(name) for name in ("done", "failed", "denied", "interrupted", "budget")))
    for name in ("done", "failed", "denied", "interrupted", "budget"):
        made.handle(AgentEnded(agent=name, outcome=name, summary="s", seconds=1))  # type: ignore[arg-type]
    assert [row.state for row in made.rows()] == ["done", "failed", "denied", "interrupted", "budget"]


async def test_an_agent_that_asks_wants_attention_until_it_is_answered() -> None:
    question = QuestionAsked(
        agent="a", id="q", question="?", choices=(), allow_freetext=True, reply=asyncio.Future()
    )
    made = team(sent("a"), AgentProgressed(agent="a", action="working"))
    assert made.handle(question) and states(made) == [("a", "waiting", 0)]
    assert not made.handle(RequestResolved(id="other", outcome="answered"))
    assert made.handle(RequestResolved(id="q", outcome="answered"))
    assert made.rows()[0].action == "working"
    made.handle(question)
    made.handle(AgentEnded(agent="a", outcome="interrupted", summary="stopped", seconds=1))
    assert states(made) == [("a", "interrupted", 0)]


def test_what_is_not_about_subagents_changes_nothing() -> None:
    made = team()
    assert not made.handle(TurnStarted(turn=1))
    assert not made.handle(AgentProgressed(agent="never sent"))
    assert not made.handle(AgentEnded(agent="never sent", outcome="done", summary="", seconds=1))
    assert made.rows() == [] and made.row("never sent") is None and made.below("never sent") == []


def test_an_agent_sent_twice_or_by_itself_is_one_row() -> None:
    made = team(sent("a", "a"), sent("b", "a"), sent("a", "b"), sent("b", "b"))
    assert states(made) == [("a", "pending", 0), ("b", "pending", 1)]


def test_a_chain_of_many_agents_is_walked() -> None:
    made = team(*(sent(str(number), str(number - 1)) for number in range(3_000)))
    assert made.rows()[-1].depth == 2_999


@pytest.mark.thorough
async def test_the_pane_shows_the_tree_and_time_goes_on() -> None:
    app = Host(filled=False)

    made = AgentRows(lambda: 100.0)
    for event in (
        sent("a", name="callers"),
        AgentProgressed(
            agent="a", action="reading api/views.py", calls=11, tokens=8100, budget=0.5, cost=0.03
        ),
        sent("b", "a", name="views"),
        AgentProgressed(agent="b", state="waiting", action="asks you", calls=1),
    ):
        made.handle(event)
    async with app.run_test(size=(120, 40)) as pilot:
        app.agents.show(made.rows())
        app.seconds = 142.0
        await until(pilot, lambda: lines(app.agents)[0].endswith("◆1  2 live"))
        rows = lines(app.agents)
        assert rows[1].startswith(" ▶ callers  the goal of a")
        assert rows[2].startswith("   reading api/views.py")
        assert rows[4].startswith(" ◆ └ views    the goal of b") and rows[5].startswith("     asks you")
        app.seconds = 163.0
        await until(pilot, lambda: "1:03" in lines(app.agents)[3])
        assert lines(app.agents)[3].startswith("   1:03 · 11 calls · 8.1k ▕██░░▏ $0.03")
        assert lines(app.agents)[6].startswith("     1:03 · 1 call")


def test_those_with_something_under_way_stand_above_those_that_are_over() -> None:
    made = team(sent("a"), sent("b"), sent("b1", "b"), sent("c"))
    for agent in ("a", "b1"):
        made.handle(AgentEnded(agent=agent, outcome="done", summary="", seconds=1))
    assert [row.agent for row in made.rows()] == ["b", "b1", "c", "a"]


def test_what_is_not_merged_stays_with_its_row_until_it_is_settled() -> None:
    ended = AgentEnded(agent="a", outcome="done", summary="", seconds=1)
    made = team(sent("a"), sent("b"), CopyChanged(agent="a", paths=3), ended)
    made.handle(replace(ended, agent="b"))
    assert [(row.agent, row.unmerged) for row in made.rows()] == [("a", 3), ("b", 0)]
    assert made.clear_ended() == 1 and [row.agent for row in made.rows()] == ["a"]
    made.handle(sent("a"))
    assert made.rows()[0].unmerged == 3
    made.handle(ended)
    assert made.handle(CopyChanged(agent="a", paths=0)) and made.rows()[0].unmerged == 0
    assert made.clear_ended() == 1 and made.rows() == []
    assert not made.handle(CopyChanged(agent="never sent", paths=1))


def test_a_paused_agent_is_no_question() -> None:
    made = team(sent("a"), AgentProgressed(agent="a", state="paused", action="paused"))
    assert made.rows()[0].state == "paused"


def test_one_that_is_told_to_stop_says_so_until_it_has_ended() -> None:
    made = team(sent("a"), sent("a1", "a"), sent("b"), AgentProgressed(agent="a", action="reading"))
    made.mark_stopping("a")
    assert states(made) == [("a", "stopping", 0), ("a1", "stopping", 1), ("b", "pending", 0)]
    made.handle(AgentProgressed(agent="a", action="still there"))
    assert made.rows()[0].state == "stopping"
    made.handle(AgentEnded(agent="a", outcome="interrupted", summary="", seconds=1))
    made.handle(sent("a"))
    assert made.rows()[0].state == "pending"
    made.mark_stopping("never sent")


def test_cleared_agents_are_gone_until_one_of_them_goes_on() -> None:
    made = team(sent("a"), sent("a1", "a"), sent("b"))
    assert made.clear_ended() == 0
    for agent in ("a1", "a"):
        made.handle(AgentEnded(agent=agent, outcome="done", summary="", seconds=1))
    assert made.clear_ended() == 2
    assert [row.agent for row in made.rows()] == ["b"] and made.row("a1") is not None
    made.handle(sent("a1", "a"))
    assert [row.agent for row in made.rows()] == ["a", "a1", "b"]


def test_costs_add_up_and_one_unknown_makes_all_unknown() -> None:
    made = team(sent("a"), sent("b"))
    assert made.cost() == 0
    made.handle(AgentProgressed(agent="a", cost=0.25))
    made.handle(AgentEnded(agent="b", outcome="done", summary="", seconds=1, cost=0.5))
    assert made.cost() == 0.75
    made.handle(sent("b"))
    assert made.cost() == 0.75
    made.handle(AgentProgressed(agent="b", cost=None))
    assert made.cost() is None


def test_a_person_knows_an_agent_by_its_name_and_its_id() -> None:
    made = team(sent("agent-1", name="callers"), sent("agent-2"))
    assert [made.display_name(agent) for agent in ("agent-1", "agent-2", "main")] == [
        "callers (agent-1)", "agent-2", "main",
    ]  # fmt: skip


def test_agents_below_one_are_indented_from_there() -> None:
    made = team(sent("a"), sent("a1", "a"), sent("a11", "a1"), sent("b"))
    assert [(row.agent, row.depth) for row in made.below("a")] == [("a1", 0), ("a11", 1)]
