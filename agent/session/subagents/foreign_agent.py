"""An agent of another program that works as an agent of the session: its events, steps and answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
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
from agent.session.conversation.live_session import LiveSession
from agent.session.subagents.foreign_program import ForeignProgram, running
from agent.session.turns.call_runner import step_event
from agent.session.turns.turn_queue import TurnQueue
from agent.session.wiring.agent_workspace import AgentWorkspace
from tools.extras import add_hint, is_installed
from tools.results import Display, Outcome
from tools.services.actions import Action, RunCommand
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

LONGEST = 200_000
"""Characters of an answer that are kept."""
_STOPS: Mapping[str, TurnOutcome] = {
    "cancelled": "interrupted",
    "max_tokens": "budget",
    "max_turn_requests": "budget",
}


@dataclass(slots=True, kw_only=True)
class ForeignAgent:
    """Implements the part of `agent.session.wiring.agent.Agent` that the scheduler uses."""

    session: LiveSession
    turn_queue: TurnQueue
    program: ForeignProgram
    place: AgentWorkspace
    options: Mapping[str, Any]
    environ: Mapping[str, str]
    permit: Callable[[str, Action], Awaitable[None]]
    """By call: the gate, and the listeners of allowed actions."""
    emit: Callable[[Event], None]
    turns: int = 0

    async def run(self, text: str) -> TurnEnded:
        """Work on a message until the turn ends. Never raises; a cancelled task ends as interrupted."""
        self.turns += 1
        turn = _Turn(self.emit)
        outcome: TurnOutcome = "failed"
        error = ""
        try:
            await self.session.add_user(text)
            self.emit(TurnStarted(turn=self.turns))
            outcome = await self._work(text, turn)
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
        """Return the last text that the agent wrote."""
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
        )
        client = ForeignClient(self.program.name, context, turn.take_update)
        earlier = next(
            (str(each.data["foreign"]) for each in reversed(self.session.path) if each.data.get("foreign")),
            "",
        )
        label = f"agent {self.program.name}"
        async with nullcontext() if steps is None else steps.during(call, label, self.session.id) as kept:
            # It may change any file of the workspace without asking; all of that is one step.
            for hears in self.place.before_programs:
                await hears(call, starting)
            await self.place.keep_files(self.session.id)(call, starting)
            async with running(self.program, client, reach.workspace, self.environ, earlier) as process:
                turn.session = process.session
                stopped = await process.prompt(text)
        if kept is not None and kept.step is not None:
            self.emit(step_event(kept.step, self.session.path[-1].id))
        if stopped == "refusal":
            raise HermesError(f"The agent {self.program.name} refused to go on.")
        return _STOPS.get(stopped, "done")


class _Turn:
    """Translates the updates of one turn into events of Hermes."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._calls: dict[str, tuple[str, Display, float]] = {}
        self._done: list[str] = []
        self.text = ""
        self.session = ""
        """The id of its session in the other program."""

    def take_update(self, update: Any) -> None:
        """Convert one update of the agent into events."""
        match getattr(update, "session_update", ""):
            case "agent_message_chunk":
                words = clean(str(getattr(update.content, "text", "") or ""))
                if words and len(self.text) < LONGEST:
                    self.text += words
                    self._emit(TextAdded(text=words))
            case "agent_thought_chunk":
                if words := clean(str(getattr(update.content, "text", "") or "")):
                    self._emit(ReasoningAdded(text=words))
            case "tool_call":
                self._begins(update)
                self._goes_on(update)
            case "tool_call_update":
                if update.tool_call_id not in self._calls and update.status not in ("completed", "failed"):
                    self._begins(update)
                self._goes_on(update)
            case _:
                pass

    def end(self) -> None:
        """End the calls that the agent never reported as ended."""
        for call in list(self._calls):
            self._finishes(call, "interrupted")

    def notes(self) -> str:
        """Return a summary of the agent's actions, one line each."""
        return "\n".join(self._done)

    def _begins(self, update: Any) -> None:
        call = clean(str(update.tool_call_id))[:100]
        tool = clean(str(update.kind or "other"))
        display = Display(tool, one_line(str(update.title or ""))[:200])
        self._calls[call] = (tool, display, time.monotonic())
        self._emit(ToolStarted(call=call, tool=tool, arguments={}, display=display))

    def _goes_on(self, update: Any) -> None:
        if update.status in ("completed", "failed"):
            self._finishes(
                clean(str(update.tool_call_id))[:100], "done" if update.status == "completed" else "failed"
            )

    def _finishes(self, call: str, outcome: Outcome) -> None:
        if (known := self._calls.pop(call, None)) is None:
            return
        tool, display, began = known
        self._done.append(f"{tool} {display.subject} ({outcome})")
        self._emit(
            ToolFinished(
                node=0,
                call=call,
                tool=tool,
                outcome=outcome,
                seconds=time.monotonic() - began,
                result="{}",
                display=display,
            )
        )
