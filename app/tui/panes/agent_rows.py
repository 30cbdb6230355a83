"""The subagents of a session: the rows of their pane, derived from events, and their total cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Asked,
    CopyChanged,
    Event,
    RequestResolved,
    TurnOutcome,
)
from widgets.panes.agents import UNDER_WAY, AgentRow, AgentState, Pulse

ENDED: Mapping[TurnOutcome, AgentState] = {
    "done": "done",
    "failed": "failed",
    "denied": "denied",
    "interrupted": "interrupted",
    "budget": "budget",
}


@dataclass(slots=True)
class _Member:
    row: AgentRow
    parent: str
    children: list[str] = field(default_factory=list)
    cost: float | None = 0.0
    """The agent's cost in US dollars, as last reported; None if unknown."""
    cleared: bool = False
    """True if the user removed the row."""
    in_copy: bool = False


class AgentRows:
    """The tree of subagents and the state of each. `clock` returns seconds, like the clock of the pane."""

    HEARD = (AgentStarted, AgentProgressed, AgentEnded, CopyChanged, Asked, RequestResolved)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._members: dict[str, _Member] = {}
        self._top: list[str] = []
        self._asking: dict[str, str] = {}
        """The requests that wait for the user: the asking agent by request id."""
        self._stopping: set[str] = set()

    def handle(self, event: Event) -> bool:
        """Record an event; return whether rows may have changed."""
        match event:
            case AgentStarted():
                self._start(event)
            case AgentProgressed() if event.agent in self._members:
                self._progress(event)
            case AgentEnded() if event.agent in self._members:
                self._end(event)
            case CopyChanged() if event.agent in self._members:
                member = self._members[event.agent]
                member.row = replace(member.row, unmerged=event.paths)
            case Asked() if event.agent in self._members:
                self._asking[event.id] = event.agent
            case RequestResolved() if event.id in self._asking:
                del self._asking[event.id]
            case _:
                return False
        return True

    def rows(self) -> list[AgentRow]:
        """Return the rows of all agents, each below its parent, siblings in the order they were started.

        Trees with a running agent come first, then those that have ended completely. Rows of cleared agents
        are left out.
        """
        asking = set(self._asking.values())
        trees = [[self._with_live_state(row, asking) for row in self._walk(top)] for top in self._top]
        busy = [any(row.state in UNDER_WAY for row in tree) for tree in trees]
        return [
            row
            for wanted in (True, False)
            for tree, is_busy in zip(trees, busy, strict=True)
            if is_busy is wanted
            for row in tree
        ]

    def row(self, agent: str) -> AgentRow | None:
        """Return the row of one agent; None if the agent is unknown."""
        member = self._members.get(agent)
        return None if member is None else self._with_live_state(member.row, set(self._asking.values()))

    def display_name(self, agent: str) -> str:
        """Return the name of an agent, followed by its id if it differs from the name."""
        member = self._members.get(agent)
        if member is None or member.row.name == agent:
            return agent
        return f"{member.row.name} ({agent})"

    def is_in_copy(self, agent: str) -> bool:
        """Return whether the agent works in a copy of the workspace."""
        return agent in self._members and self._members[agent].in_copy

    def parent(self, agent: str) -> str:
        """Return the id of the agent that started this one; `main` if the agent is unknown."""
        return self._members[agent].parent if agent in self._members else "main"

    def below(self, agent: str) -> list[AgentRow]:
        """Return the rows of all descendants of an agent; their depth counts from that agent."""
        member = self._members.get(agent)
        if member is None:
            return []
        asking, top = set(self._asking.values()), member.row.depth + 1
        return [
            replace(self._with_live_state(row, asking), depth=row.depth - top)
            for child in member.children
            for row in self._walk(child)
        ]

    def cost(self) -> float | None:
        """Return the cost of all subagents together in US dollars; None if that of one is unknown."""
        costs = [member.cost for member in self._members.values()]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def mark_stopping(self, agent: str) -> None:
        """Show an agent and its descendants as stopping until they have ended."""
        chosen = [agent, *(row.agent for row in self.below(agent))]
        self._stopping.update(id for id in chosen if self._is_under_way(id))

    def clear_ended(self) -> int:
        """Remove the rows of trees of agents that have ended; return the number of rows.

        A tree remains if one of its agents has unmerged changes.
        """
        count = 0
        for top in self._top:
            tree = [self._members[row.agent] for row in self._walk(top)]
            if not any(member.row.state in UNDER_WAY or member.row.unmerged for member in tree):
                count += len(tree)
                for member in tree:
                    member.cleared = True
        return count

    def clear(self) -> None:
        """Remove all agents, because another session opens."""
        self._members.clear()
        self._top.clear()
        self._asking.clear()
        self._stopping.clear()

    def _start(self, event: AgentStarted) -> None:
        known = self._members.get(event.agent)
        above = self._members.get(event.parent)
        depth = known.row.depth if known else above.row.depth + 1 if above else 0
        now = self._clock()
        before = known.row if known else None
        row = AgentRow(
            agent=event.agent,
            name=event.name,
            state="pending",
            goal=event.goal,
            since=now,
            depth=depth,
            unmerged=before.unmerged if before else 0,
            tokens=before.tokens if before else None,
            cost=before.cost if before else None,
            pulse=Pulse().with_count(now, (before.tokens or 0) if before else 0),
        )
        self._stopping.discard(event.agent)
        if known is not None:
            # The agent was started again: it keeps its place and its descendants.
            known.row, known.cleared = row, False
            self._show_cleared(known.parent)
            return
        self._members[event.agent] = _Member(row, event.parent, in_copy=event.in_copy)
        (above.children if above else self._top).append(event.agent)
        self._show_cleared(event.parent)

    def _show_cleared(self, agent: str) -> None:
        """Show the cleared rows of an agent that runs again and of its ancestors."""
        while (member := self._members.get(agent)) is not None and member.cleared:
            member.cleared = False
            agent = member.parent

    def _progress(self, event: AgentProgressed) -> None:
        member = self._members[event.agent]
        member.cost = event.cost
        member.row = replace(
            member.row,
            state=event.state,
            action=event.action,
            calls=event.calls,
            tokens=event.tokens,
            cost=event.cost,
            budget=event.budget,
            pulse=member.row.pulse.with_count(self._clock(), event.tokens or 0),
        )

    def _end(self, event: AgentEnded) -> None:
        self._asking = {id: agent for id, agent in self._asking.items() if agent != event.agent}
        self._stopping.discard(event.agent)
        member = self._members[event.agent]
        member.cost = event.cost
        member.row = replace(
            member.row,
            state=ENDED[event.outcome],
            action=event.summary,
            seconds=event.seconds,
            since=None,
            calls=event.calls,
            tokens=event.tokens,
            cost=event.cost,
            budget=event.budget,
        )

    def _is_under_way(self, agent: str) -> bool:
        return agent in self._members and self._members[agent].row.state in UNDER_WAY

    def _with_live_state(self, row: AgentRow, asking: set[str]) -> AgentRow:
        """Return the row with its state replaced if the agent is stopping or waits for an answer."""
        if row.state not in UNDER_WAY:
            return row
        if row.agent in self._stopping:
            return replace(row, state="stopping")
        return replace(row, state="waiting") if row.agent in asking else row

    def _walk(self, *agents: str) -> Iterator[AgentRow]:
        waiting = list(agents)
        while waiting:
            member = self._members[waiting.pop()]
            if not member.cleared:
                yield member.row
            waiting += member.children[::-1]
