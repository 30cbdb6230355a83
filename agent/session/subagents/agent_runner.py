"""Running one agent: its progress, its report and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agent.errors import explain_failure
from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Event,
    ReasoningAdded,
    RequestStarted,
    StepTaken,
    TextAdded,
    ToolStarted,
    TurnEnded,
)
from agent.model.transport.waits import Throttle
from agent.session.pending_requests import PendingRequests
from agent.session.spending.budget import BudgetReachedError
from agent.session.subagents import agent_table
from agent.session.subagents.foreign_agent import ForeignAgent
from agent.session.subagents.live_agent import AgentRegister, FileTurns, LiveAgent, Slots
from agent.session.subagents.records import (
    TURN_OUTCOMES,
    AgentReport,
    CopiedFile,
    Outcome,
    ReportAnswer,
    read_answer,
)
from agent.session.subagents.subagent import Services, SubagentSpec, open_subagent
from agent.session.wiring.agent import Agent
from tools.context import Delegates
from tools.text.safe_text import clean

STOPPED = {
    "killed": "It was stopped before it was done.",
    "budget": "Its time was over before it was done.",
    "interrupted": "It was interrupted before it was done.",
}


Why = Literal["killed", "budget", "interrupted"]


class Stopper:
    """Stops agents; what they have done so far becomes their report."""

    def __init__(self, register: AgentRegister, pending_requests: PendingRequests) -> None:
        self._register = register
        self._inbox = pending_requests

    def stop(self, run: LiveAgent, why: Why) -> None:
        """Stop an agent and those below it, without waiting. Their questions to the user are cancelled."""
        if run.is_over:
            return
        run.stop = run.stop or why
        for each in self._register.below(run.id):
            self.stop(each, "killed" if why == "killed" else "interrupted")
        self._inbox.cancel_all(run.id)
        if run.job is not None:
            # Not at once: a task that has not run yet would be dropped with its report.
            asyncio.get_running_loop().call_soon(run.job.cancel)

    async def kill(self, run: LiveAgent) -> AgentReport:
        """Stop an agent, wait for its end, and return its report. It sends no requests afterwards."""
        self.stop(run, "killed")
        await run.over.wait()
        assert run.report is not None
        return run.report

    async def end_all(self) -> None:
        """Stop every agent and wait for its report; each can be resumed later."""
        runs = self._register.all()
        for run in runs:
            self.stop(run, "interrupted")
        await asyncio.gather(*(run.over.wait() for run in runs if not run.is_over))


def track_event(run: LiveAgent, event: Event) -> bool:
    """Update the progress of an agent from an event; return whether the change should be published."""
    match event:
        case ToolStarted():
            run.calls += not event.parent
            run.action = f"{event.display.verb} {event.display.subject}".strip()
            return True
        case RequestStarted():
            run.action = "asks the model"
            return True
        case TextAdded() | ReasoningAdded():
            doing = "writes" if isinstance(event, TextAdded) else "thinks"
            changed = run.action != doing
            run.action = doing
            return changed
        case StepTaken():
            run.files.update(dict.fromkeys(event.paths))
            return False
        case _:
            return False


def make_report(
    run: LiveAgent,
    ended: TurnEnded | None,
    error: str,
    leaves: Sequence[AgentReport],
    workspace: Path,
    copied: tuple[CopiedFile, ...] = (),
) -> AgentReport:
    """Return the report of an agent that has ended. `leaves` are the reports of the agents that it started.

    `workspace` is the folder in which it worked, `copied` the changes there if that is a copy.
    """
    text = ended.text if ended is not None else ""
    if not text.strip() and run.child is not None:
        text = run.child.last_words()
    answer = ReportAnswer(text.strip()) if run.task.only_answers else read_answer(text)
    outcome, why = _outcome(run, ended, error, answer.failed, leaves)
    changed = [_relative(path, workspace) for path in run.changed]
    return AgentReport(
        id=run.id,
        outcome=outcome,
        summary=answer.summary or text.strip(),
        findings=answer.findings,
        files=tuple(dict.fromkeys((*changed, *run.files, *answer.files))),
        open_points=answer.open_points,
        copied=copied,
        usage=replace(run.tally),
        seconds=run.account.seconds,
        session=run.record.id,
        error=why,
    )


def _outcome(
    run: LiveAgent, ended: TurnEnded | None, error: str, says_failed: bool, leaves: Sequence[AgentReport]
) -> tuple[Outcome, str]:
    """Return the outcome, and the reason unless the work is completed."""
    if run.stop:
        return run.stop, STOPPED[run.stop]
    if ended is None:
        return "failed", error or STOPPED["interrupted"]
    if ended.outcome == "budget":
        return "budget", ended.error or "The requests of its budget were used up before it was done."
    if ended.outcome == "interrupted":
        return "interrupted", ended.error or STOPPED["interrupted"]
    if ended.outcome == "denied":
        return "failed", "What it needed was not allowed."
    if ended.outcome == "failed":
        return "failed", ended.error
    if not ended.text.strip():
        return "failed", "It ended without an answer."
    if says_failed:
        return "failed", "It says that it did not reach its goal."
    if missing := [f"{leaf.id} ({leaf.outcome})" for leaf in leaves if leaf.outcome != "completed"]:
        return "failed", f"Agents it had sent did not complete: {', '.join(missing)}."
    return "completed", ""


def _relative(path: Path, workspace: Path) -> str:
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


ACTION = 120
"""The maximum number of characters in the description of an agent's action."""


def start_event(run: LiveAgent) -> AgentStarted:
    """Return the event of an agent's start."""
    return AgentStarted(
        agent=run.id,
        parent=run.parent,
        call=run.call,
        name=clean(run.task.name or run.id),
        goal=clean(run.task.goal),
        in_copy=bool(run.ground_of),
    )


@dataclass(frozen=True, slots=True)
class ProgressPublisher:
    """Publishes the progress of agents as events."""

    emit: Callable[[Event], None]

    def begins(self, run: LiveAgent) -> None:
        """Emit the event that an agent was started, or continues after its end."""
        self.emit(start_event(run))

    def stands(self, run: LiveAgent) -> None:
        """Emit the progress of an agent, unless it has ended."""
        if run.is_over:
            return
        state: Literal["pending", "running", "waiting", "paused"] = "running"
        if run.pause.on:
            state = "paused"
        elif run.state == "queued":
            state = "pending"
        elif run.waiting:
            state = "waiting"
        self.emit(
            AgentProgressed(
                agent=run.id,
                state=state,
                action="paused" if run.pause.on else clean(run.action)[:ACTION],
                calls=run.calls,
                tokens=run.tally.known_tokens,
                cost=run.tally.cost,
                budget=run.account.share(),
            )
        )

    def publish_end(self, run: LiveAgent, report: AgentReport) -> None:
        self.emit(
            AgentEnded(
                agent=run.id,
                outcome=TURN_OUTCOMES[report.outcome],
                summary=report.headline,
                seconds=report.seconds,
                calls=run.calls,
                tokens=report.usage.known_tokens,
                cost=report.usage.cost,
                budget=run.account.share(),
            )
        )


log = logging.getLogger(__name__)

LOOK = 0.25
"""Seconds between two checks of an agent's time ceiling."""


@dataclass(slots=True, kw_only=True)
class AgentRunner:
    """Runs agents, at most one per slot at a time. `delegates` lets an agent start others."""

    services: Services
    depth: int
    """The maximum depth to which agents may start further agents."""
    register: AgentRegister
    publisher: ProgressPublisher
    stopper: Stopper
    slots: Slots
    throttle: Throttle
    delegates: Callable[[str, str], Delegates]
    clock: Callable[[], float]
    writers: FileTurns = field(default_factory=FileTurns)

    def begin(self, run: LiveAgent, message: str) -> None:
        """Start an agent's work on a message; it begins as soon as a slot is free."""
        run.report = None
        run.state = "queued"
        run.over.clear()
        run.job = asyncio.create_task(self._work(run, message), name=run.id)

    async def _work(self, run: LiveAgent, message: str) -> None:
        ended: TurnEnded | None = None
        error = ""
        try:
            ended = await self._in_turn(run, message)
        except asyncio.CancelledError:
            run.stop = run.stop or "interrupted"
        except Exception as failure:
            error = explain_failure(failure)
        finishing = asyncio.ensure_future(self._finish(run, ended, error))
        while not finishing.done():
            try:
                await asyncio.shield(finishing)
            except asyncio.CancelledError:
                # The agent has ended anyway; the rest must not be lost.
                continue

    async def _in_turn(self, run: LiveAgent, message: str) -> TurnEnded | None:
        if run.stop:
            return None
        await self.slots.take()
        try:
            run.account.exclude_time(self.clock() - run.asked)
            run.state = "running"
            self.publisher.stands(run)
            child, news = (run.child, "") if run.child is not None else await self._open(run)
            message = "\n\n".join(filter(None, (message, news)))
            # Each is a separate message, which marks it as read.
            for text in run.take_inputs():
                if message:
                    child.turn_queue.steer(text)
                else:
                    message = text
            async with self._watch(run):
                ended = await child.run(message)
                while (item := _unread(run, ended)) is not None:
                    ended = await child.run(item)
                return ended
        finally:
            run.state = "reporting"
            self.slots.give_back()

    async def _open(self, run: LiveAgent) -> tuple[Agent | ForeignAgent, str]:
        """Open and return the agent in its workspace, with a note for it about the workspace."""
        if run.ground_of == run.id:
            run.action = "copies the project"
            self.publisher.stands(run)
        run.changed.clear()
        ground = await self.services.workspaces.enter(run)
        spec = SubagentSpec(
            id=run.id,
            task=run.task,
            depth=run.depth,
            deepest=run.depth >= self.depth,
            account=run.account,
            pause=run.pause,
            tally=run.tally,
            changed=run.changed,
            throttle=self.throttle,
            writers=self.writers,
            counted=lambda: self.publisher.stands(run),
            waiting=lambda on: self._waits(run, on),
            reached=lambda ceiling: self._ask_raise(run, ceiling),
            delegates=lambda call: self.delegates(run.id, call),
        )

        def emit(event: Event) -> None:
            self.services.emit(replace(event, agent=run.id))
            if track_event(run, event):
                self.publisher.stands(run)

        async with run.door:
            child = run.child = await open_subagent(self.services, ground, spec, run.record, emit)
        return child, ground.news

    @asynccontextmanager
    async def _watch(self, run: LiveAgent) -> AsyncIterator[None]:
        """Stop the agent if a time ceiling is reached inside this context and is not raised."""
        task = asyncio.create_task(self._end_in_time(run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _end_in_time(self, run: LiveAgent) -> None:
        while (left := run.account.time_left()) is not None:
            if run.pause.on or run.waiting:
                await asyncio.sleep(LOOK)
            elif left > 0:
                await asyncio.sleep(min(left, LOOK))
            elif (over := run.account.time_over()) is not None and not await self._ask_raise(run, over):
                self.stopper.stop(run, "budget")
                return

    async def _ask_raise(self, run: LiveAgent, ceiling: BudgetReachedError) -> bool:
        """Ask the user about a reached ceiling while the agent waits; return whether it was raised."""
        ceiling_questions = self.services.ceiling_questions
        if not ceiling_questions.asks(ceiling):
            return False
        with self.asking(run):
            return await ceiling_questions.ask(ceiling, run.id)

    @contextmanager
    def asking(self, run: LiveAgent) -> Iterator[None]:
        """Mark the agent as waiting for the user inside this context."""
        self._waits(run, True)
        try:
            yield
        finally:
            self._waits(run, False)

    def _waits(self, run: LiveAgent, on: bool) -> None:
        """Record that the agent begins or stops waiting for the user. This time does not count as work."""
        if on:
            if not run.waiting:
                run.waits_since = self.clock()
            run.waiting += 1
        else:
            run.waiting -= 1
            if not run.waiting:
                run.account.exclude_time(self.clock() - run.waits_since)
        self.publisher.stands(run)

    async def _finish(self, run: LiveAgent, ended: TurnEnded | None, error: str) -> None:
        async with run.door:
            await self._over(run, ended, error)

    async def _over(self, run: LiveAgent, ended: TurnEnded | None, error: str) -> None:
        """End an agent with a report, even if a part fails: otherwise its waiters would wait forever."""
        try:
            report = await self._report(run, ended, error)
        except Exception as failure:
            error = f"{error} {explain_failure(failure)}".strip()
            report = AgentReport(id=run.id, outcome="failed", summary="", session=run.record.id, error=error)
        if run.ground_of:
            # Its services are closed; they are opened again if it continues.
            run.child = None
        try:
            await agent_table.end(self.services.store, report)
        except Exception as failure:
            log.warning("the end of %s could not be stored: %s", run.id, explain_failure(failure))
        run.pause.end()
        run.report, run.state, run.stop, run.asked = report, "ended", "", self.clock()
        self.publisher.publish_end(run, report)
        run.over.set()

    async def _report(self, run: LiveAgent, ended: TurnEnded | None, error: str) -> AgentReport:
        """Stop the agents below it, leave its workspace, and return its report."""
        open_runs = [each for each in self.register.below(run.id) if not each.is_over]
        await asyncio.gather(*map(self.stopper.kill, open_runs))
        workspaces = self.services.workspaces
        workspace = workspaces.of(run).reach.workspace
        await workspaces.leave(run)
        copied = await workspaces.copies.settle(run) if run.ground_of == run.id else ()
        leaves = [each.report for each in self.register.sent_by(run.id) if each.report]
        return make_report(run, ended, error, leaves, workspace, copied)


def _unread(run: LiveAgent, ended: TurnEnded) -> str | None:
    """Return a message that the turn did not read, because it arrived too late; None if there is none."""
    if run.stop or ended.outcome != "done" or run.child is None:
        return None
    turn_queue = run.child.turn_queue
    items = turn_queue.take_steering()
    for later in items[1:]:
        turn_queue.steer(later.text)
    return items[0].text if items else None
