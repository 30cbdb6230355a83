"""The subagents of a session: from events to the rows of their pane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    ApprovalAsked,
    Event,
    QuestionAsked,
    RequestResolved,
    TurnOutcome,
)
from widgets.panes import figures
from widgets.panes.agents import AgentRow, AgentState

ENDED: Mapping[TurnOutcome, AgentState] = {
    "done": "done",
    "failed": "failed",
    "denied": "denied",
    "interrupted": "interrupted",
    "budget": "interrupted",
}


@dataclass(slots=True)
class _Member:
    row: AgentRow
    goal: str
    children: list[str] = field(default_factory=list)


class Team:
    """Who was sent by whom and how each stands. `clock` gives seconds, as the pane's does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._members: dict[str, _Member] = {}
        self._top: list[str] = []
        self._asking: dict[str, str] = {}
        """Requests that wait for the person, and the agents that asked."""

    def hear(self, event: Event) -> bool:
        """Take in an event. Whether a row looks different now."""
        match event:
            case AgentStarted():
                self._start(event)
            case AgentProgressed() if event.agent in self._members:
                self._change(
                    event.agent,
                    state=event.state,
                    action=event.action,
                    calls=event.calls,
                    tokens=event.tokens,
                    cost=event.cost,
                    budget=event.budget,
                )
            case AgentEnded() if event.agent in self._members:
                self._end(event)
            case QuestionAsked() | ApprovalAsked() if event.agent in self._members:
                self._asking[event.id] = event.agent
            case RequestResolved() if event.id in self._asking:
                del self._asking[event.id]
            case _:
                return False
        return True

    def rows(self) -> list[AgentRow]:
        """Every subagent below the one that sent it, siblings in the order they were sent."""
        asking = set(self._asking.values())
        return [
            replace(row, state="waiting", action="asks you")
            if row.agent in asking and row.state in ("pending", "running")
            else row
            for row in self._walk(self._top)
        ]

    def report(self, agent: str) -> str:
        """What is known of a subagent, as text for a person; empty for one that is not known."""
        member = self._members.get(agent)
        if member is None:
            return ""
        row = next(row for row in self.rows() if row.agent == agent)
        seconds = row.seconds if row.since is None else self._clock() - row.since
        spent = [
            figures.elapsed(seconds),
            f"{row.calls} call{'s' * (row.calls != 1)}",
            f"{figures.tokens(row.tokens)} tokens",
            figures.money(row.cost),
        ]
        if row.budget is not None:
            spent.append(f"{figures.percent(row.budget)} of its budget")
        return "\n".join([f"{row.name} · {row.state}", " · ".join(spent), "", member.goal, "", row.action])

    def clear(self) -> None:
        """Forget everything, as when another session opens."""
        self._members.clear()
        self._top.clear()
        self._asking.clear()

    def _start(self, event: AgentStarted) -> None:
        known = self._members.get(event.agent)
        above = self._members.get(event.parent)
        depth = known.row.depth if known else above.row.depth + 1 if above else 0
        row = AgentRow(
            agent=event.agent,
            name=event.name,
            state="pending",
            action=event.goal,
            since=self._clock(),
            depth=depth,
        )
        if known is not None:
            # The same agent once more: it keeps its place and what stands below it.
            known.row, known.goal = row, event.goal
            return
        self._members[event.agent] = _Member(row, event.goal)
        (above.children if above else self._top).append(event.agent)

    def _end(self, event: AgentEnded) -> None:
        self._asking = {id: agent for id, agent in self._asking.items() if agent != event.agent}
        why = "budget reached · " if event.outcome == "budget" else ""
        self._change(
            event.agent,
            state=ENDED[event.outcome],
            action=why + event.summary,
            seconds=event.seconds,
            since=None,
            calls=event.calls,
            tokens=event.tokens,
            cost=event.cost,
            budget=event.budget,
        )

    def _change(self, agent: str, **fields: object) -> None:
        member = self._members[agent]
        member.row = replace(member.row, **fields)  # type: ignore[arg-type]

    def _walk(self, agents: list[str]) -> Iterator[AgentRow]:
        waiting = agents[::-1]
        while waiting:
            member = self._members[waiting.pop()]
            yield member.row
            waiting += member.children[::-1]
