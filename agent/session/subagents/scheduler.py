"""The scheduler of agents: starts, steers and stops them, and notifies the agents that started them."""

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
from agent.session.spending.metering import RequestTally
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
"""The maximum number of characters that are quoted from a message that the user sent to an agent."""


class SenderNotices:
    """Notifies agents about those that they started. `turn_queue` belongs to the session's own agent."""

    def __init__(self, register: AgentRegister, turn_queue: TurnQueue) -> None:
        self._register = register
        self._turn_queue = turn_queue
        self._owed: list[tuple[LiveAgent, StoredAgent]] = []

    def goes_on(self, run: LiveAgent, before: AgentReport | None, words: str) -> None:
        """Notify its starter that the user resumed an ended agent. Its next end is reported too."""
        turn_queue = self._of_sender(run)
        if turn_queue is None:
            return
        was = "" if before is None else f", which had ended ({before.outcome}),"
        told = words if len(words) <= QUOTED else f"{words[:QUOTED]}…"
        said = f"\nThey told it: {told}" if told else ""
        turn_queue.remember(
            f"{_lets(run)}{was} continue. What it reported before may not hold any more; "
            f"you are told when it has ended again.]{said}"
        )
        self.when_over(run)

    def owe(self, run: LiveAgent, known: StoredAgent) -> None:
        """Remember an agent of an earlier process for `catch_up`, as a notice about it may be missing."""
        if run.parent == MAIN_AGENT and (known.let_go_on or run.task.background):
            self._owed.append((run, known))

    async def catch_up(self, store: Store, root: str) -> None:
        """Send the notices that are missing in the session `root`. Raises `StoreError`."""
        owed, self._owed = self._owed, []
        for run, known in owed:
            if known.let_go_on > await _last_note(store, root, _lets(run)):
                self._turn_queue.remember(
                    f"{_lets(run)} continue. What it reported before may not hold any more.]"
                )
            ended = run.report is not None and run.report.outcome != "interrupted"
            if ended and run.report and known.ended > await _last_note(store, root, _end_note(run)):
                self._turn_queue.remember(notice(run, run.report))

    def when_over(self, run: LiveAgent) -> None:
        """Notify the starter of an agent once it has ended, unless it was interrupted and can be resumed."""

        async def tell() -> None:
            await run.over.wait()
            turn_queue = self._of_sender(run)
            if turn_queue is not None and run.report is not None and run.report.outcome != "interrupted":
                turn_queue.notify(notice(run, run.report))

        task = asyncio.create_task(tell(), name=f"notice of {run.id}")
        run.notices.add(task)
        task.add_done_callback(run.notices.discard)

    def _of_sender(self, run: LiveAgent) -> TurnQueue | None:
        """Return the turn queue of the agent that started `run`; None if that agent is not working."""
        if run.parent == MAIN_AGENT:
            return self._turn_queue
        sender = self._register.get(run.parent)
        return None if sender is None or sender.child is None else sender.child.turn_queue


def notice(run: LiveAgent, report: AgentReport) -> str:
    """Return the notice about an agent's end, for the agent that started it. Pure."""
    why = f" {report.error}" if report.error else ""
    summary = report.summary if len(report.summary) <= PREVIEW else f"{report.summary[:PREVIEW]}…"
    head = f"{_end_note(run)} {report.outcome}.{why} Its goal: {run.task.goal[:200]}]"
    return f"{head}\n{summary}".rstrip()


def _lets(run: LiveAgent) -> str:
    """Return the first words of the note that the user resumed an agent."""
    return f"[The user lets agent {run.id}"


def _end_note(run: LiveAgent) -> str:
    """Return the first words of the note about an agent's end."""
    return f"[Agent {run.id} has ended:"


async def _last_note(store: Store, session: str, begins: str) -> int:
    """Return the id of a session's last note that starts with `begins`; 0 if there is none."""
    wanted = "SELECT coalesce(max(id), 0) FROM nodes WHERE session = ? AND kind = 'notice' "
    wanted += "AND substr(content, 1, ?) = ?"
    values = (session, len(begins), begins)
    return int(await store.database.read(lambda c: c.execute(wanted, values).fetchone()[0]))


PERSON = ""
"""The requester if it is the user and not an agent."""
CONTINUE = "Continue where you stopped, and end with your report as you were asked to."
CLOSING = "The session is being closed; no agent is sent any more."


@dataclass(slots=True, kw_only=True)
class Steering:
    """Sends messages to the agents of a session, pauses and resumes them.

    `by` is the id of the agent that requests this, or `PERSON` for the user.
    """

    store: Store
    register: AgentRegister
    publisher: ProgressPublisher
    runner: AgentRunner
    news: SenderNotices
    closed: bool = False
    """True if no agent may be started or resumed any more."""

    async def tell(self, run: LiveAgent, text: str, by: str) -> None:
        """Send a message to an agent, which reads it before its next request. An ended agent is resumed.

        The message is stored before this returns, so that it is read even if the process is killed. Raises
        `ToolError` if it cannot be sent.
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
        """Pause an agent and all agents below it: they send no further request, and running answers are
        aborted.
        """
        for each in self._with_all_below(run):
            if not each.is_over:
                each.pause.begin()
                self.publisher.stands(each)

    async def go_on(self, run: LiveAgent, text: str, budget: Budget | None, by: str) -> None:
        """Resume an agent that is paused, with those below it, or has ended. `text` is a message for it."""
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
        """Store a message for a running agent and pass it on. Raises `ToolError` if the agent is being
        stopped. The caller must hold its `door`.
        """
        if run.stop:
            raise ToolError(
                f"{run.id} is being stopped; tell it when it has ended, and it continues with it."
            )
        await self._keep(run, text)
        if run.child is not None and run.state == "running":
            run.child.turn_queue.steer(text)
        else:
            run.inputs.append(text)

    async def _after_all(self, run: LiveAgent, by: str) -> None:
        """Resume an agent for a message that arrived just after its last turn."""
        await run.over.wait()
        async with run.door:
            if run.is_over and run.inputs and not self.closed:
                await self._begin_again(run, "", by)

    async def _begin_again(self, run: LiveAgent, text: str, by: str) -> None:
        """Resume an ended agent. The caller must hold its `door`. Raises `ToolError` if that is refused."""
        if self.closed:
            raise ToolError(CLOSING)
        sender = self.register.get(run.parent)
        if sender is not None and sender.is_over:
            raise ToolError(f"{run.parent}, which sent {run.id}, has ended; let that one continue first.")
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
        """Repair the session of an agent that continues; return the text to read before its new messages.

        That text is its task if it never read it, otherwise empty or a request to continue.
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
        """Store a message for an agent, so that it is read even if the process ends.

        The caller must hold its `door`. Raises `StoreError` if the message was not stored.
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
"""The section of the settings that holds the ceilings of agents."""


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of agents: `each` for one agent, `all` for all agents of the session together."""

    at_once: int = 3
    depth: int = 2
    each: Budget = Budget(turns=40)  # noqa: RUF009 - frozen
    all: Budget = Budget()  # noqa: RUF009 - frozen


class Scheduler:
    """Starts agents in the order of requests, several at once, and ends all that it started.

    `delegates` creates the service with which an agent, given by its id and call, starts others; `turn_queue`
    belongs to the session's own agent.
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

    # Queries

    def runs(self) -> tuple[LiveAgent, ...]:
        """Return all agents of this session, even ended ones, in the order in which they were started."""
        return self._register.all()

    def run(self, id: str) -> LiveAgent:
        """Return the agent with this id. Raises `ToolError` if there is none."""
        return self._register.find(id)

    def living(self) -> list[str]:
        """Return the ids of the agents that have not ended."""
        return [run.id for run in self._register.all() if not run.is_over]

    def sender(self, id: str) -> LiveAgent | None:
        """Return the agent with this id; None for the session's own agent or an unknown one."""
        return self._register.get(id)

    def below(self, id: str) -> list[LiveAgent]:
        """Return the agents that the agent `id` started, directly or through others."""
        return self._register.below(id)

    @property
    def copies(self) -> AgentCopies:
        """The service for viewing, merging and discarding copies. Raises `HermesError` if there is none."""
        if not self.services.workspaces.copies.are_kept:
            raise HermesError(NOT_KEPT)
        return self.services.workspaces.copies

    # Starting

    async def start(self, tasks: Sequence[Task], parent: str = MAIN_AGENT, call: str = "") -> list[str]:
        """Start an agent for each task; return their ids. Agents without a free slot wait in order.

        Raises `ToolError` without starting any if one of them cannot be started.
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
        """Return an unused number for an agent's id, even if other processes add agents."""
        there = len(await self.services.store.children(self.services.root))
        return max(there, self._register.last_number()) + 1

    def _check_tasks(self, tasks: Sequence[Task], depth: int, sender: LiveAgent | None) -> list[Task]:
        """Return the tasks, limited to the tools of the agent that starts them. Raises `ToolError`."""
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
            offer = agent_tools(self.services, task, depth, depth >= self.limits.depth)
            tools = (*offer.direct, *offer.searched)
            if sender is not None and sender.task.toolsets and tools:
                task = replace(task, toolsets=self._shared_tools(tools, sender))
            checked.append(task)
        return checked

    def _shared_tools(self, tools: Sequence[ToolSpec], sender: LiveAgent) -> tuple[str, ...]:
        """Return the names of those `tools` that the agent `sender` has too. Raises `ToolError` if none."""
        own = agent_tools(self.services, sender.task, sender.depth, sender.depth >= self.limits.depth)
        names = {tool.name for tool in (*own.direct, *own.searched)}
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
        tally = RequestTally()
        if task.foreign:
            tally.leave_unknown()
        return LiveAgent(
            id=id,
            task=task,
            parent=parent,
            call=call,
            depth=depth,
            record=record,
            account=account,
            tally=tally,
            pause=Pause(account.exclude_time, self._clock),
            ground_of=id if task.isolation == "copy" else sender.ground_of if sender else "",
            asked=self._clock(),
        )

    # Steering

    async def wait(
        self, ids: Iterable[str], seconds: float | None = None, waiter: str = ""
    ) -> list[AgentReport]:
        """Wait at most `seconds` for the agents to end; return the reports of those that have ended.

        `waiter` is the waiting agent, which lends its slot to others during the wait.
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
        """Send a message to an agent, which reads it before its next request. An ended agent is resumed.

        The message is stored before this returns, so that it is read even if the process is killed. `by` is
        the id of the agent that sends it, or `PERSON` for the user.
        """
        await self._steering.tell(self.run(id), text, by)

    def pause(self, id: str) -> None:
        """Pause an agent and all agents below it: they send no further request, and running answers are
        aborted.
        """
        self._steering.pause(self.run(id))

    async def resume(self, id: str, text: str = "", budget: Budget | None = None, by: str = PERSON) -> None:
        """Resume an agent that is paused or has ended; `text` is a message for it.

        `budget` replaces its ceilings. `by` is the id of the agent that resumes it, or `PERSON` for the user.
        """
        await self._steering.go_on(self.run(id), text, budget, by)

    async def kill(self, id: str) -> AgentReport:
        """Stop an agent and all agents below it; return its report. It sends no requests afterwards."""
        return await self._stopper.kill(self.run(id))

    def interrupt(self, ids: Iterable[str]) -> None:
        """Stop agents for which their starter no longer waits; they can be resumed later."""
        for id in ids:
            self._stopper.stop(self.run(id), "interrupted")

    def tell(self, run: LiveAgent) -> None:
        """Emit the state of an agent, unless it has ended."""
        self._publisher.stands(run)

    async def aclose(self) -> None:
        """Stop every agent and release the copies; each can be resumed when the session is opened again."""
        self._steering.closed = True
        async with self._starting:
            # The agents that were being sent are registered now.
            await self._stopper.end_all()
        await self.services.workspaces.copies.aclose()

    def asking(self, run: LiveAgent | None) -> AbstractContextManager[None]:
        """Return a context in which an agent waits for the user. The wait is shown, and not counted as its
        working time.
        """
        return nullcontext() if run is None else self._runner.asking(run)

    # Recovering

    async def recover_children(self) -> list[AgentReport]:
        """Restore the agents of an earlier process; return the reports of those that were interrupted.

        The caller must hold the lock of the session.
        """
        cut: list[AgentReport] = []
        for record in await self.services.store.children(self.services.root):
            known = await agent_table.read(self.services.store, record, self.services.models.infos)
            if known is None or known.id in self._register:
                continue
            run = self._make_agent(record, known.id, known.task, known.parent, known.call, known.depth)
            run.tally, run.calls = known.tally, known.calls
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
    """Return the measures whose ceilings in `budget` differ from the settings."""
    measures: tuple[Measure, ...] = ("turns", "tokens", "money", "seconds")
    return frozenset(each for each in measures if getattr(budget, each) != getattr(settings, each))
