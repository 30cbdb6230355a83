"""The scheduler of agents: sending, steering, stopping them, and what their senders hear."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from agent.core.event_data import Measure
from agent.core.store.nodes import Session, title_of
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.model.protocol import ToolSpec
from agent.model.transport.waits import Pause, Throttle
from agent.session.spending.budget import Budget, BudgetAccount
from agent.session.subagents import agent_table
from agent.session.subagents.agent_copies import NOT_KEPT, AgentCopies
from agent.session.subagents.agent_runner import AgentRunner, ProgressPublisher, Stopper
from agent.session.subagents.agent_table import StoredAgent, note_data, unheard
from agent.session.subagents.live_agent import MAIN_AGENT, AgentRegister, LiveAgent, Slots
from agent.session.subagents.records import PREVIEW, AgentReport, Task
from agent.session.subagents.subagent import Services, agent_tools
from agent.session.turns.turn_queue import TurnQueue
from tools.context import Delegates
from tools.results import ToolError

QUOTED = 1_000
"""Characters of what the person told an agent that its sender reads."""


class SenderNotices:
    """Tells each sender of its own agents. `mailbox` is that of the session's own agent."""

    def __init__(self, register: AgentRegister, turn_queue: TurnQueue) -> None:
        self._register = register
        self._turn_queue = turn_queue
        self._owed: list[tuple[LiveAgent, StoredAgent]] = []

    def goes_on(self, run: LiveAgent, before: AgentReport | None, words: str) -> None:
        """The person lets an agent go on that had ended; its sender also hears how it ends this time."""
        turn_queue = self._of_sender(run)
        if turn_queue is None:
            return
        was = "" if before is None else f", which had ended ({before.outcome}),"
        told = words if len(words) <= QUOTED else f"{words[:QUOTED]}…"
        said = f"\nThey told it: {told}" if told else ""
        turn_queue.remember(
            f"{_lets(run)}{was} go on. What it reported before may not hold any more; "
            f"you are told when it has ended again.]{said}"
        )
        self.when_over(run)

    def owe(self, run: LiveAgent, known: StoredAgent) -> None:
        """An earlier process may have ended before the session's own agent heard of this one."""
        if run.parent == MAIN_AGENT and (known.let_go_on or run.task.background):
            self._owed.append((run, known))

    async def catch_up(self, store: Store, root: str) -> None:
        """Tell what the notes of the session `root` do not tell yet. Raises `StoreError`."""
        owed, self._owed = self._owed, []
        for run, known in owed:
            if known.let_go_on > await _last_note(store, root, _lets(run)):
                self._turn_queue.remember(
                    f"{_lets(run)} go on. What it reported before may not hold any more.]"
                )
            ended = run.report is not None and run.report.outcome != "interrupted"
            if ended and run.report and known.ended > await _last_note(store, root, _end_note(run)):
                self._turn_queue.remember(notice(run, run.report))

    def when_over(self, run: LiveAgent) -> None:
        """Tell the sender when an agent has ended, unless it was cut off and can go on later."""

        async def tell() -> None:
            await run.over.wait()
            turn_queue = self._of_sender(run)
            if turn_queue is not None and run.report is not None and run.report.outcome != "interrupted":
                turn_queue.notify(notice(run, run.report))

        task = asyncio.create_task(tell(), name=f"notice of {run.id}")
        run.notices.add(task)
        task.add_done_callback(run.notices.discard)

    def _of_sender(self, run: LiveAgent) -> TurnQueue | None:
        """Where the sender reads its notes; None for one that is not at work."""
        if run.parent == MAIN_AGENT:
            return self._turn_queue
        sender = self._register.get(run.parent)
        return None if sender is None or sender.child is None else sender.child.turn_queue


def notice(run: LiveAgent, report: AgentReport) -> str:
    """How an agent ended, for the one that sent it. Pure."""
    why = f" {report.error}" if report.error else ""
    summary = report.summary if len(report.summary) <= PREVIEW else f"{report.summary[:PREVIEW]}…"
    head = f"{_end_note(run)} {report.outcome}.{why} Its goal: {run.task.goal[:200]}]"
    return f"{head}\n{summary}".rstrip()


def _lets(run: LiveAgent) -> str:
    """How the note begins that the person lets an agent go on."""
    return f"[The user lets agent {run.id}"


def _end_note(run: LiveAgent) -> str:
    """How the note of an agent's end begins."""
    return f"[Agent {run.id} has ended:"


async def _last_note(store: Store, session: str, begins: str) -> int:
    """The last note of a session that begins so, by its node; 0 when there is none."""
    wanted = "SELECT coalesce(max(id), 0) FROM nodes WHERE session = ? AND kind = 'notice' "
    wanted += "AND substr(content, 1, ?) = ?"
    values = (session, len(begins), begins)
    return int(await store.database.read(lambda c: c.execute(wanted, values).fetchone()[0]))


PERSON = ""
"""Who asks for something where no agent does."""
CONTINUE = "Go on where you stopped, and end with your report as you were asked to."
CLOSING = "The session is being closed; no agent is sent any more."


@dataclass(slots=True, kw_only=True)
class Steering:
    """Reaches the agents of a session. In what is asked, `by` is the agent that asks, or `PERSON`."""

    store: Store
    register: AgentRegister
    publisher: ProgressPublisher
    runner: AgentRunner
    news: SenderNotices
    closed: bool = False
    """Whether nobody begins to work any more."""

    async def tell(self, run: LiveAgent, text: str, by: str) -> None:
        """Tell an agent something, before its next request; one that has ended goes on with it.

        It is written down when this returns: it is read even if the process is killed before.
        """
        if not text.strip():
            raise ToolError("There is nothing to tell the agent; give a text.")
        async with run.door:
            if run.is_over:
                await self._begin_again(run, text, by)
                return
            await self._hand_over(run, text)
        if run.state == "reporting":
            await self._after_all(run, by)

    def pause(self, run: LiveAgent) -> None:
        """Hold an agent and all it sent: no request leaves from now on, and what comes in is broken off."""
        for each in self._with_all_below(run):
            if not each.is_over:
                each.pause.begin()
                self.publisher.stands(each)

    async def go_on(self, run: LiveAgent, text: str, budget: Budget | None, by: str) -> None:
        """Let an agent go on that is paused, or that has ended; `text` is what it is told then."""
        if budget is not None:
            run.account.budget = budget
        async with run.door:
            if run.is_over:
                await self._begin_again(run, text, by)
                return
        for each in self._with_all_below(run):
            each.pause.end()
            self.publisher.stands(each)
        if text.strip():
            await self.tell(run, text, by)

    async def _hand_over(self, run: LiveAgent, text: str) -> None:
        """Keep what a living agent is told; it reads it as soon as it can. Hold its `door`."""
        if run.stop:
            raise ToolError(f"{run.id} is being stopped; tell it when it has ended, and it goes on with it.")
        await self._keep(run, text)
        if run.child is not None and run.state == "running":
            run.child.turn_queue.steer(text)
        else:
            run.inputs.append(text)

    async def _after_all(self, run: LiveAgent, by: str) -> None:
        """It was told something when its last turn was just over: let it go on with that."""
        await run.over.wait()
        async with run.door:
            if run.is_over and run.inputs and not self.closed:
                await self._begin_again(run, "", by)

    async def _begin_again(self, run: LiveAgent, text: str, by: str) -> None:
        """Let one that has ended work again. Hold its `door`."""
        if self.closed:
            raise ToolError(CLOSING)
        sender = self.register.get(run.parent)
        if sender is not None and sender.is_over:
            raise ToolError(f"{run.parent}, which sent {run.id}, has ended; let that one go on first.")
        # From now on stopping its sender stops it too.
        before, run.report, run.state = run.report, None, "queued"
        run.over.clear()
        try:
            item = await self._prepare(run, text.strip(), by)
        except BaseException:
            run.report, run.state = before, "ended"
            run.over.set()
            raise
        run.pause.end()
        self.publisher.begins(run)
        self.runner.begin(run, item)
        if by == PERSON:
            self.news.goes_on(run, before, text.strip())
        elif by == MAIN_AGENT:
            self.news.when_over(run)

    async def _prepare(self, run: LiveAgent, text: str, by: str) -> str:
        """Put the session of an agent in order that goes on; what it hears before what it was told.

        That is its task, if it was cut off before it heard that.
        """
        if run.child is None:
            await self.store.recover(run.record.id)
        await agent_table.record_resume(self.store, run.record.id, by_person=by == PERSON)
        if run.child is not None:
            await run.child.session.catch_up()
            run.child.turn_queue.take_steering()
        if text:
            await self._keep(run, text)
        path = await self.store.path(run.record.id)
        run.inputs = unheard(path)
        if not any(node.kind == "user" for node in path):
            return run.task.message()
        return "" if run.inputs else CONTINUE

    async def _keep(self, run: LiveAgent, text: str) -> None:
        """Write down what an agent is told, before anybody is promised that it will read it.

        Hold its `door`. Raises `StoreError`: then it was not told.
        """
        note = note_data(text)
        if run.child is not None:
            await run.child.session.add("notice", "", note)
        else:
            await self.store.append(run.record.id, "notice", "", note)

    def _with_all_below(self, run: LiveAgent) -> Iterator[LiveAgent]:
        yield run
        yield from self.register.below(run.id)


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
        return self._register.find(id)

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
        tasks = self._check_tasks(tasks, depth, sender)
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

    def _check_tasks(self, tasks: Sequence[Task], depth: int, sender: LiveAgent | None) -> list[Task]:
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
            tools = agent_tools(self.services, task, depth, depth >= self.limits.depth)
            if sender is not None and sender.task.toolsets and tools:
                task = replace(task, toolsets=self._shared_tools(tools, sender))
            checked.append(task)
        return checked

    def _shared_tools(self, tools: Sequence[ToolSpec], sender: LiveAgent) -> tuple[str, ...]:
        """The tools among `tools` that the sender has itself."""
        own = agent_tools(self.services, sender.task, sender.depth, sender.depth >= self.limits.depth)
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
        run = self._make_agent(record, id, task, parent, call, depth)
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

    def _make_agent(
        self, record: Session, id: str, task: Task, parent: str, call: str, depth: int
    ) -> LiveAgent:
        sender = self._register.get(parent)
        above = self.account if sender is None else sender.account
        budget = self.limits.each.within(task.budget)
        account = above.child(id, budget, SETTING, _changed_measures(budget, self.limits.each))
        return LiveAgent(
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            record=record,
            account=account,
            pause=Pause(account.exclude_time, self._clock),
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
            # Agents that were being sent are known by now.
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
            run = self._make_agent(record, known.id, known.task, known.parent, known.call, known.depth)
            run.tally = known.tally
            self.services.ceiling_questions.decisions.apply(run.account.owner, run.account)
            for account in run.account.chain():
                account.spent += agent_table.charge_of_tally(known.tally)
            self._register.add(run)
            report = known.report
            if report is None:
                report = await agent_table.cut_off(self.services.store, known)
                cut.append(report)
                self._publisher.begins(run)
                self._publisher.publish_end(run, report)
            run.inputs = list(known.unheard)
            run.report, run.state = report, "ended"
            run.over.set()
            self.news.owe(run, known)
        return cut


def _changed_measures(budget: Budget, settings: Budget) -> frozenset[Measure]:
    """The measures whose ceilings in `budget` are not those of the settings."""
    measures: tuple[Measure, ...] = ("turns", "tokens", "money", "seconds")
    return frozenset(each for each in measures if getattr(budget, each) != getattr(settings, each))
