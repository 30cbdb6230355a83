"""Parallel futures: one message worked on by several branches at once, each in a copy of the workspace.

Each future is a branch of the session with an engine of its own. When it has ended,
what it did to files is a position of the session's line, like everything else: to
pick one is to switch to its branch, and an undo takes that back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from agent import future_marks
from agent.errors import HermesError
from agent.events import (
    AgentEnded,
    AgentProgressed,
    AgentStarted,
    Event,
    Noticed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnOutcome,
    UsageChanged,
)
from agent.options import Beside

if TYPE_CHECKING:
    from agent.context.table import ContextTable
    from agent.inbox import Inbox
    from agent.options import Options
    from agent.safety.permissions.modes import ModeName
    from agent.session import LiveSession
    from agent.travel import Travel, Went
    from agent.workspace.checkpoints.recorder import Recorder
    from agent.workspace.checkpoints.restore.plan import Choice
    from agent.workspace.copies import Copy

MOST = 8
"""Futures that work at once."""
_SUMMARY = 200


class Worker(Protocol):
    """The engine that works on one branch."""

    async def context(self) -> ContextTable: ...

    async def run(self, text: str) -> TurnEnded: ...

    def interrupt(self) -> None: ...

    async def aclose(self) -> None: ...


Opener = Callable[["Options", Callable[[Event], None]], Awaitable[Worker]]


@dataclass(slots=True)
class Future:
    """One branch that works, or has worked, on the message."""

    head: str
    """Its branch, and who it is in events."""
    prompt: str
    model: str | None
    """None: the model of the session."""
    position: int
    """Where files stand at its beginning; from its end on, where it left them."""
    outcome: TurnOutcome | Literal["running"] = "running"
    text: str = ""
    """Its answer, or why there is none."""
    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    """US dollars; None: unknown."""
    changed: int = 0
    """Paths it changed."""
    left_out: str = ""
    """What its copy was without; empty when it was whole."""
    started: float = field(default_factory=time.monotonic)
    stopping: bool = False
    engine: Worker | None = field(default=None, repr=False)

    @property
    def number(self) -> int:
        return int(self.head.removeprefix(future_marks.PREFIX))

    @property
    def running(self) -> bool:
        return self.outcome == "running"


class Futures:
    """The futures of one session. `mode` is asked for the mode they work in, `opener` for an engine."""

    def __init__(
        self,
        session: LiveSession,
        recorder: Recorder,
        travel: Travel,
        inbox: Inbox,
        emit: Callable[[Event], None],
        copies: Path,
        options: Options,
        mode: Callable[[], ModeName],
        opener: Opener,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._travel = travel
        self._inbox = inbox
        self._emit = emit
        self._copies = copies
        self._options = options
        self._mode = mode
        self._opener = opener
        self._futures: list[Future] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting = asyncio.Lock()

    @property
    def all(self) -> tuple[Future, ...]:
        """Those of this run of the program, oldest first."""
        return tuple(self._futures)

    async def start(
        self,
        prompt: str,
        count: int,
        models: Sequence[str] | None = None,
        *,
        max_turns: int | None = None,
    ) -> tuple[Future, ...]:
        """Begin `count` futures from where the session stands; returns when all of them are at work.

        `models` are used in turn; `max_turns` is how often each may ask its model. Raises
        `HermesError`; nothing was begun then.
        """
        if not prompt.strip():
            raise HermesError("Say what the futures are to work on.")
        async with self._starting:
            room = MOST - sum(future.running for future in self._futures)
            if not 1 <= count <= room:
                raise HermesError(f"{max(room, 0)} futures can begin now; {count} were asked for.")
            if self._travel.busy():
                raise HermesError("The agent works at the moment; futures begin between two turns.")
            copies = await self._made(count)
            begun = [await self._begin(copy, prompt, models, number) for number, copy in enumerate(copies)]
        for future, copy in begun:
            work = self._work(future, copy, max_turns)
            self._tasks[future.head] = asyncio.create_task(work, name=future.head)
        return tuple(future for future, _ in begun)

    def stop(self, number: int | None = None) -> tuple[Future, ...]:
        """Stop one future, or all of them; what they did so far is kept. Returns those that worked."""
        chosen = [self._numbered(number)] if number is not None else self._futures
        working = tuple(future for future in chosen if future.running)
        for future in working:
            future.stopping = True
            if future.engine is not None:
                future.engine.interrupt()
        return working

    async def wait(self) -> None:
        """Until all have ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def pick(self, number: int, choices: Mapping[str, Choice] | None = None) -> Went:
        """Go on with a future: its files come into the workspace, its conversation is the one in use.

        `Travel.plan(future.position)` shows beforehand what happens to files. Raises `HermesError`.
        """
        return await self._travel.switch(self.ended(number).head, choices=choices)

    def ended(self, number: int) -> Future:
        """A future that can be picked. Raises `HermesError`."""
        future = self._numbered(number)
        if future.running:
            raise HermesError(f"{future.head} still works; wait for its end, or stop it first.")
        return future

    async def close(self) -> None:
        """Stop all and wait until their work is kept."""
        self.stop()
        await self.wait()

    # Within

    def _numbered(self, number: int) -> Future:
        for future in self._futures:
            if future.number == number:
                return future
        known = ", ".join(str(future.number) for future in self._futures)
        raise HermesError(
            f"There is no future {number}; {f'there are {known}' if known else 'none was begun'}."
        )

    async def _made(self, count: int) -> list[Copy]:
        from agent.workspace.copies import make_copy

        copies: list[Copy] = []
        try:
            for _ in range(count):
                copies.append(await make_copy(self._recorder, self._copies))
        except BaseException:
            for copy in copies:
                await copy.close()
            raise
        return copies

    async def _begin(
        self, copy: Copy, prompt: str, models: Sequence[str] | None, number: int
    ) -> tuple[Future, Copy]:
        """A branch of its own that begins where the session stands."""
        store, session = self._session.store, self._session
        taken = [head.name for head in await store.heads(session.id)]
        free = (f"{future_marks.PREFIX}{each}" for each in range(1, len(taken) + 2))
        head = next(name for name in free if name not in taken)
        node = session.path[-1].id if session.path else None
        await store.fork(session.id, node, head)
        mark = {"kind": future_marks.BEGUN, "to_model": True, "origin": session.head, "step": copy.position}
        await store.append(session.id, "notice", future_marks.began(copy.root, copy.origin), mark, head=head)
        await store.use_head(session.id, session.head)
        model = models[number % len(models)] if models else None
        left_out = "" if copy.coverage.complete else copy.coverage.sentence()
        future = Future(head, prompt, model, copy.position, left_out=left_out)
        self._futures.append(future)
        self._emit(AgentStarted(agent=head, name=head if model is None else f"{head} {model}", goal=prompt))
        return future, copy

    async def _work(self, future: Future, copy: Copy, max_turns: int | None) -> None:
        outcome: TurnOutcome = "failed"
        try:
            outcome, future.text = await self._answered(future, copy, max_turns)
        except HermesError as error:
            future.text = str(error)
        except asyncio.CancelledError:
            outcome = "interrupted"
        try:
            await self._put_away(future, copy, outcome)
        except HermesError as error:
            self._emit(
                Noticed(kind="warning", text=f"What {future.head} did to files cannot be kept: {error}")
            )
        future.outcome = outcome
        self._emit(
            AgentEnded(
                agent=future.head,
                outcome=outcome,
                summary=" ".join(future.text.split())[:_SUMMARY] or _SAID[outcome],
                seconds=time.monotonic() - future.started,
                calls=future.calls,
                tokens=future.tokens,
                cost=future.cost,
            )
        )

    async def _answered(self, future: Future, copy: Copy, max_turns: int | None) -> tuple[TurnOutcome, str]:
        """Let an engine work on the message to its end."""
        options = replace(
            self._options,
            workspace=copy.root,
            model=future.model or self._options.model,
            resume=None,
            resume_last=False,
            preview=None,
            approve=self._mode(),
            max_steps=max_turns or self._options.max_steps,
            beside=Beside(
                self._session.store,
                self._session.record,
                future.head,
                self._inbox,
                future.head,
                copy.origin,
                copy.position,
            ),
        )
        hearing = _Hearing(future, self._emit)
        engine = await self._opener(options, hearing)
        try:
            hearing.spent = (await engine.context()).totals.cost
            if future.stopping:
                return "interrupted", ""
            future.engine = engine
            ended = await engine.run(future.prompt)
            return ended.outcome, ended.text or ended.error
        finally:
            future.engine = None
            await engine.aclose()

    async def _put_away(self, future: Future, copy: Copy, outcome: TurnOutcome) -> None:
        """Keep what was done to files, end the branch, remove the copy."""
        store, session = self._session.store, self._session
        try:
            future.changed = len(await copy.changes())
            future.position = await copy.keep(session=session.id, label=future.head)
        finally:
            mark = future_marks.end_of(None, outcome, future.position)
            text = future_marks.ended(copy.origin)
            await store.append(session.id, "notice", text, mark, head=future.head)
            await store.use_head(session.id, session.head)
            await copy.close()


_SAID: dict[TurnOutcome, str] = {
    "done": "done",
    "failed": "failed",
    "interrupted": "stopped",
    "denied": "stopped at the gate",
    "budget": "its requests are used up",
}


class _Hearing:
    """Hears the events of a future's engine and tells the session's those that are of interest there."""

    def __init__(self, future: Future, emit: Callable[[Event], None]) -> None:
        self._future = future
        self._emit = emit
        self.spent: float | None = None
        """What the session had cost before, in US dollars."""

    def __call__(self, event: Event) -> None:
        future = self._future
        match event:
            case ToolStarted() | ToolProgressed():
                self._emit(replace(event, agent=future.head))
                if isinstance(event, ToolStarted):
                    self._progress(f"{event.display.verb} {event.display.subject}")
            case ToolFinished():
                future.calls += 1
                # The files it changed are those of the copy.
                display = replace(event.display, detail=None)
                self._emit(replace(event, agent=future.head, display=display))
                self._progress("")
            case UsageChanged():
                future.tokens += (event.request.input or 0) + (event.request.output or 0)
                if event.session_cost is not None:
                    future.cost = event.session_cost - (self.spent or 0.0)
                self._progress("")

    def _progress(self, action: str) -> None:
        future = self._future
        self._emit(
            AgentProgressed(
                agent=future.head,
                action=action,
                calls=future.calls,
                tokens=future.tokens,
                cost=future.cost,
            )
        )
