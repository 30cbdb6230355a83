"""Scenes with agents: what the application is told while several of them work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.core.event_data import Usage
from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    AssistantMessageAdded,
    CopyChanged,
    Event,
    QuestionAsked,
    SessionOpened,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageChanged,
    UserMessageAdded,
)
from agent.session.subagents.records import Task
from tests.support.staged import Staged
from tools.context import Todo
from tools.results import Display, TextDetail

OPENED = SessionOpened(
    session="s", title="Fix the rounding of JPY", model="qwen3-coder", workspace="/home/ada/payments-api"
)
OWN_TASKS = (
    Todo("1", "Reproduce with a failing test", "completed"),
    Todo("2", "Find every place that rounds", "in_progress"),
    Todo("3", "Use Decimal in money.round()", "pending"),
)
THEIR_TASKS = (
    Todo("1", "List the callers", "completed"),
    Todo("2", "Read api/views.py", "completed"),
    Todo("3", "Read api/forms.py", "in_progress"),
    Todo("4", "Check the templates", "pending"),
    Todo("5", "Report", "pending"),
)
GOAL = "Find every caller of money.round() and say what each expects"


def sent(agent: str, name: str, goal: str, parent: str = "main") -> AgentStarted:
    return AgentStarted(agent=agent, name=name, goal=goal, parent=parent, call="c1")


def stands(agent: str, action: str, **fields: object) -> AgentProgressed:
    return AgentProgressed(agent=agent, action=action, **fields)  # type: ignore[arg-type]


def beginning() -> list[Event]:
    """A session whose agent has just sent three others."""
    return [
        OPENED,
        UsageChanged(
            request=Usage(1, 1),
            session_input=61_000,
            session_output=4_000,
            session_cached=59_000,
            session_cost=0.311,
            context_used=61_000,
            context_window=100_000,
        ),
        TurnStarted(turn=1),
        UserMessageAdded(
            node=1, text="The invoice totals are off by a cent for JPY. Find out why and fix it."
        ),
        TodosChanged(items=OWN_TASKS),
        AssistantMessageAdded(
            node=2, text="I'll have the callers, the history and the docs looked at side by side."
        ),
        ToolStarted(call="c1", tool="delegate_task", arguments={}, display=Display("delegate", "3 tasks")),
        sent("agent-1", "callers", GOAL),
        sent("agent-2", "history", "Find the commit that changed how totals are rounded"),
        sent("agent-3", "docs", "Collect what the docs promise about rounding"),
        TodosChanged(agent="agent-1", items=THEIR_TASKS),
    ]


def busy(app: Staged) -> None:
    """Three agents at work, one of which sent two more, and several that are over."""
    app.hear(beginning())
    asked = QuestionAsked(
        agent="agent-2",
        id="q1",
        question="May I fetch the old branch?",
        choices=(),
        allow_freetext=True,
        reply=asyncio.Future(),
    )
    for seconds, tokens in ((6, 900), (8, 2_100), (10, 4_700), (9, 8_100)):
        app.clock.now += seconds
        app.hear([stands("agent-1", "read api/forms.py", calls=11, tokens=tokens, cost=0.03, budget=0.5)])
    app.hear(
        [
            stands("agent-2", "git log -S round", calls=4, tokens=2_300, cost=0.01, budget=0.12),
            sent("agent-4", "templates", "Check the templates", "agent-1"),
            stands("agent-4", "search {{ total }}", calls=2, tokens=700, cost=0.004, budget=0.93),
            sent("agent-5", "forms", "Check the forms", "agent-1"),
            AgentEnded(
                agent="agent-3",
                outcome="done",
                summary="4 findings",
                seconds=29,
                calls=6,
                tokens=3_900,
                cost=0.02,
            ),
            sent("agent-6", "licence", "Look at the licence"),
            AgentEnded(
                agent="agent-6",
                outcome="budget",
                summary="Half of it read.",
                seconds=61,
                tokens=50_000,
                cost=0.08,
            ),
            sent("agent-7", "agent-7", "Rewrite everything"),
            AgentEnded(
                agent="agent-7",
                outcome="interrupted",
                summary="It was stopped.",
                seconds=3,
                tokens=10,
                cost=0.001,
            ),
        ]
    )
    app.bridge.team.handle(asked)
    app.hear([stands("agent-2", "asks", calls=4, tokens=2_300, cost=0.01, budget=0.12)])


def unmerged(app: Staged) -> None:
    """Agents that worked in copies are over: what two of them changed waits to be merged."""
    app.hear(beginning())
    ends = (("agent-1", "done", "All callers pass the currency."), ("agent-2", "failed", "No such commit."))
    app.hear(
        [
            CopyChanged(agent="agent-1", paths=3),
            CopyChanged(agent="agent-2", paths=1_204),
            *(
                AgentEnded(agent=agent, outcome=outcome, summary=said, seconds=61, tokens=8_100, cost=0.03)  # type: ignore[arg-type]
                for agent, outcome, said in ends
            ),
            AgentEnded(
                agent="agent-3", outcome="done", summary="4 findings", seconds=29, tokens=3_900, cost=0.02
            ),
        ]
    )


def conversation(agent: str = "agent-1") -> Sequence[Event]:
    """What an agent has said and done since it was sent."""
    read = Display("read", "src/money.py 1–80", "80 lines", TextDetail("1|def round(amount, currency):"))
    return [
        UserMessageAdded(agent=agent, node=11, text=Task(goal=GOAL).message()),
        ToolStarted(
            agent=agent, call="1", tool="read_file", arguments={"path": "src/money.py"}, display=read
        ),
        ToolFinished(
            agent=agent,
            node=13,
            call="1",
            tool="read_file",
            outcome="done",
            seconds=0.1,
            result="{}",
            display=read,
        ),
        AssistantMessageAdded(
            agent=agent,
            node=14,
            text="`round()` treats all currencies as if they had two digits. I look at who calls it.",
        ),
        ToolStarted(
            agent=agent, call="2", tool="search", arguments={}, display=Display("search", '"round(" in src')
        ),
        TextAdded(agent=agent, text=""),
    ]
