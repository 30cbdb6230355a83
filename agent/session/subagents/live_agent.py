"""Running agents: the state of each, their register, their slots, and which of them may change a file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.core.store.nodes import Session
from agent.model.transport.waits import Pause
from agent.session.spending.budget import BudgetAccount
from agent.session.spending.metering import RequestTally
from agent.session.subagents.foreign_agent import ForeignAgent
from agent.session.subagents.records import AgentReport, Task
from agent.session.wiring.agent import Agent
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, WritePath
from tools.text.safe_text import clean

MAIN_AGENT = "main"
"""The session's own agent."""


@dataclass(slots=True, kw_only=True, eq=False)
class LiveAgent:
    """An agent of the session and its state. Times are in seconds of the scheduler's clock."""

    id: str
    task: Task
    parent: str
    call: str
    depth: int
    record: Session
    account: BudgetAccount
    pause: Pause
    ground_of: str
    """The agent in whose copy it works; empty if it works in the workspace."""
    asked: float
    """The time when it began to wait for a slot; after its end, the time of the end."""
    tally: RequestTally = field(default_factory=RequestTally)
    state: Literal["queued", "running", "reporting", "ended"] = "queued"
    stop: Literal["", "killed", "budget", "interrupted"] = ""
    """The reason why it is being stopped; empty if it is not."""
    child: Agent | ForeignAgent | None = None
    job: asyncio.Task[None] | None = None
    report: AgentReport | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    inputs: list[str] = field(default_factory=list)
    """Messages that it reads when it works next; maintained by `agent.session.subagents.scheduler`."""
    door: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock held while its session is opened or closed for work, and while it is given a message."""
    calls: int = 0
    action: str = ""
    waiting: int = 0
    """The number of its open questions to the user."""
    waits_since: float = 0.0
    files: dict[str, None] = field(default_factory=dict)
    """Paths changed in its recorded steps."""
    changed: dict[Path, None] = field(default_factory=dict)
    """Paths that its file tools were allowed to change since it was opened."""
    notices: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that wait to report its end."""

    @property
    def is_over(self) -> bool:
        return self.state == "ended"

    @property
    def standing(self) -> str:
        """The state of the agent in one word; after its end, the outcome."""
        if self.report is not None:
            return self.report.outcome
        return "paused" if self.pause.on else self.state

    def take_inputs(self) -> list[str]:
        taken, self.inputs = self.inputs, []
        return taken


class AgentRegister:
    """The agents of a session, in the order in which they were started."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveAgent] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._runs

    def add(self, run: LiveAgent) -> None:
        self._runs[run.id] = run

    def all(self) -> tuple[LiveAgent, ...]:
        return tuple(self._runs.values())

    def get(self, id: str) -> LiveAgent | None:
        return self._runs.get(id)

    def find(self, id: str) -> LiveAgent:
        """Return the agent with this id. Raises `ToolError` if there is none."""
        run = self._runs.get(id.strip())
        if run is None:
            known = ", ".join(self._runs) or "none yet"
            raise ToolError(f"There is no agent {clean(id)!r}. Agents of this session: {known}.")
        return run

    def sent_by(self, id: str) -> list[LiveAgent]:
        """Return the agents that the agent `id` started directly."""
        return [run for run in self._runs.values() if run.parent == id]

    def below(self, id: str) -> list[LiveAgent]:
        """Return the agents that the agent `id` started, directly or through others."""
        return [each for run in self.sent_by(id) for each in (run, *self.below(run.id))]

    def last_number(self) -> int:
        """Return the highest number in an agent's id, such as 3 in `agent-3`; 0 without agents."""
        return max((int(id.rpartition("-")[2]) for id in self._runs), default=0)


class Slots:
    """Slots for `count` agents at a time, assigned in order; those who lent theirs come before new ones."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self._returning: deque[asyncio.Future[None]] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a slot and take it. A cancelled wait takes none."""
        await self._take(self._waiting)

    def give_back(self) -> None:
        """Free a slot for the next agent."""
        self.taken -= 1
        self._pass_on()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Free the caller's slot inside this context, while it waits for other agents; then take a free one
        again.
        """
        self.give_back()
        try:
            yield
        finally:
            # An agent that is being stopped must not wait for a slot: it only needs to end.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.taken += 1
            else:
                try:
                    await self._take(self._returning)
                except asyncio.CancelledError:
                    self.taken += 1
                    raise

    async def _take(self, line: deque[asyncio.Future[None]]) -> None:
        if self.taken < self.count and not self._returning and not (line is self._waiting and self._waiting):
            self.taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            elif turn in line:
                line.remove(turn)
            raise

    def _pass_on(self) -> None:
        while self.taken < self.count and (self._returning or self._waiting):
            turn = (self._returning or self._waiting).popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)


@dataclass(slots=True)
class FileTurns:
    """Locks with which agents change a file one after the other, and the agent that last changed each path.
    Paths are resolved.
    """

    locks: dict[Path, asyncio.Lock] = field(default_factory=dict)
    last: dict[Path, str] = field(default_factory=dict)


class FileTurn:
    """One agent's access to `FileTurns`. `tell` receives notes for its model."""

    def __init__(self, agent: str, writers: FileTurns, tell: Callable[[str], None]) -> None:
        self._agent = agent
        self._writers = writers
        self._tell = tell
        self._held: dict[str, list[asyncio.Lock]] = {}

    @asynccontextmanager
    async def during(self, call: str) -> AsyncIterator[None]:
        """Hold the locks of the files that the call changes until the context ends."""
        self._held[call] = []
        try:
            yield
        finally:
            for lock in self._held.pop(call, ()):
                lock.release()

    async def acting(self, call: str, action: Action) -> None:
        """Before a change to a file, wait for its lock, unless this call holds another one."""
        if not isinstance(action, (WritePath, DeletePath)):
            return
        path = action.path
        lock = self._writers.locks.setdefault(path, asyncio.Lock())
        # A script's calls are numbered below its own call, which is the one in progress.
        held = self._held.get(call, self._held.get(call.rpartition(".")[0]))
        # The holder of one file waits for no other one, so that two never wait for each other.
        if held is not None and lock not in held and not (held and lock.locked()):
            await lock.acquire()
            held.append(lock)
        known = self._writers.last.get(path)
        self._writers.last[path] = self._agent
        if known is not None and known != self._agent:
            self._tell(
                f"[{path} was changed by {known} before you, who works in the same folder. "
                "Read it again before you continue, and keep what the other one did.]"
            )
