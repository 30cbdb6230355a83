"""An agent of another program that works as an agent of the session: its events, steps and answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, HermesError
from agent.events import (
    Event,
    ReasoningAdded,
    TextAdded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from agent.safety.rules import Verdict
from agent.session.conversation.live_session import LiveSession
from agent.session.spending.metering import RequestTally
from agent.session.subagents.foreign_calls import CallFields, ForeignCallRecord, ForeignCalls
from agent.session.subagents.foreign_program import ForeignProgram, running
from agent.session.subagents.records import names_outcome
from agent.session.turns.call_effects import WATCHING
from agent.session.turns.call_runner import step_event
from agent.session.turns.turn_helpers import TurnHelpers
from agent.session.turns.turn_queue import TurnQueue
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.extras import add_hint, is_installed
from tools.results import Display, Outcome
from tools.services.actions import Action, RunCommand
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

LONGEST = 200_000
"""The maximum number of characters of an answer that are kept."""
SHOWN = 200
"""The maximum number of characters that are shown of a call."""
_STOPS: Mapping[str, TurnOutcome] = {
    "cancelled": "interrupted",
    "max_tokens": "budget",
    "max_turn_requests": "budget",
}


@dataclass(slots=True, kw_only=True)
class ForeignAgent:
    """An agent of another program; has the part of `session.wiring.agent.Agent` that the scheduler uses."""

    session: LiveSession
    turn_queue: TurnQueue
    program: ForeignProgram
    place: AgentWorkspace
    options: Mapping[str, Any]
    environ: Mapping[str, str]
    permit: Callable[[str, Action], Awaitable[None]]
    """Takes a call id and an action to the gate and the listeners of allowed actions. Raises `ToolError`."""
    decide: Callable[[Action], Verdict]
    tally: RequestTally
    """The usage that the program reports."""
    emit: Callable[[Event], None]
    turns: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    """US dollars, by the id of the program's session."""

    async def run(self, text: str) -> TurnEnded:
        """Work on a message, and return how the turn ended. Never raises; if cancelled, `interrupted`."""
        self.turns += 1
        turn = _Turn(self.emit)
        outcome: TurnOutcome = "failed"
        error = ""
        try:
            await self.session.add_user(text)
            self.emit(TurnStarted(turn=self.turns))
            outcome = await self._work(text, turn)
            # Codex ends its turn as cancelled when something is refused.
            if outcome in ("done", "interrupted") and turn.refused and not names_outcome(turn.text):
                outcome, error = "failed", _refusal(turn.refused)
        except asyncio.CancelledError:
            outcome = "interrupted"
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        except HermesError as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("an agent of another program failed")
            error = f"The agent {self.program.name} failed ({type(failure).__name__}: {failure})."
        turn.end()
        self._count(turn)
        answer = turn.text
        try:
            if answer.strip():
                await self.session.add_assistant(answer, turn.notes(), [], {"foreign": turn.session})
        except HermesError as failure:
            outcome, error = "failed", error or str(failure)
        ended = TurnEnded(
            outcome=outcome, text=clean(answer), session=self.session.id, usage={}, error=clean(error)
        )
        self.emit(ended)
        return ended

    def last_words(self) -> str:
        """Return the last text that the agent wrote; empty if there is none."""
        said = (node for node in reversed(self.session.path) if node.kind == "assistant")
        return next((node.content for node in said if node.content.strip()), "")

    async def _work(self, text: str, turn: _Turn) -> TurnOutcome:
        # Before any import of the package.
        if not is_installed("acp"):
            needs = "needs the package agent-client-protocol"
            raise ConfigError(f"The agent {self.program.name} {needs}; add it with `{add_hint('acp')}`.")
        from agent.session.subagents.foreign_client import ForeignClient, ForeignContext

        reach, steps, call = self.place.reach, self.place.steps, f"foreign-{self.turns}"
        starting = RunCommand(tool=self.program.name, command=self.program.line, cwd=reach.workspace)
        context = ForeignContext(
            workspace=reach.workspace,
            terminals=reach.terminals,
            options=self.options,
            permit=lambda action: self.permit(call, action),
            decide=self.decide,
        )
        client = ForeignClient(self.program.name, context, turn)
        earlier = next(
            (str(each.data["foreign"]) for each in reversed(self.session.path) if each.data.get("foreign")),
            "",
        )
        label = f"agent {self.program.name}"
        recording = nullcontext() if steps is None else steps.during(call, label, self.session.id)
        claim = TurnHelpers(self.emit).around(WATCHING, partial(self.place.claim, call, self.emit), None)
        async with claim, recording as kept:
            # It may change any file of the workspace without asking; all of that is one step.
            for hears in self.place.before_programs:
                await hears(call, starting)
            await self.place.keep_files(self.session.id)(call, starting)
            async with running(self.program, client, reach.workspace, self.environ, earlier) as process:
                turn.session = process.session
                answer = await process.prompt(text, turn.take_answer)
        stopped = str(answer.stop_reason)
        if kept is not None and kept.step is not None:
            self.emit(step_event(kept.step, self.session.path[-1].id))
        if stopped == "refusal":
            raise HermesError(f"The agent {self.program.name} refused to continue.")
        return _STOPS.get(stopped, "done")

    def _count(self, turn: _Turn) -> None:
        """Add the usage that the agent reports: that of its answer, or else the size of its context."""
        usage, tally = turn.usage, self.tally
        if usage is not None:
            tally.input += usage.total_tokens - usage.output_tokens
            tally.output += usage.output_tokens
            tally.cached += usage.cached_read_tokens or 0
        else:
            tally.input += turn.context
        if turn.cost is not None:
            # Its costs are those of its whole session.
            self.costs[turn.session] = turn.cost
            tally.cost = sum(self.costs.values())


def _refusal(refused: Sequence[str]) -> str:
    """Return the reason why a turn in which requests were refused counts as failed."""
    more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
    named = "; ".join(refused[:3])
    return f"It was refused: {named}{more}; then it ended without saying whether it reached its goal."


class _Turn:
    """Translates the updates and requests of one turn into events of Hermes."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._calls = ForeignCalls()
        self._done: list[str] = []
        self._is_new_text = False
        self._is_over = False
        self.refused: list[str] = []
        """Short descriptions of the calls that were requested and refused."""
        self.text = ""
        self.session = ""
        """The id of its session in the other program."""
        self.usage: Any = None
        """The usage in its answer; None if it reports none."""
        self.context = 0
        """The tokens in its context, as last reported; 0 if never reported."""
        self.cost: float | None = None
        """The cost of its session so far in US dollars, as last reported; None if never reported."""

    def take_update(self, update: Any) -> None:
        """Convert one update from the agent into events. Updates after the end of the turn are ignored."""
        if self._is_over:
            return
        match getattr(update, "session_update", ""):
            case "agent_message_chunk":
                words = clean(str(getattr(update.content, "text", "") or ""))
                if words and len(self.text) < LONGEST:
                    words = f"\n\n{words}" if self.text and self._is_new_text else words
                    self._is_new_text = False
                    self.text += words
                    self._emit(TextAdded(text=words))
            case "agent_thought_chunk":
                if words := clean(str(getattr(update.content, "text", "") or "")):
                    self._emit(ReasoningAdded(text=words))
            case "tool_call" | "tool_call_update" as kind:
                self._take_call(update, begins=kind == "tool_call")
            case "usage_update":
                self.context = max(self.context, update.used)
                if update.cost is not None and update.cost.currency.upper() == "USD":
                    self.cost = update.cost.amount
            case _:
                pass

    def ask(self, call: Any) -> ForeignCallRecord:
        """Return the call that a request is about; a call not reported before begins with the request."""
        asked = CallFields.of(call)
        record = self._calls.get(call.tool_call_id) or self._begin(call.tool_call_id, CallFields())
        shown = asked.over(record.said)
        self._show(record, shown)
        return record

    def refuse(self, call: ForeignCallRecord) -> None:
        """Record that a request about a call was refused; the call is denied, whatever the agent reports."""
        call.is_refused = True
        self.refused.append(call.shown.subject()[:SHOWN])

    def end(self) -> None:
        """End the calls that the agent never reported as ended."""
        for id in self._calls.all():
            self._finish(id, "interrupted")
        self._is_over = True

    def take_answer(self, answer: Any) -> None:
        """Record the usage in the agent's answer, and end the turn."""
        self.usage = answer.usage
        self.end()

    def notes(self) -> str:
        """Return a summary of the agent's calls, one line each."""
        return "\n".join(self._done)

    def _take_call(self, update: Any, *, begins: bool) -> None:
        id, said = update.tool_call_id, CallFields.of(update)
        record = self._calls.get(id)
        if record is None:
            if not begins and self._calls.was_told(id):
                return  # it has ended
            record = self._begin(id, said)
        is_first = record.said is said
        record.said = said.over(record.said)
        # Some begin with a name for all commands, and say which it is in the next update.
        if not (is_first and update.status == "pending" and not record.said.command()):
            self._show(record, record.said.over(record.shown))
        if update.status in ("completed", "failed"):
            self._finish(id, "done" if update.status == "completed" else "failed")

    def _begin(self, id: str, said: CallFields) -> ForeignCallRecord:
        self._is_new_text = True  # what it says after a call is not the end of an earlier line
        return self._calls.add(id, said, time.monotonic())

    def _show(self, call: ForeignCallRecord, fields: CallFields) -> None:
        is_new, call.shown = not call.is_shown, fields
        if is_new:
            call.is_shown = True
            display = _display(fields)
            self._emit(ToolStarted(call=call.id, tool=display.verb, arguments={}, display=display))

    def _finish(self, id: str, outcome: Outcome) -> None:
        if (call := self._calls.end(id)) is None:
            return
        self._show(call, call.shown if call.is_shown else call.said)
        outcome = "denied" if call.is_refused else outcome
        display = _display(call.shown)
        self._done.append(f"{display.verb} {display.subject} ({outcome})")
        self._emit(
            ToolFinished(
                node=0,
                call=call.id,
                tool=display.verb,
                outcome=outcome,
                seconds=time.monotonic() - call.began,
                result="{}",
                display=display,
            )
        )


def _display(call: CallFields) -> Display:
    return Display(clean(call.kind or "other"), one_line(call.subject())[:SHOWN])
