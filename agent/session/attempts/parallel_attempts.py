"""Parallel attempts: one message worked on by several branches at once, each in a copy of the workspace.

Each attempt is a branch of the session with its own agent. When an attempt has ended, its file changes are a
step of the session, so that they can be restored. Picking an attempt switches to its branch; an undo reverts
that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from agent.core.store.nodes import Session
from agent.errors import HermesError, explain_failure
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
from agent.model.catalog import UNKNOWN
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.safety.gate import Gate
from agent.session.conversation import attempt_marks
from agent.session.conversation.live_session import LiveSession
from agent.session.further_tools import ToolOffer, in_profile, with_names
from agent.session.spending.request_table import agent_name
from agent.session.subagents.subagent import Services
from agent.session.turns.tool_context import PersonApprover, PersonAsker
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import StepLimit
from agent.session.wiring.agent import Agent, AgentSpec, open_agent
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.results import ToolError
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.session.history.navigation import HistoryNavigation, NavigationResult
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.restore.ref_plan import Choice
    from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """The record, branch, copy and model of one attempt."""

    record: Session
    head: str
    """The attempt's branch, which is also the name of its agent in events."""
    copy: WorkspaceCopy
    model: str
    """The name of the model; empty for the models of the session."""
    max_steps: int
    """The maximum number of model requests in its turn."""


async def open_attempt(
    services: Services, spec: AttemptSpec, emit: Callable[[Event], None]
) -> tuple[Agent, AgentWorkspace]:
    """Open the agent of an attempt; return it and its workspace, which must be closed after the agent. Raises
    `HermesError`.
    """
    place = await services.workspaces.open_in(spec.copy, spec.head)
    try:
        return await _open(services, spec, place, emit), place
    except BaseException:
        await place.close()
        raise


async def _open(
    services: Services, spec: AttemptSpec, place: AgentWorkspace, emit: Callable[[Event], None]
) -> Agent:
    path = await services.store.path(spec.record.id, spec.head)
    session = LiveSession(services.store, spec.record, path, emit, spec.head)
    await session.prepare()
    try:
        voice = await services.models.voice(spec.model)
    except ToolError as error:
        raise HermesError(str(error)) from None
    infos, registry = services.models.infos, services.registry
    without = registry.with_trait("sends_agents") | registry.with_trait("whole_session")
    offer = in_profile(_offer(services, without), voice.profile)
    metered = partial(
        services.metering.client,
        agent=agent_name(spec.head),
        reached=partial(services.ceiling_questions.ask, agent=spec.head),
    )
    return await open_agent(
        services,
        AgentSpec(
            session=session,
            place=place,
            scratch=place.reach.scratch,
            tools=offer.direct,
            searched=offer.searched,
            fits=lambda name: name not in without,
            routes=[replace(each, client=metered(each.client, each.name)) for each in voice.routes],
            profile=voice.profile,
            meter=Meter(infos.get(voice.routes[0].name, UNKNOWN), infos),
            policy=RetryPolicy(retries=services.settings.model.retries),
            limit=StepLimit(steps=spec.max_steps),
            gate=_gate(services, spec.head, place),
            asker=PersonAsker(services.pending_requests, spec.head),
            turn_queue=TurnQueue(emit),
            emit=emit,
        ),
    )


def _offer(services: Services, without: frozenset[str]) -> ToolOffer:
    direct, searched = (
        tuple(tool for tool in tools if tool.name not in without)
        for tools in (services.tools, services.searched)
    )
    brought = services.registry.with_trait("brought")
    return with_names(ToolOffer(direct, searched), brought, more=bool(brought))


def _gate(services: Services, head: str, place: AgentWorkspace) -> Gate:
    """Return the permission gate for work in the copy. In an attended session it asks the user."""
    reach, pending_requests = place.reach, services.pending_requests
    approver = PersonApprover(pending_requests, head, reach.around) if pending_requests.attended else None
    return reach.gate.for_agent(approver, reach.audit, head)


MOST = 8
"""The maximum number of attempts that run at once."""
_SUMMARY = 200


@dataclass(slots=True)
class LiveAttempt:
    """One branch that works on the message, or has worked on it."""

    head: str
    """The attempt's branch, which is also the name of its agent in events."""
    prompt: str
    model: str | None
    """The name of its model; None for the model of the session."""
    position: int
    """The position of the files (a step number) when it began; once it has ended, the one it produced."""
    outcome: TurnOutcome | Literal["running"] = "running"
    text: str = ""
    """The attempt's answer, or the reason why there is none."""
    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    """US dollars; None: unknown."""
    changed: int = 0
    """The number of paths that it changed."""
    left_out: str = ""
    """A sentence on what is missing in its copy; empty if the copy is complete."""
    started: float = field(default_factory=time.monotonic)
    stopping: bool = False
    work: asyncio.Task[TurnEnded] | None = field(default=None, repr=False, metadata={"json": False})
    """The attempt's turn while it runs."""

    @property
    def number(self) -> int:
        return int(self.head.removeprefix(attempt_marks.PREFIX))

    @property
    def running(self) -> bool:
        return self.outcome == "running"


class ParallelAttempts:
    """The attempts of one session. `max_steps` is the default limit of model requests per attempt."""

    def __init__(
        self,
        session: LiveSession,
        recorder: StepRecorder,
        travel: HistoryNavigation,
        services: Services,
        max_steps: int,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._travel = travel
        self._services = services
        self._emit = services.emit
        self._max_steps = max_steps
        self._attempts: list[LiveAttempt] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting = asyncio.Lock()

    async def list_attempts(self) -> tuple[LiveAttempt, ...]:
        """Return the attempts that this process started, oldest first."""
        return tuple(self._attempts)

    async def start(
        self,
        prompt: str,
        count: int,
        models: Sequence[str] | None = None,
        *,
        max_turns: int | None = None,
    ) -> tuple[LiveAttempt, ...]:
        """Start `count` attempts from the current end of the session; return them when all are running.
        `models` are assigned in rotation; `max_turns` limits the model requests of each attempt. Raises
        `HermesError`, after which none is running.
        """
        if not prompt.strip():
            raise HermesError("Say what the attempts are to work on.")
        async with self._starting:
            room = MOST - sum(attempt.running for attempt in self._attempts)
            if not 1 <= count <= room:
                raise HermesError(f"{plural(max(room, 0), 'attempt')} can begin now; {count} were asked for.")
            if self._travel.busy():
                raise HermesError("The agent works at the moment; attempts begin between two turns.")
            await self._travel.wait_for_move()
            path = self._session.path
            # A turn may begin while the copies are made.
            end = path[-1].id if path else None
            copies = await self._make_copies(count)
            begun: list[LiveAttempt] = []
            try:
                for number, copy in enumerate(copies):
                    begun.append(await self._begin(copy, end, prompt, models, number))
            except BaseException:
                # Those that have a branch end as stopped ones do, with their copies.
                for attempt in begun:
                    attempt.stopping = True
                await asyncio.gather(*(copy.close() for copy in copies[len(begun) :]))
                raise
            finally:
                for attempt, copy in zip(begun, copies, strict=False):
                    work = self._work(attempt, copy, max_turns)
                    self._tasks[attempt.head] = asyncio.create_task(work, name=attempt.head)
        return tuple(begun)

    async def stop(self, number: int | None = None) -> tuple[LiveAttempt, ...]:
        """Stop one attempt, or all of them, and keep their work so far. Returns the attempts that were
        running.
        """
        chosen = [self._find_attempt(number)] if number is not None else self._attempts
        working = tuple(attempt for attempt in chosen if attempt.running)
        for attempt in working:
            attempt.stopping = True
            self._services.pending_requests.cancel_all(attempt.head)
            if attempt.work is not None:
                # Not at once: a task that has not run yet would be dropped with its message.
                asyncio.get_running_loop().call_soon(attempt.work.cancel)
        return working

    async def wait(self) -> None:
        """Wait until all attempts have ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def pick(self, number: int, choices: Mapping[str, Choice] | None = None) -> NavigationResult:
        """Take an attempt's files into the workspace and switch to its conversation; return the result.

        `HistoryNavigation.plan(attempt.position)` previews the file changes. Raises `HermesError`.
        """
        return await self._travel.switch((await self.ended_attempt(number)).head, choices=choices)

    async def ended_attempt(self, number: int) -> LiveAttempt:
        """Return an attempt that can be picked. Raises `HermesError` if it has not ended."""
        attempt = self._find_attempt(number)
        if attempt.running:
            raise HermesError(f"{attempt.head} still works; wait for its end, or stop it first.")
        return attempt

    async def close(self) -> None:
        """Stop all attempts and wait until their work is saved."""
        async with self._starting:
            # The attempts that were beginning are known now.
            await self.stop()
        await self.wait()

    # Internal

    def _find_attempt(self, number: int) -> LiveAttempt:
        for attempt in self._attempts:
            if attempt.number == number:
                return attempt
        known = ", ".join(str(attempt.number) for attempt in self._attempts)
        raise HermesError(
            f"There is no attempt {number}; {f'there are {known}' if known else 'none was begun'}."
        )

    async def _make_copies(self, count: int) -> list[WorkspaceCopy]:
        from agent.workspace.isolated_copies.workspace_copy import make_copy

        copies: list[WorkspaceCopy] = []
        try:
            for _ in range(count):
                copies.append(await make_copy(self._recorder, self._services.home.copies))
        except BaseException:
            for copy in copies:
                await copy.close()
            raise
        return copies

    async def _begin(
        self, copy: WorkspaceCopy, end: int | None, prompt: str, models: Sequence[str] | None, number: int
    ) -> LiveAttempt:
        """Create a branch at the node `end` for an attempt that works in `copy`, and return the attempt."""
        store, session = self._session.store, self._session
        taken = [head.name for head in await store.heads(session.id)]
        free = (f"{attempt_marks.PREFIX}{each}" for each in range(1, len(taken) + 2))
        head = next(name for name in free if name not in taken)
        await store.fork(session.id, end, head)
        mark = {"kind": attempt_marks.BEGUN, "to_model": True, "origin": session.head, "step": copy.position}
        await store.append(
            session.id, "notice", attempt_marks.start_note(copy.root, copy.origin), mark, head=head
        )
        await store.use_head(session.id, session.head)
        model = models[number % len(models)] if models else None
        left_out = "" if copy.coverage.complete else copy.coverage.sentence()
        attempt = LiveAttempt(head, prompt, model, copy.position, left_out=left_out)
        self._attempts.append(attempt)
        name = head if model is None else f"{head} {model}"
        self._emit(AgentStarted(agent=head, name=name, goal=prompt, in_copy=True))
        return attempt

    async def _work(self, attempt: LiveAttempt, copy: WorkspaceCopy, max_turns: int | None) -> None:
        outcome: TurnOutcome = "failed"
        try:
            outcome, attempt.text = await self._run_agent(attempt, copy, max_turns)
        except Exception as error:
            attempt.text = explain_failure(error)
        except asyncio.CancelledError:
            outcome = "interrupted"
        try:
            await self._put_away(attempt, copy, outcome)
        except Exception as error:
            told = f"What {attempt.head} did cannot be kept: {explain_failure(error)}"
            self._emit(Noticed(kind="warning", text=told))
        attempt.outcome = outcome
        self._emit(
            AgentEnded(
                agent=attempt.head,
                outcome=outcome,
                summary=" ".join(attempt.text.split())[:_SUMMARY] or _SAID[outcome],
                seconds=time.monotonic() - attempt.started,
                calls=attempt.calls,
                tokens=attempt.tokens,
                cost=attempt.cost,
            )
        )

    async def _run_agent(
        self, attempt: LiveAttempt, copy: WorkspaceCopy, max_turns: int | None
    ) -> tuple[TurnOutcome, str]:
        """Run the turn of an attempt's agent on the message; return its outcome, and the answer
        or an error.
        """
        if attempt.stopping:
            return "interrupted", ""
        hearing = _Hearing(attempt, self._emit)
        spec = AttemptSpec(
            record=self._session.record,
            head=attempt.head,
            copy=copy,
            model=attempt.model or "",
            max_steps=max_turns or self._max_steps,
        )
        agent, place = await open_attempt(self._services, spec, hearing)
        try:
            hearing.spent = (await agent.dialogue.context()).totals.cost
            if attempt.stopping:
                return "interrupted", ""
            attempt.work = asyncio.create_task(agent.run(attempt.prompt), name=f"{attempt.head} turn")
            ended = await asyncio.shield(attempt.work)
            return ended.outcome, ended.text or ended.error
        finally:
            if (work := attempt.work) is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            attempt.work = None
            await place.close()

    async def _put_away(self, attempt: LiveAttempt, copy: WorkspaceCopy, outcome: TurnOutcome) -> None:
        """Save the attempt's file changes, append the note that ends its branch, and delete the copy."""
        store, session = self._session.store, self._session
        try:
            attempt.changed = len(await copy.changes())
            attempt.position = await copy.keep(session=session.id, label=attempt.head)
        finally:
            try:
                mark = attempt_marks.end_of(None, outcome, attempt.position)
                text = attempt_marks.return_note(copy.origin)
                await store.append(session.id, "notice", text, mark, head=attempt.head)
                await store.use_head(session.id, session.head)
            finally:
                # On a full disk nothing can be stored, and the copy takes the room.
                await copy.close()


_SAID: dict[TurnOutcome, str] = {
    "done": "done",
    "failed": "failed",
    "interrupted": "stopped",
    "denied": "stopped: denied",
    "budget": "its requests are used up",
}


class _Hearing:
    """Receives the events of an attempt's agent and forwards the relevant ones to the session."""

    def __init__(self, attempt: LiveAttempt, emit: Callable[[Event], None]) -> None:
        self._attempt = attempt
        self._emit = emit
        self.spent: float | None = None
        """The session's cost before the attempt, in US dollars; None if it is unknown."""

    def __call__(self, event: Event) -> None:
        attempt = self._attempt
        match event:
            case ToolStarted() | ToolProgressed():
                self._emit(replace(event, agent=attempt.head))
                if isinstance(event, ToolStarted):
                    self._progress(f"{event.display.verb} {event.display.subject}")
            case ToolFinished():
                attempt.calls += 1
                # Its changed files are those of the copy.
                display = replace(event.display, detail=None)
                self._emit(replace(event, agent=attempt.head, display=display))
                self._progress("")
            case UsageChanged():
                attempt.tokens += (event.request.input or 0) + (event.request.output or 0)
                if event.session_cost is not None:
                    attempt.cost = event.session_cost - (self.spent or 0.0)
                self._progress("")

    def _progress(self, action: str) -> None:
        attempt = self._attempt
        self._emit(
            AgentProgressed(
                agent=attempt.head,
                action=action,
                calls=attempt.calls,
                tokens=attempt.tokens,
                cost=attempt.cost,
            )
        )
