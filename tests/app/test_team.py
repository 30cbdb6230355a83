"""Subagents: events in, rows of the pane out."""

from __future__ import annotations

import asyncio

from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Event,
    QuestionAsked,
    RequestResolved,
    TurnStarted,
)
from app.team import Team
from tests.widgets.panes.host import Host, lines


def team(*events: Event) -> Team:
    made = Team(lambda: 100.0)
    for event in events:
        made.hear(event)
    return made


def sent(agent: str, parent: str = "main", name: str = "") -> AgentStarted:
    return AgentStarted(agent=agent, parent=parent, name=name or agent, goal=f"the goal of {agent}")


def states(made: Team) -> list[tuple[str, str, int]]:
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
    made.hear(AgentEnded(agent="a", outcome="done", summary="4 findings", seconds=12.5, calls=5))
    row = made.rows()[0]
    assert (row.state, row.action, row.seconds, row.since) == ("done", "4 findings", 12.5, None)


def test_every_end_has_a_state_of_its_own() -> None:
    made = team(*(sent(name) for name in ("done", "failed", "denied", "interrupted", "budget")))
    for name in ("done", "failed", "denied", "interrupted", "budget"):
        made.hear(AgentEnded(agent=name, outcome=name, summary="s", seconds=1))  # type: ignore[arg-type]
    assert [row.state for row in made.rows()] == ["done", "failed", "denied", "interrupted", "budget"]


async def test_an_agent_that_asks_wants_attention_until_it_is_answered() -> None:
    question = QuestionAsked(
        agent="a", id="q", question="?", choices=(), allow_freetext=True, reply=asyncio.Future()
    )
    made = team(sent("a"), AgentProgressed(agent="a", action="working"))
    assert made.hear(question) and states(made) == [("a", "waiting", 0)]
    assert not made.hear(RequestResolved(id="other", outcome="answered"))
    assert made.hear(RequestResolved(id="q", outcome="answered"))
    assert made.rows()[0].action == "working"
    made.hear(question)
    made.hear(AgentEnded(agent="a", outcome="interrupted", summary="stopped", seconds=1))
    assert states(made) == [("a", "interrupted", 0)]


def test_what_is_not_about_subagents_changes_nothing() -> None:
    made = team()
    assert not made.hear(TurnStarted(turn=1))
    assert not made.hear(AgentProgressed(agent="never sent"))
    assert not made.hear(AgentEnded(agent="never sent", outcome="done", summary="", seconds=1))
    assert made.rows() == [] and made.row("never sent") is None and made.below("never sent") == []


def test_an_agent_sent_twice_or_by_itself_is_one_row() -> None:
    made = team(sent("a", "a"), sent("b", "a"), sent("a", "b"), sent("b", "b"))
    assert states(made) == [("a", "pending", 0), ("b", "pending", 1)]


def test_a_chain_of_many_agents_is_walked() -> None:
    made = team(*(sent(str(number), str(number - 1)) for number in range(3_000)))
    assert made.rows()[-1].depth == 2_999


async def test_the_pane_shows_the_tree_and_time_goes_on() -> None:
    app = Host(filled=False)

    made = Team(lambda: 100.0)
    for event in (
        sent("a", name="callers"),
        AgentProgressed(
            agent="a", action="reading api/views.py", calls=11, tokens=8100, budget=0.5, cost=0.03
        ),
        sent("b", "a", name="views"),
        AgentProgressed(agent="b", state="waiting", action="asks you", calls=1),
    ):
        made.hear(event)
    async with app.run_test(size=(120, 40)) as pilot:
        app.agents.show(made.rows())
        app.seconds = 142.0
        await pilot.pause(0.1)
        rows = lines(app.agents)
        assert rows[0].endswith("◆1  2 live")
        assert rows[1].startswith(" ▶ callers  the goal of a")
        assert rows[2].startswith("   reading api/views.py")
        assert rows[4].startswith(" ◆ └ views    the goal of b") and rows[5].startswith("     asks you")
        app.seconds = 163.0
        await pilot.pause(1.1)
        assert lines(app.agents)[3].startswith("   1:03 · 11 calls · 8.1k ▕██░░▏ $0.03")
        assert lines(app.agents)[6].startswith("     1:03 · 1 call")
