"""Steers agents for those who sent them and for the person: tell, pause, resume."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.core.store.store import Store
from agent.session.spending.budget import Budget
from agent.session.subagents import agent_table, undelivered
from agent.session.subagents.agent_register import AgentRegister
from agent.session.subagents.agent_runner import AgentRunner
from agent.session.subagents.live_agent import MAIN_AGENT, LiveAgent
from agent.session.subagents.progress_publisher import ProgressPublisher
from agent.session.subagents.sender_notices import SenderNotices
from tools.results import ToolError

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
        """Keep what a living agent is told; it reads it as soon as it can. Hold its door."""
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
        """Let one that has ended work again. Hold its door."""
        if self.closed:
            raise ToolError(CLOSING)
        sender = self.register.get(run.parent)
        if sender is not None and sender.is_over:
            raise ToolError(f"{run.parent}, which sent {run.id}, has ended; let that one go on first.")
        # From now on whoever stops its sender stops it too.
        before, run.report, run.state = run.report, None, "queued"
        run.over.clear()
        try:
            item = await self._prepared(run, text.strip(), by)
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

    async def _prepared(self, run: LiveAgent, text: str, by: str) -> str:
        """Put the session of an agent in order that goes on; what it hears before what it was told.

        That is its task, if it was cut off before it heard that.
        """
        if run.child is None:
            await self.store.recover(run.record.id)
        await agent_table.resumed(self.store, run.record.id, by_person=by == PERSON)
        if run.child is not None:
            await run.child.session.catch_up()
            run.child.turn_queue.take_steering()
        if text:
            await self._keep(run, text)
        path = await self.store.path(run.record.id)
        run.inputs = undelivered.unheard(path)
        if not any(node.kind == "user" for node in path):
            return run.task.message()
        return "" if run.inputs else CONTINUE

    async def _keep(self, run: LiveAgent, text: str) -> None:
        """Write down what an agent is told, before anybody is promised that it will read it.

        Hold its door. Raises `StoreError`: then it was not told.
        """
        note = undelivered.told(text)
        if run.child is not None:
            await run.child.session.add("notice", "", note)
        else:
            await self.store.append(run.record.id, "notice", "", note)

    def _with_all_below(self, run: LiveAgent) -> Iterator[LiveAgent]:
        yield run
        yield from self.register.below(run.id)
