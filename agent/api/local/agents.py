"""The agents of an engine in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.api.session import AgentConversation, AgentCopy, Choices
from agent.core.store.operations import Operation
from agent.errors import HermesError
from agent.events import AgentEnded, AgentStarted, CopyChanged, Event
from agent.session.conversation.live_session import LiveSession
from agent.session.engine import Engine
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import TURN_OUTCOMES
from agent.workspace.checkpoints.restore.apply import Restored
from agent.workspace.checkpoints.restore.plan import RestorePlan
from tools.results import ToolError
from tools.text.safe_text import clean

SUMMARY_CHARS = 300
"""Characters of a report that is told of an agent of an earlier process."""


class LocalAgents:
    """What `Agents` asks for. Each method raises `HermesError` where none can be sent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def recall(self) -> Sequence[Event]:
        try:
            agents = self._engine.agents
        except HermesError:
            return ()
        runs = agents.runs()
        copies = agents.services.workspaces.copies
        left = () if copies is None else ((run.id, copies.unmerged(run.id)) for run in runs)
        held = [CopyChanged(agent=agent, paths=paths) for agent, paths in left if paths]
        return [*(each for run in runs for each in _told(run)), *held]

    async def waiting(self, agent: str) -> Sequence[str]:
        try:
            return tuple(self._run(agent).inputs)
        except HermesError:
            return ()

    async def conversation(self, agent: str) -> AgentConversation:
        run = self._run(agent)
        if run.child is not None:
            # Without a pause where nothing was let go of: then no event comes in between.
            session = run.child.session
            return AgentConversation(tuple(await session.whole_path()), session.todos())
        store = self._engine.agents.services.store
        path = await store.path(run.record.id)
        return AgentConversation(tuple(path), LiveSession(store, run.record, path, _unheard).todos())

    async def has_ended(self, agent: str) -> bool:
        return self._run(agent).is_over

    async def toggle_pause(self, agent: str) -> None:
        run = self._run(agent)
        if run.is_over:
            raise HermesError(f"{run.id} has ended; open it and tell it something to let it go on.")
        with _as_error():
            if run.pause.on:
                await self._engine.agents.resume(agent)
            else:
                self._engine.agents.pause(agent)

    async def tell(self, agent: str, text: str) -> None:
        with _as_error():
            await self._engine.agents.send_input(agent, text)

    async def kill(self, agent: str) -> None:
        with _as_error():
            await self._engine.agents.kill(agent)

    async def copies(self) -> Sequence[AgentCopy]:
        agents = self._engine.agents
        return tuple(AgentCopy(run.id, run.is_over) for run in agents.runs() if agents.copies.holds(run.id))

    async def holds_copy(self, agent: str) -> bool:
        return self._engine.agents.copies.holds(agent)

    async def plan_merge(self, agent: str) -> RestorePlan:
        return await self._engine.agents.copies.plan_merge(agent)

    async def merge(
        self,
        agent: str,
        plan: RestorePlan,
        choices: Choices,
        label: str,
        note: str,
        onto: Operation | None = None,
    ) -> Restored:
        run, copies = self._run(agent), self._engine.agents.copies
        return await self._engine.travel.bring_in(
            lambda: copies.merge(run, plan, choices), label, note, onto=onto
        )

    async def discard(self, agent: str) -> int:
        return await self._engine.agents.copies.discard(self._run(agent))

    def _run(self, agent: str) -> LiveAgent:
        """Raises `HermesError` for an agent nobody sent."""
        with _as_error():
            return self._engine.agents.run(agent)


@contextmanager
def _as_error() -> Iterator[None]:
    """What the tools of a model are told, as an error for the person."""
    try:
        yield
    except ToolError as error:
        raise HermesError(str(error)) from None


def _told(run: LiveAgent) -> list[Event]:
    """How an agent of an earlier process began and ended."""
    name = clean(run.task.name or run.id)
    told: list[Event] = [
        AgentStarted(agent=run.id, parent=run.parent, call=run.call, name=name, goal=clean(run.task.goal))
    ]
    if (report := run.report) is not None:
        told.append(
            AgentEnded(
                agent=run.id,
                outcome=TURN_OUTCOMES[report.outcome],
                summary=clean(report.summary or report.error)[:SUMMARY_CHARS],
                seconds=report.seconds,
                calls=run.calls,
                tokens=report.usage.tokens,
                cost=report.usage.cost,
                budget=None,
            )
        )
    return told


def _unheard(_event: Event) -> None:
    """A session that is only read tells nobody."""
