"""One user turn: requests to the model and tool calls until there is an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Literal, Protocol

from agent.core.attachments import records
from agent.core.messages import Attachment, ToolCall
from agent.core.store.nodes import Node
from agent.errors import ExitCode, HermesError, ModelError, ModelErrorKind, explain_failure
from agent.events import Noticed, TurnEnded, TurnOutcome, TurnStarted
from agent.integrations.hooks.session_hooks import SessionHooks
from agent.knowledge.context.message_history import sealed_data
from agent.knowledge.memory.service import SessionMemory
from agent.knowledge.skills.keeper import SessionSkills
from agent.model.protocol import Profile
from agent.model.transport.reply import ModelReply
from agent.model.usage import usage_record
from agent.session.conversation.live_session import LiveSession
from agent.session.spending.budget import BudgetReachedError
from agent.session.turns.attaching import Attached
from agent.session.turns.call_runner import HOOKS, FinishedCall, unheard_answer
from agent.session.turns.turn_helpers import TurnHelpers
from agent.session.turns.turn_queue import TurnQueue
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

MENTION = "mention"
"""The kind of a notice that explains a mention, or attaches its contents, to the model only."""
MAX_CONTINUATIONS = 3
"""The maximum number of times that an answer at the output limit is continued."""

MAX_NUDGES = 2
"""The maximum number of times that an empty or premature answer is sent back."""

CONTINUE = (
    "[Your answer reached the output limit. Continue exactly where it stopped, without repeating anything.]"
)
CUT_OFF = "[The program ended while you were writing. Continue where your answer stops, repeating nothing.]"
EMPTY = "[Your reply was empty. Answer the user, or call a tool.]"
WRAP_UP = (
    "[The limit of requests for this turn is reached. Do not call tools any more. "
    "Say briefly what is done, what is not, and what the next step would be.]"
)

CUT_AT_LIMIT = (
    "The answer was cut at the output limit {times} times and is not complete; ask for less at once, "
    "or raise model.max_output."
)
FILTERED = (
    "The model broke its answer off: its provider objects to the content. Rephrase, or choose another model."
)
REFUSED = (
    "What was refused stays here for you and is not sent again: say it in other words, or undo and continue."
)

EXIT_CODES: dict[TurnOutcome, ExitCode] = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
    "denied": ExitCode.DENIED,
    "budget": ExitCode.FAILED,
}


@dataclass(slots=True)
class _Progress:
    """The progress of a turn: steps, parts of the answer, and refusals."""

    calls: int = 0
    nudges: int = 0
    parts: list[str] = field(default_factory=list)
    """The pieces so far of an answer that is continued."""
    last_batch: list[FinishedCall] = field(default_factory=list)
    refused: bool = False
    """True if the gate refused a call and no call has succeeded since."""
    problem: str = ""
    """The reason why an answer that was given does not complete the work; empty if it does."""


class AsksModel(Protocol):
    """The part of `agent.session.turns.dialogue.Dialogue` that a turn uses."""

    async def next_reply(self, step: int) -> ModelReply: ...

    async def begin_again(self, reason: str) -> None: ...

    def take_partial(self) -> tuple[str, str, str]: ...

    def take_aside(self) -> list[dict[str, Any]]: ...

    def take_record(self) -> dict[str, Any]: ...

    def usage(self) -> dict[str, int | float | None]: ...


class RunsCalls(Protocol):
    """The part of `agent.session.turns.call_runner.CallRunner` that a turn uses."""

    def turn_began(self) -> None: ...

    def first(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]: ...

    async def run(
        self, node: Node, calls: Sequence[ToolCall], broken: Mapping[str, str] | None = None
    ) -> list[FinishedCall]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimit:
    """The limit on the model requests of one turn."""

    steps: int
    more: Callable[[], Awaitable[int]] | None = None
    """Called when the steps are used up; returns how many more are allowed, 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHearers:
    """The services around a turn other than the model. Most are called when it begins or ends.

    Some of them add to the message that begins it.
    """

    hooks: SessionHooks
    memory: SessionMemory | None = None
    skills: SessionSkills | None = None
    supplements: Sequence[Callable[[str], Awaitable[str]]] = ()
    """Functions that return a note for the model on a user message, such as its mentions, or empty text."""
    attach: Callable[[str], Awaitable[Attached]] | None = None
    """Returns the contents of a message's references; None if references are not resolved."""


class TurnRunner:
    """Runs turns of one session, one at a time."""

    def __init__(
        self,
        session: LiveSession,
        dialogue: AsksModel,
        calls: RunsCalls,
        turn_queue: TurnQueue,
        profile: Profile,
        limit: StepLimit,
        hearers: TurnHearers,
        helpers: TurnHelpers,
    ) -> None:
        self._session = session
        self._dialogue = dialogue
        self._calls = calls
        self._turn_queue = turn_queue
        self._profile = profile
        self._limit = limit
        self._hearers = hearers
        self._helpers = helpers
        self._emit = helpers.emit
        self._turns = 0
        self.unsaved = False
        """True if the message of the last turn is not stored, so that only its sender has it."""

    async def run(
        self,
        text: str,
        origin: str = "prompt",
        attachments: Sequence[Attachment] = (),
        received: int = 0,
    ) -> TurnEnded:
        """Work on a message until there is an answer; return how the turn ended. Never raises.

        The message is stored before anything else happens. A cancelled task ends the turn as interrupted,
        with a valid history.
        """

        async def begin(_: _Progress) -> None:
            self.unsaved = True
            await self._take_notes()
            await self._add_user(text, origin, attachments, received)

        return await self._carry(begin)

    async def go_on(self) -> TurnEnded:
        """Complete a turn that the previous process left unfinished (`cut_off`); return how it ended.

        Stored answers and results are not requested again. Like `run`, it never raises.
        """
        return await self._carry(self._take_up)

    @property
    def cut_off(self) -> bool:
        """True if the session ends in the middle of a turn."""
        last = _last_said(self._session.path)
        return last is not None and not last.is_whole_answer

    async def _take_up(self, progress: _Progress) -> None:
        progress.parts += _parts_cut_off(self._session.path)
        last = _last_said(self._session.path)
        if last is not None and last.kind == "assistant" and not last.data.get("calls"):
            await self._session.add_user(CUT_OFF, "engine")

    async def _carry(self, begin: Callable[[_Progress], Awaitable[None]]) -> TurnEnded:
        self._turns += 1
        self._helpers.turn_began()
        self._calls.turn_began()
        if (memory := self._hearers.memory) is not None:
            self._helpers.hear("Beginning a turn", memory.turn_began, None)
        if (skills := self._hearers.skills) is not None:
            self._helpers.hear("Beginning a turn", skills.in_force.leave, None)
        progress = _Progress()
        outcome: TurnOutcome = "failed"
        answer, error = "", ""
        cause: ModelErrorKind | Literal[""] = ""
        code: ExitCode | None = None
        try:
            await begin(progress)
            self._emit(TurnStarted(turn=self._turns))
            outcome, answer = await self._steps(progress)
            error = progress.problem
        except asyncio.CancelledError:
            # A write that has begun completes.
            self.unsaved = False
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            outcome = "interrupted"
            error = await self._keep_partial_answer()
        except BudgetReachedError as reached:
            outcome, error = "budget", str(reached)
            await self._note_failure(error)
        except HermesError as failure:
            error, code = str(failure), failure.exit_code
            cause = failure.kind if isinstance(failure, ModelError) else ""
            refused = self._refused_by(failure)
            await self._note_failure(error, refused)
            if refused:
                self._emit(Noticed(kind="info", text=REFUSED))
                reframe = partial(self._dialogue.begin_again, "the provider refused what was said last")
                await self._helpers.ask("Leaving out what was refused", reframe, None)
        except Exception as failure:
            error = explain_failure(failure)
            await self._note_failure(error)
        return self._end_event(outcome, answer, error, code, cause)

    async def _steps(self, progress: _Progress) -> tuple[TurnOutcome, str]:
        step, limit = 0, self._limit.steps
        while step < limit or (limit := limit + await self._more_steps()) > step:
            step += 1
            await self._take_mail()
            reply = await self._dialogue.next_reply(step)
            node = await self._commit(reply)
            if reply.calls:
                progress.parts.clear()
                progress.calls += len(reply.calls)
                progress.last_batch = await self._calls.run(node, reply.calls, reply.broken)
                self._note_refusal(progress)
                continue
            if await self._goes_on(reply, progress):
                continue
            answer = "".join([*progress.parts, reply.text])
            if reply.finish == "length":
                progress.problem = CUT_AT_LIMIT.format(times=1 + len(progress.parts) + progress.nudges)
                await self._note_failure(progress.problem)
                return "failed", answer
            if not answer.strip() and reply.finish != "content_filter":
                raise HermesError(_nothing_said(reply))
            return ("denied" if progress.refused else "done"), answer
        return "budget", await self._wrap_up(step + 1)

    async def _goes_on(self, reply: ModelReply, progress: _Progress) -> bool:
        """Return whether the turn continues after a reply without calls; add what the model needs for it."""
        if reply.finish == "content_filter":
            self._emit(Noticed(kind="warning", text=FILTERED))
            return False
        if reply.finish == "pause" and len(progress.parts) < MAX_CONTINUATIONS:
            progress.parts.append(reply.text)
            return True
        if reply.finish == "length" and reply.text and len(progress.parts) < MAX_CONTINUATIONS:
            progress.parts.append(reply.text)
            await self._session.add_user(CONTINUE, "engine")
            return True
        if self._turn_queue.steering_waits():
            progress.parts.clear()
            return True
        nudge = None if reply.text.strip() else EMPTY
        if nudge is None and self._profile.guard is not None:
            asked, guard = self._session.last_user_text(), self._profile.guard
            nudge = self._helpers.hear(
                "Looking at an answer", lambda: guard(asked, progress.calls, reply.text), None
            )
        if nudge is None:
            nudge = await self._held_back("".join([*progress.parts, reply.text]))
        if nudge is None or progress.nudges >= MAX_NUDGES:
            return False
        progress.nudges += 1
        await self._session.add_user(nudge, "engine")
        return True

    async def _more_steps(self) -> int:
        more = self._limit.more
        return 0 if more is None else await self._helpers.ask("Asking for further steps", more, 0)

    async def _held_back(self, answer: str) -> str | None:
        """Return a message for the model if a hook refuses to end the turn with this answer; else None."""
        unheard = unheard_answer(self._hearers.hooks, "before_response")
        said = await self._helpers.ask(HOOKS, lambda: self._hearers.hooks.before_response(answer), unheard)
        if said.decision == "allow":
            return None
        return f"[A check of the user holds your answer back: {said.reason or 'no reason is given'}]"

    async def _wrap_up(self, step: int) -> str:
        """Return a final summary, requested after the limit of steps. Calls in it are not run."""
        await self._session.add_user(WRAP_UP, "engine")
        reply = await self._dialogue.next_reply(step)
        await self._session.add_assistant(reply.text, reply.reasoning, (), self._data(reply))
        return reply.text

    async def _take_notes(self) -> None:
        for note in self._turn_queue.take_notices():
            data: dict[str, object] = {"kind": "process", "to_model": True}
            if note.attachments:
                data |= {"kind": MENTION, "attachments": records(note.attachments)}
            elif note.shown:
                data |= {"kind": "files", "shown": note.shown}
            await self._session.add("notice", note.text, data)

    async def _take_mail(self) -> None:
        await self._take_notes()
        items = self._turn_queue.take_steering()
        while items:
            item = items.pop(0)
            self.unsaved = True
            try:
                await self._add_user(item.text, "steer", item.attachments, item.received)
            except HermesError:
                self._turn_queue.put_back([item, *items] if self.unsaved else items)
                self.unsaved = False
                raise
            except asyncio.CancelledError:
                for unread in items:
                    self._turn_queue.steer(unread.text, unread.attachments, unread.received)
                raise

    async def _add_user(
        self, text: str, origin: str, attachments: Sequence[Attachment], received: int
    ) -> None:
        """Store a message of the user, and the notes that the model needs to understand it."""
        await self._session.add_user(text, origin, attachments, received)
        self.unsaved = False
        if told := await self._helpers.ask("Reading mentions", partial(self._supplement, text), ""):
            await self._session.add("notice", told, {"kind": MENTION, "to_model": True})
        if (attach := self._hearers.attach) is None:
            return
        attached = await self._helpers.ask("Attaching", lambda: attach(text), Attached())
        if attached.text:
            await self._session.add("notice", attached.text, {"kind": MENTION, "to_model": True})
        for line in attached.told:
            await self._session.add("notice", line, {"kind": "info", "to_model": False})
            self._emit(Noticed(kind="info", text=line))

    async def _supplement(self, text: str) -> str:
        skills = self._hearers.skills
        found = [] if skills is None else [await skills.expand_command(text)]
        found += [await supplement(text) for supplement in self._hearers.supplements]
        return "\n\n".join(filter(None, found))

    async def _commit(self, reply: ModelReply) -> Node:
        starts = self._calls.first(reply.calls)
        data = self._data(reply)
        return await self._session.add_assistant(
            reply.text, reply.reasoning, reply.calls, data, starts=starts
        )

    def _data(self, reply: ModelReply) -> dict[str, object]:
        data: dict[str, object] = {
            "model": reply.answered or reply.route,
            "finish": reply.finish,
            "usage": usage_record(reply.usage),
        }
        if aside := self._dialogue.take_aside():
            data["aside"] = aside
        if reply.sealed is not None:
            data["sealed"] = sealed_data(reply.sealed)
        if reply.repairs:
            data["repairs"] = list(reply.repairs)
        if record := self._helpers.hear("The record of a request", self._dialogue.take_record, {}):
            data["request"] = record
        if reply.raw is not None:
            data["raw"] = dict(reply.raw)
        if reply.tokens is not None:
            data["tokens"] = dict(reply.tokens)
        return data

    def _note_refusal(self, progress: _Progress) -> None:
        for end in progress.last_batch:
            if end.outcome == "denied":
                progress.refused = True
            elif end.outcome == "done" and not end.call.name.startswith("todo_"):
                progress.refused = False

    async def _keep_partial_answer(self) -> str:
        """Store the model's incomplete answer. Return the error if that fails, otherwise an empty text."""
        await self._session.wait_for_write()
        text, reasoning, model = self._dialogue.take_partial()
        if not text.strip():
            return ""
        try:
            data = {"state": "interrupted", "model": model}
            await asyncio.shield(self._session.add_assistant(text, reasoning, (), data))
        except (HermesError, asyncio.CancelledError) as failure:
            return str(failure)
        return ""

    def _refused_by(self, failure: HermesError) -> list[int]:
        """Return the ids of the unanswered messages if `failure` means that their contents were refused."""
        if not isinstance(failure, ModelError) or failure.kind != "content_filter" or not failure.status:
            return []
        unanswered = takewhile(lambda node: node.kind != "assistant", reversed(self._session.path))
        return [node.id for node in unanswered if node.kind in ("user", "tool") or node.data.get("to_model")]

    async def _note_failure(self, error: str, refused: Sequence[int] = ()) -> None:
        """Store the reason of a failure in the session, even if the turn is stopped meanwhile."""
        noting = asyncio.ensure_future(self._keep_failure(error, refused))
        while not noting.done():
            try:
                await asyncio.shield(noting)
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()

    async def _keep_failure(self, error: str, refused: Sequence[int]) -> None:
        """Store the incomplete answer and the reason of a failure. An error of the store is only logged."""
        await self._keep_partial_answer()
        try:
            more = {"refused": list(refused)} if refused else {}
            await self._session.add("notice", error, {"kind": "failure", "to_model": False, **more})
        except HermesError as failure:
            log.warning("the failure could not be stored: %s", failure)

    def _end_event(
        self,
        outcome: TurnOutcome,
        answer: str,
        error: str,
        code: ExitCode | None,
        cause: ModelErrorKind | Literal[""],
    ) -> TurnEnded:
        ended = TurnEnded(
            outcome=outcome,
            text=clean(answer),
            session=self._session.id,
            usage=self._helpers.hear("Counting what was used", self._dialogue.usage, {}),
            error=clean(error),
            exit_code=int(code if code is not None else EXIT_CODES[outcome]),
            cause=cause,
        )
        self._emit(ended)
        return ended


def _nothing_said(reply: ModelReply) -> str:
    """Return a sentence for the user on why a turn without an answer failed."""
    if reply.reasoning.strip():
        return (
            f"{reply.route} thought and then gave no answer, also when it was asked again; let it think less "
            "(/effort low), or choose another model."
        )
    sent = f" to {reply.usage.input:,} tokens" if reply.usage.input else ""
    return (
        f"{reply.route} answered nothing{sent}, also when it was asked again; a window that is full looks "
        "like this: shorten the conversation with /compact, or choose another model."
    )


def _last_said(path: Sequence[Node]) -> Node | None:
    """Return the last message or tool result of a path; None if there is none."""
    return next((node for node in reversed(path) if node.kind in ("user", "assistant", "tool")), None)


def _parts_cut_off(path: Sequence[Node]) -> list[str]:
    """Return the parts of an unfinished answer at the end of a path, oldest first.

    Each part was interrupted when its process ended.
    """
    parts: list[str] = []
    for node in reversed(path):
        cut_off = node.data.get("state") == "interrupted" and not node.data.get("calls")
        if node.kind == "assistant" and cut_off:
            parts.insert(0, node.content)
        elif node.kind in ("user", "assistant", "tool") and node.content != CUT_OFF:
            break
    return parts
