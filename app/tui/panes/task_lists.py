"""The task lists of all agents; a subagent's list belongs below the task for which the agent was started."""

from __future__ import annotations

from dataclasses import replace

from agent.events import AgentStarted, Event, TodosChanged
from tools.context import Todo
from widgets.panes.todo import TasksBelow


class TodoTree:
    """The tasks of each agent, and the parent's task for which each agent was started."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Todo, ...]] = {}
        self._sent: dict[str, TasksBelow] = {}
        """The place of each agent, without its tasks."""

    def hear(self, event: Event) -> bool:
        """Record an event; return whether the lists look different now."""
        match event:
            case TodosChanged():
                self._lists[event.agent] = event.items
                return True
            case AgentStarted() if event.agent not in self._sent:
                self._sent[event.agent] = TasksBelow(
                    event.agent, event.name, event.parent, self._in_progress(event.parent)
                )
        return False

    def items(self) -> tuple[Todo, ...]:
        """Return the tasks of the main agent."""
        return self.of("main")

    def of(self, agent: str) -> tuple[Todo, ...]:
        """Return the tasks of one agent."""
        return self._lists.get(agent, ())

    def below(self, owner: str = "main") -> tuple[TasksBelow, ...]:
        """Return the lists of agents below `owner`, in the order the agents were started.

        A list whose parent agent has none moves to the place of that agent.
        """
        found: list[TasksBelow] = []
        for agent, place in self._sent.items():
            items = self.of(agent)
            if items and (standing := self._place(place, owner)) is not None:
                found.append(standing.having(items))
        return tuple(found)

    def _place(self, place: TasksBelow, owner: str) -> TasksBelow | None:
        """Return the place of a list below `owner`; None if it is not below."""
        sender, task = place.sender, place.task
        passed = {place.agent}
        while sender != owner and not self.of(sender):
            above = self._sent.get(sender)
            if above is None or sender in passed:
                return None
            passed.add(sender)
            sender, task = above.sender, above.task
        return replace(place, sender=sender, task=task) if self._is_below(sender, owner) else None

    def _is_below(self, agent: str, owner: str) -> bool:
        passed: set[str] = set()
        while agent != owner:
            above = self._sent.get(agent)
            if above is None or agent in passed:
                return False
            passed.add(agent)
            agent = above.sender
        return True

    def clear(self) -> None:
        """Forget all lists, as when another session opens."""
        self._lists.clear()
        self._sent.clear()

    def _in_progress(self, agent: str) -> str:
        """Return the id of the task an agent works on; empty if there is none."""
        return next((item.id for item in self.of(agent) if item.status == "in_progress"), "")
