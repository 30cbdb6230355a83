"""The agents of an open session, as every surface lists and controls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.core.store.nodes import Node
from agent.core.store.operations import Operation
from agent.errors import HermesError
from agent.events import AgentEnded, CopyChanged, Event
from agent.session.conversation.live_session import LiveSession
from agent.session.subagents.agent_runner import start_event
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import TURN_OUTCOMES
from agent.workspace.checkpoints.restore.apply import Restored
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import Choice
from tools.context import Todo
from tools.results import ToolError

if TYPE_CHECKING:
    from agent.session.history.navigation import HistoryNavigation
    from agent.session.subagents.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class AgentConversation:
    """The conversation of an agent, and its task list."""

    path: tuple[Node, ...]
    todos: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class AgentCopy:
    """A copy of the workspace that an agent changed."""

    agent: str
    ended: bool
    """True if the agent has ended; while it works, its copy cannot be discarded."""


class Agents:
    """The agents that the session started. Most methods raise `HermesError` if none can be started."""

    def __init__(self, scheduler: Callable[[], Scheduler], history: HistoryNavigation) -> None:
        """Create the interface. `scheduler` raises `HermesError` if agents cannot be started."""
        self._scheduler = scheduler
        self._history = history

    async def recall(self) -> Sequence[Event]:
        """Return events that show all agents so far: start, end, and copies with changes."""
        try:
            agents = self._scheduler()
        except HermesError:
            return ()
        runs = agents.runs()
        copies = agents.services.workspaces.copies
        left = () if copies is None else ((run.id, copies.unmerged_count(run.id)) for run in runs)
        held = [CopyChanged(agent=agent, paths=paths) for agent, paths in left if paths]
        return [*(each for run in runs for each in _earlier_events(run)), *held]

    async def waiting(self, agent: str) -> Sequence[str]:
        """Return the messages that an agent will read when it works next; empty for an unknown agent."""
        try:
            return tuple(self._run(agent).inputs)
        except HermesError:
            return ()

    async def conversation(self, agent: str) -> AgentConversation:
        """Return the conversation of an agent so far, whether it works or not."""
        run = self._run(agent)
        if run.child is not None:
            # Without a wait if nothing was released: then no event comes in between.
            session = run.child.session
            return AgentConversation(tuple(await session.whole_path()), session.todos())
        store = self._scheduler().services.store
        path = await store.path(run.record.id)
        return AgentConversation(tuple(path), LiveSession(store, run.record, path, _unheard).todos())

    async def has_ended(self, agent: str) -> bool:
        return self._run(agent).is_over

    async def toggle_pause(self, agent: str) -> None:
        """Pause or resume an agent and all agents below it. Raises `HermesError` if it has ended."""
        run = self._run(agent)
        if run.is_over:
            raise HermesError(f"{run.id} has ended; open it and tell it something to let it continue.")
        with _as_error():
            if run.pause.on:
                await self._scheduler().resume(agent)
            else:
                self._scheduler().pause(agent)

    async def tell(self, agent: str, text: str) -> None:
        """Send a message to an agent, which reads it before its next request. An ended agent continues."""
        with _as_error():
            await self._scheduler().send_input(agent, text)

    async def kill(self, agent: str) -> None:
        """Stop an agent and all agents below it."""
        with _as_error():
            await self._scheduler().kill(agent)

    async def copies(self) -> Sequence[AgentCopy]:
        """Return the copies with unmerged changes."""
        agents = self._scheduler()
        return tuple(AgentCopy(run.id, run.is_over) for run in agents.runs() if agents.copies.holds(run.id))

    async def holds_copy(self, agent: str) -> bool:
        return self._scheduler().copies.holds(agent)

    async def plan_merge(self, agent: str) -> RestorePlan:
        """Return the plan for merging an agent's copy into the project."""
        return await self._scheduler().copies.plan_merge(agent)

    async def merge(
        self,
        agent: str,
        plan: RestorePlan,
        choices: Mapping[str, Choice],
        label: str,
        note: str,
        onto: Operation | None = None,
    ) -> Restored:
        """Merge a copy into the project, and return the result.

        `label` names the merge for an undo, and `note` informs the model. With `onto`, an undo of that
        operation reverts the merge too.
        """
        run, copies = self._run(agent), self._scheduler().copies
        return await self._history.bring_in(lambda: copies.merge(run, plan, choices), label, note, onto=onto)

    async def discard(self, agent: str) -> int:
        """Discard an agent's copy; return the number of changed paths that it had."""
        return await self._scheduler().copies.discard(self._run(agent))

    def _run(self, agent: str) -> LiveAgent:
        """Return the agent with this id. Raises `HermesError` if there is none."""
        with _as_error():
            return self._scheduler().run(agent)


@contextmanager
def _as_error() -> Iterator[None]:
    """Turn a `ToolError` into a `HermesError`, which is shown to the user."""
    try:
        yield
    except ToolError as error:
        raise HermesError(str(error)) from None


def _earlier_events(run: LiveAgent) -> list[Event]:
    """Return the start event of an agent, and its end event if it has ended."""
    told: list[Event] = [start_event(run)]
    if (report := run.report) is not None:
        told.append(
            AgentEnded(
                agent=run.id,
                outcome=TURN_OUTCOMES[report.outcome],
                summary=report.headline,
                seconds=report.seconds,
                calls=run.calls,
                tokens=report.usage.known_tokens,
                cost=report.usage.cost,
                budget=None,
            )
        )
    return told


def _unheard(_event: Event) -> None:
    """Ignore an event of a session that was opened only for reading."""
