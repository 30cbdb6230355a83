"""What the person does with agents: look at one, tell it something, hold it, stop it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.events import AgentEnded, AgentStarted, CopyChanged, Event
from tools.results import ToolError
from tools.text import clean
from widgets.panes.agent_row import UNDER_WAY
from widgets.row_text import one_line

if TYPE_CHECKING:
    from agent.engine import Engine
    from agent.store.nodes import Node
    from agent.subagents.run import Run
    from agent.subagents.scheduler import Scheduler
    from app.application import HermesApp
    from tools.context import Todo

SUMMARY_CHARS = 300
"""Characters of a report that a row tells."""


@dataclass(frozen=True, slots=True)
class Past:
    """What the session has of an agent."""

    path: Sequence[Node]
    todos: tuple[Todo, ...]


class Agents:
    """The agents of one application. What goes wrong is one sentence on the screen."""

    def __init__(self, app: HermesApp) -> None:
        self._app = app
        self.drafts: dict[str, str] = {}
        """What was written for an agent and not sent, by its id."""

    # What the person asks for

    async def kill(self, agent: str) -> None:
        """Stop an agent and all it sent for good, after a question. Run it as a worker."""
        from app.screens.confirm import ConfirmDialog

        row = self._app.bridge.team.row(agent)
        if row is None or row.state == "stopping":
            return
        if row.state not in UNDER_WAY:
            self._app.say(f"{one_line(row.name)} has ended already.")
            return
        below = sum(each.state in UNDER_WAY for each in self._app.bridge.team.below(agent))
        also = f" The {below} agents below it stop too." if below > 1 else ""
        also = " The agent below it stops too." if below == 1 else also
        name = self._app.bridge.team.called(agent)
        question = f"Stop {name} for good?{also} What it has done so far is kept."
        if await self._app.push_screen_wait(ConfirmDialog(question, "Stop it", "Let it work")):
            await self._guarded(lambda: self._kill(agent))

    async def pause(self, agent: str) -> None:
        """Hold an agent and all it sent, or let them go on."""

        async def change() -> None:
            scheduler = self._scheduler()
            run = scheduler.run(agent)
            if run.is_over:
                raise HermesError(f"{run.id} has ended; open it and tell it something to let it go on.")
            if run.pause.on:
                await scheduler.resume(agent)
            else:
                scheduler.pause(agent)

        await self._guarded(change)

    async def tell(self, agent: str, text: str) -> bool:
        """Tell an agent something before its next request; one that has ended goes on. Whether it worked."""
        return await self._guarded(lambda: self._scheduler().send_input(agent, text))

    def clear_ended(self) -> None:
        """Clear the rows of agents that are over away; they come back when one goes on."""
        count = self._app.bridge.clear_ended_agents()
        stays = any(row.unmerged and row.state not in UNDER_WAY for row in self._app.bridge.team.rows())
        gone = f"{count} cleared away." if count else "No agent is over." if not stays else ""
        kept = "Agents with changes that are not merged stay; m merges or discards them." if stays else ""
        self._app.say(" ".join(filter(None, (gone, kept))))

    def waiting(self, agent: str) -> tuple[str, ...]:
        """What an agent that is not at work reads first when it is."""
        try:
            return tuple(self._run(agent).inputs)
        except (HermesError, ToolError):
            return ()

    async def past(self, agent: str) -> Past:
        """What an agent has said and done so far, whether it works or not. Raises `HermesError`."""
        from agent.session import LiveSession

        try:
            run = self._run(agent)
        except ToolError as error:
            raise HermesError(str(error)) from None
        if run.child is not None:
            # Without a pause where nothing was let go of: then no event comes in between.
            return Past(await run.child.session.whole_path(), run.child.session.todos())
        store = self._scheduler().services.store
        path = await store.path(run.record.id)
        return Past(path, LiveSession(store, run.record, path, _unheard).todos())

    def recall(self, engine: Engine) -> None:
        """Show the agents of earlier processes, which nobody tells of."""
        self.drafts.clear()
        try:
            runs = engine.agents.runs()
        except HermesError:
            return
        known = self._app.bridge.team
        told = [each for run in runs if known.row(run.id) is None for each in _told(run)]
        copies = engine.agents.services.grounds.copies
        left = () if copies is None else ((run.id, copies.unmerged(run.id)) for run in runs)
        held = [CopyChanged(agent=agent, paths=paths) for agent, paths in left if paths]
        self._app.bridge.recall([*told, *held])

    # Steps they are made of

    def _scheduler(self) -> Scheduler:
        return self._app.need_engine().agents

    def _run(self, agent: str) -> Run:
        return self._scheduler().run(agent)

    async def _kill(self, agent: str) -> None:
        scheduler = self._scheduler()
        if not scheduler.run(agent).is_over:
            self._app.bridge.stopping(agent)
            await scheduler.kill(agent)

    async def _guarded(self, act: Callable[[], Awaitable[object]]) -> bool:
        try:
            await act()
        except (HermesError, ToolError) as error:
            self._app.complain(str(error))
            return False
        return True


def _told(run: Run) -> list[Event]:
    """How an agent of an earlier process began and ended."""
    from agent.subagents.records import TURN_OUTCOMES

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
