"""All agents of one session: sent, steered, let go on, and found again after a crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from agent.core.event_data import Measure
from agent.core.store.nodes import Session, title_of
from agent.errors import HermesError
from agent.model.protocol import ToolSpec
from agent.model.transport.waits import Pause, Throttle
from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.subagents import agent_table
from agent.session.subagents.agent_copies import NOT_KEPT, AgentCopies
from agent.session.subagents.agent_register import AgentRegister
from agent.session.subagents.agent_runner import AgentRunner
from agent.session.subagents.agent_table import StoredAgent
from agent.session.subagents.live_agent import MAIN_AGENT, LiveAgent
from agent.session.subagents.progress_publisher import ProgressPublisher
from agent.session.subagents.records import AgentReport, Task
from agent.session.subagents.sender_notices import SenderNotices
from agent.session.subagents.slots import Slots
from agent.session.subagents.steering import CLOSING, PERSON, Steering
from agent.session.subagents.stopping import Stopper
from agent.session.subagents.subagent import Services, offered
from agent.session.turns.turn_queue import TurnQueue
from tools.context import Delegates
from tools.results import ToolError

SETTING = "subagents"
"""The section of the settings that holds the ceilings."""


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """`each` bounds one agent, `all` all agents of the session together."""

    at_once: int = 3
    depth: int = 2
    each: Budget = Budget(turns=40)  # noqa: RUF009 - frozen
    all: Budget = Budget()  # noqa: RUF009 - frozen


class Scheduler:
    """Starts agents in the order in which they are asked for, some at once, and ends what it began.

    `delegates` makes the way of an agent to those it sends, by its id and the call; `mailbox` is that
    of the session's own agent.
    """

    def __init__(
        self,
        services: Services,
        limits: AgentLimits,
        account: BudgetAccount,
        delegates: Callable[[str, str], Delegates],
        *,
        turn_queue: TurnQueue,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.services = services
        self.limits = limits
        self.account = account.child("all agents of this session", limits.all, SETTING)
        self._clock = clock
        self._register = AgentRegister()
        self.news = SenderNotices(self._register, turn_queue)
        self._publisher = ProgressPublisher(services.emit)
        self._stopper = Stopper(self._register, services.pending_requests)
        self._slots = Slots(limits.at_once)
        self._runner = AgentRunner(
            services=services,
            depth=limits.depth,
            register=self._register,
            publisher=self._publisher,
            stopper=self._stopper,
            slots=self._slots,
            throttle=throttle or Throttle(),
            delegates=delegates,
            clock=clock,
        )
        self._steering = Steering(
            store=services.store,
            register=self._register,
            publisher=self._publisher,
            runner=self._runner,
            news=self.news,
        )
        self._starting = asyncio.Lock()

    # Looking

    def runs(self) -> tuple[LiveAgent, ...]:
        """All agents there ever were in this session, in the order in which they were sent."""
        return self._register.all()

    def run(self, id: str) -> LiveAgent:
        """Raises `ToolError` for an agent nobody sent."""
        return self._register.named(id)

    def living(self) -> list[str]:
        """The agents that are not over, by id."""
        return [run.id for run in self._register.all() if not run.is_over]

    def sender(self, id: str) -> LiveAgent | None:
        """An agent that sends others; None for the session's own."""
        return self._register.get(id)

    def below(self, id: str) -> list[LiveAgent]:
        """The agents that `id` sent, and those they sent."""
        return self._register.below(id)

    @property
    def copies(self) -> AgentCopies:
        """What agents changed in copies, to look at, merge and discard. Raises `HermesError` without any."""
        if not self.services.workspaces.copies.are_kept:
            raise HermesError(NOT_KEPT)
        return self.services.workspaces.copies

    # Starting

    async def start(self, tasks: Sequence[Task], parent: str = MAIN_AGENT, call: str = "") -> list[str]:
        """Send an agent for each task; their ids. Those for whom there is no room wait in order.

        Raises `ToolError` if one of them cannot be sent: then none is.
        """
        sender = self._register.get(parent)
        depth = 1 if sender is None else sender.depth + 1
        tasks = self._checked(tasks, depth, sender)
        async with self._starting:
            first = await self._next_number()
            made: list[LiveAgent] = []
            for number, task in enumerate(tasks, first):
                made.append(await self._enroll(f"agent-{number}", task, parent, call, depth))
            for run in made:
                self._register.add(run)
                if sender is not None and sender.is_over:
                    run.stop = "killed"
                self._publisher.begins(run)
                self._runner.begin(run, run.task.message())
        return [run.id for run in made]

    async def _next_number(self) -> int:
        """A number no agent of the session has, also when another process works on the session too."""
        there = len(await self.services.store.children(self.services.root))
        return max(there, self._register.last_number()) + 1

    def _checked(self, tasks: Sequence[Task], depth: int, sender: LiveAgent | None) -> list[Task]:
        """The tasks, none with more tools than its sender has."""
        if self._steering.closed:
            raise ToolError(CLOSING)
        if depth > self.limits.depth:
            raise ToolError(f"Agents may be nested {self.limits.depth} deep; do this yourself.")
        checked = []
        for task in tasks:
            if not task.goal.strip():
                raise ToolError("An agent needs a goal; say what it is to reach.")
            self.services.workspaces.check(task, sender)
            self.services.models.label(task.model)
            tools = offered(self.services, task, depth, depth >= self.limits.depth)
            if sender is not None and sender.task.toolsets and tools:
                task = replace(task, toolsets=self._shared(tools, sender))
            checked.append(task)
        return checked

    def _shared(self, tools: Sequence[ToolSpec], sender: LiveAgent) -> tuple[str, ...]:
        """The tools among `tools` that the sender has itself."""
        own = offered(self.services, sender.task, sender.depth, sender.depth >= self.limits.depth)
        names = {tool.name for tool in own}
        shared = tuple(tool.name for tool in tools if tool.name in names)
        if not shared:
            raise ToolError(f"You have none of these tools yourself; yours are {', '.join(sorted(names))}.")
        return shared

    async def _enroll(self, id: str, task: Task, parent: str, call: str, depth: int) -> LiveAgent:
        services = self.services
        record = await services.store.create_session(
            workspace=str(services.workspaces.shared.reach.workspace),
            model=services.models.label(task.model),
            title=title_of(task.goal) or id,
            parent=services.root,
        )
        run = self._made(record, id, task, parent, call, depth)
        known = StoredAgent(
            record=record,
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            tally=run.tally,
            report=None,
        )
        await agent_table.begin(services.store, record, known)
        return run

    def _made(self, record: Session, id: str, task: Task, parent: str, call: str, depth: int) -> LiveAgent:
        sender = self._register.get(parent)
        above = self.account if sender is None else sender.account
        budget = self.limits.each.within(task.budget)
        account = above.child(id, budget, SETTING, _chosen(budget, self.limits.each))
        return LiveAgent(
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            record=record,
            account=account,
            pause=Pause(account.waited, self._clock),
            ground_of=id if task.isolation == "copy" else sender.ground_of if sender else "",
            asked=self._clock(),
        )

    # Steering

    async def wait(
        self, ids: Iterable[str], seconds: float | None = None, waiter: str = ""
    ) -> list[AgentReport]:
        """The reports of agents that have ended, when all have or the time is over.

        `waiter` is the agent that waits: it leaves its room to others meanwhile.
        """
        runs = [self.run(id) for id in ids]
        waiting = self._register.get(waiter)
        lends = waiting is not None and waiting.state == "running" and any(not run.is_over for run in runs)
        async with self._slots.lent() if lends else nullcontext():
            try:
                async with asyncio.timeout(seconds):
                    for run in runs:
                        await run.over.wait()
            except TimeoutError:
                pass
        return [run.report for run in runs if run.report is not None]

    async def send_input(self, id: str, text: str, by: str = PERSON) -> None:
        """Tell an agent something, before its next request; one that has ended goes on with it.

        It is written down when this returns: it is read even if the process is killed before. `by` is
        the agent that tells it, or the person.
        """
        await self._steering.tell(self.run(id), text, by)

    def pause(self, id: str) -> None:
        """Hold an agent and all it sent: no request leaves from now on, and what comes in is broken off."""
        self._steering.pause(self.run(id))

    async def resume(self, id: str, text: str = "", budget: Budget | None = None, by: str = PERSON) -> None:
        """Let an agent go on that is paused, or that has ended; `text` is what it is told then.

        `by` is the agent that lets it go on, or the person.
        """
        await self._steering.go_on(self.run(id), text, budget, by)

    async def kill(self, id: str) -> AgentReport:
        """Stop an agent and all it sent for good; its report, with what it had done. Nothing leaves after."""
        return await self._stopper.kill(self.run(id))

    def interrupt(self, ids: Iterable[str]) -> None:
        """Stop agents whose sender does not wait for them any more; they can be let go on later."""
        for id in ids:
            self._stopper.stop(self.run(id), "interrupted")

    def tell(self, run: LiveAgent) -> None:
        """Show how an agent stands."""
        self._publisher.stands(run)

    async def aclose(self) -> None:
        """Stop every agent; each can be let go on when the session is opened again."""
        self._steering.closed = True
        async with self._starting:
            # Whoever was being sent is known by now.
            await self._stopper.end_all()
        await self.services.workspaces.copies.aclose()

    def asking(self, run: LiveAgent | None) -> AbstractContextManager[None]:
        """While an agent waits for the person, which is shown and does not count as its time."""
        return nullcontext() if run is None else self._runner.asking(run)

    # Recovering

    async def recover_children(self) -> list[AgentReport]:
        """Know the agents of an earlier process again; the reports of those that were cut off.

        Hold the lock of the session.
        """
        cut: list[AgentReport] = []
        for record in await self.services.store.children(self.services.root):
            known = await agent_table.read(self.services.store, record, self.services.models.infos)
            if known is None or known.id in self._register:
                continue
            run = self._made(record, known.id, known.task, known.parent, known.call, known.depth)
            run.tally = known.tally
            self.services.ceiling_questions.decisions.apply(run.account.owner, run.account)
            for account in run.account.chain():
                account.spent += agent_table.spent(known.tally)
            self._register.add(run)
            report = known.report
            if report is None:
                report = await agent_table.cut_off(self.services.store, known)
                cut.append(report)
                self._publisher.begins(run)
                self._publisher.ended(run, report)
            run.inputs = list(known.unheard)
            run.report, run.state = report, "ended"
            run.over.set()
            self.news.owe(run, known)
        return cut


def _chosen(budget: Budget, settings: Budget) -> frozenset[Measure]:
    """The measures whose ceilings in `budget` are not those of the settings."""
    measures: tuple[Measure, ...] = ("turns", "tokens", "money", "seconds")
    return frozenset(each for each in measures if getattr(budget, each) != getattr(settings, each))
