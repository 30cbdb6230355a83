"""Notes to senders about agents that work past their call; never messages of the person."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.session.subagents.live_agent import MAIN_AGENT, LiveAgent
from agent.session.subagents.records import PREVIEW, AgentReport

if TYPE_CHECKING:
    from agent.core.store.store import Store
    from agent.session.subagents.agent_register import AgentRegister
    from agent.session.subagents.agent_table import StoredAgent
    from agent.session.turns.turn_queue import TurnQueue

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
            if ended and run.report and known.ended > await _last_note(store, root, _ended(run)):
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
    head = f"{_ended(run)} {report.outcome}.{why} Its goal: {run.task.goal[:200]}]"
    return f"{head}\n{summary}".rstrip()


def _lets(run: LiveAgent) -> str:
    """How the note begins that the person lets an agent go on."""
    return f"[The user lets agent {run.id}"


def _ended(run: LiveAgent) -> str:
    """How the note of an agent's end begins."""
    return f"[Agent {run.id} has ended:"


async def _last_note(store: Store, session: str, begins: str) -> int:
    """The last note of a session that begins so, by its node; 0 when there is none."""
    wanted = "SELECT coalesce(max(id), 0) FROM nodes WHERE session = ? AND kind = 'notice' "
    wanted += "AND substr(content, 1, ?) = ?"
    values = (session, len(begins), begins)
    return int(await store.database.read(lambda c: c.execute(wanted, values).fetchone()[0]))
