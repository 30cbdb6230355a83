"""Execution of the tool calls of one assistant message.

Read-only calls run in parallel, all other calls run alone and in order. Results are committed as soon as they
exist and sent to the model in the order of the calls. A call that is repeated with the same result is refused
in the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.config.hook_list import HookAnswer, HookEvent
from agent.core.messages import ToolCall
from agent.core.store.nodes import Node
from agent.events import Event, Noticed, StepTaken, ToolFinished, ToolStarted
from agent.integrations.hooks.session_hooks import SessionHooks
from agent.knowledge.context.message_history import SHOWN, lines_shown
from agent.knowledge.learnings.at_calls import CallLearnings
from agent.session.conversation.live_session import LiveSession
from agent.session.further_tools import ToolAccess
from agent.session.turns.call_effects import CallEffects
from agent.session.turns.reached_folders import ReachedFolders
from agent.session.turns.shown_call import (
    SMALL_RESULT,
    as_data,
    describe,
    shown_arguments,
    shown_masked,
    shown_name,
)
from agent.session.turns.task_state import TaskState
from agent.session.turns.turn_helpers import TurnHelpers, cause
from agent.workspace.checkpoints.git_words import step_names
from tools.context import SeenFile, ToolContext
from tools.effects import Effect, declare_effect
from tools.registry import Registry, ToolEntry, call_tool
from tools.results import DeniedError, Outcome
from tools.services.actions import Action
from tools.text.safe_text import clean
from tools.todo_tool import reminder

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step


REPEATS_HINT = 3
REPEATS_STOP = 5
"""Numbers of identical calls with identical results in a row, for a hint and for a refusal."""
ALIKE_HINT = 6
"""The number of read-only calls of one tool in a row with identical results, for a hint."""


@dataclass(slots=True)
class RepeatGuard:
    """Counts successive identical calls and identical results in a turn, which show a lack of progress."""

    last: str = ""
    count: int = 0
    found: str = ""
    alike: int = 0

    def reset(self) -> None:
        """Set the counts to zero, as at the beginning of a turn."""
        self.last, self.count, self.found, self.alike = "", 0, "", 0

    def refuses(self, call: ToolCall) -> bool:
        """Return whether the call has had equal results so often that it must not run again."""
        return self.count >= REPEATS_STOP and self.last.startswith(_fingerprint(call))

    def note(self, call: ToolCall, result: str, *, is_read_only: bool = False) -> str:
        """Record a result; return a note for the model about repetitions, usually empty.

        With `is_read_only`, the tool changes nothing, so that equal results mean that nothing new was found.
        """
        digest = hashlib.sha256(result.encode("utf-8", "replace")).hexdigest()
        seen = _fingerprint(call) + digest
        self.count = self.count + 1 if seen == self.last else 1
        self.last = seen
        found = f"{call.name} {digest}" if is_read_only else ""
        self.alike = self.alike + 1 if found and found == self.found else 1
        self.found = found
        if self.count == REPEATS_HINT:
            return f"[This exact call has given the same result {self.count} times -- change something.]"
        if self.alike % ALIKE_HINT == 0 and self.count == 1:
            return (
                f"[The last {self.alike} calls of {call.name} gave the same result -- "
                "look in another way, or answer with what you know.]"
            )
        return ""


def _fingerprint(call: ToolCall) -> str:
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "replace")).hexdigest()


HOOKS = "Asking the hooks"
"""The name of this step in a notice about its failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByHook(Action):
    """A call for which a hook requires the user's approval."""

    reason: str = ""

    def headline(self) -> str:
        return f"call {self.tool}: {self.reason}" if self.reason else f"call {self.tool}"


HeldByHook.effect = declare_effect(
    Effect(
        name="hook",
        why="a hook of yours wants you to be asked",
        subject=lambda action: action.tool,
        example=lambda text: HeldByHook(tool=text),
    )
)


async def hooked_call(
    hooks: SessionHooks,
    name: str,
    arguments: dict[str, Any],
    context: ToolContext,
    tools: Registry,
    emit: Callable[[Event], None],
    helpers: TurnHelpers,
) -> str:
    """Run a tool with its hooks; return its result as JSON text, even for a call that a hook blocks.

    Arguments that a hook rewrote pass the gate like all others, because the tool itself asks the gate.
    """
    asked = arguments
    unheard = unheard_answer(hooks, "before_tool", name)
    answer = await helpers.ask(HOOKS, lambda: hooks.before_tool(name, asked), unheard)
    if answer.decision == "block":
        return _blocked_result(answer.reason or "A hook does not allow this call.")
    if answer.arguments is not None and answer.arguments != arguments:
        arguments = answer.arguments
        emit(Noticed(kind="info", text=f"A hook changed the arguments of a call of {name}."))
    if answer.decision == "ask":
        try:
            await context.permit(HeldByHook(tool=name, reason=answer.reason))
        except DeniedError as error:
            return _blocked_result(f"{error} The hook says: {answer.reason}" if answer.reason else str(error))
    text = await call_tool(name, arguments, context, tools)
    made, unheard = arguments, unheard_answer(hooks, "transform_result", name)
    said = await helpers.ask(HOOKS, lambda: hooks.transform_result(name, made, _parse_result(text)), unheard)
    if said.decision == "block":
        return _blocked_result(said.reason or "A hook keeps this result back; the call was made.")
    return text if said.result is None else json.dumps(said.result, ensure_ascii=False)


def unheard_answer(hooks: SessionHooks, event: HookEvent, tool: str = "") -> HookAnswer:
    """Return the answer to use if hooks cannot be run: a refusal if one of them is required."""
    if not hooks.requires(event, tool):
        return HookAnswer()
    return HookAnswer("block", "A hook that is required could not be asked.")


def _parse_result(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _blocked_result(reason: str) -> str:
    return json.dumps({"error": reason, "status": "blocked"}, ensure_ascii=False)


log = logging.getLogger(__name__)

PREVIEW = 1_500
"""The number of characters of a long result that stay in the conversation."""

INTERRUPTED = (
    '{"error": "Interrupted by the user before this call ended; its effects may be partial.", '
    '"status": "interrupted"}'
)
NAMED_PATHS = 20
"""The maximum number of paths in the event about a step."""
NOT_STARTED = '{"error": "Interrupted by the user before this call started; nothing was done."}'
FAULT = (
    '{"error": "A fault of Hermes ended this call; its effects may be partial.", "status": "interrupted"}',
    '{"error": "A fault of Hermes came before this call started; nothing was done."}',
)
"""Results of a call that a fault of Hermes ended, or prevented from starting."""
LEARNING = "Learning from calls"
FOLDERS = "Reading what the project says about a folder"
SHOWING = "Showing a call"
READ = "Noting which lines were shown"
"""Names of these steps in notices about their failure."""

ContextFor = Callable[[ToolCall], ToolContext]
LeftBy = Callable[[str, int], Awaitable[str]]
"""Returns a report on what an interrupted call of a message (its node) had done; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHearers:
    """The functions that are called before and after each call of one agent."""

    hooks: SessionHooks
    learnings: CallLearnings | None
    """The learnings from calls; None if they are disabled."""
    folders: ReachedFolders
    """Adds project instructions from folders that calls reach to their results."""
    left_by: LeftBy


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """The result of one call."""

    call: ToolCall
    outcome: Outcome
    result: str


class CallRunner:
    """Runs calls for one agent."""

    def __init__(
        self,
        session: LiveSession,
        access: ToolAccess,
        context_for: ContextFor,
        state: TaskState,
        effects: CallEffects,
        hearers: CallHearers,
        helpers: TurnHelpers,
        parallel: int = 8,
    ) -> None:
        self._session = session
        self._access = access
        self._tools = access.registry
        self._context_for = context_for
        self._state = state
        self._effects = effects
        self._hearers = hearers
        self._folders = hearers.folders
        self._helpers = helpers
        self._emit = helpers.emit
        self._at_once = parallel
        self._parallel = asyncio.Semaphore(parallel)
        self._shown: dict[str, dict[Path, SeenFile]] = {}
        """Lines of files in the results of calls that have ended, until these are committed."""
        self._commits: set[asyncio.Task[None]] = set()
        self._broken: Mapping[str, str] = {}
        self._running: set[str] = set()
        """Calls whose tool was asked."""
        self._recorded: frozenset[str] = frozenset()
        """Calls whose start is stored with the message that made them."""
        self.guard = RepeatGuard()

    def turn_began(self) -> None:
        """Reset repetition counts and failures at the beginning of a turn."""
        self.guard.reset()
        if self._hearers.learnings is not None:
            self._helpers.hear(LEARNING, self._hearers.learnings.turn_began, None)

    def first(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        """Return the calls that `run` will start first, all at once.

        Their start is stored together with the message that made them.
        """
        group = next(self._groups([self._access.inner(call) for call in calls]), [])[: self._at_once]
        self._recorded = frozenset(call.id for call in group)
        return group

    async def run(
        self, node: Node, calls: Sequence[ToolCall], broken: Mapping[str, str] | None = None
    ) -> list[FinishedCall]:
        """Run all calls of an assistant message; return their results in order.

        A call with an entry in `broken` is answered with that sentence instead. A call through `tool_call` is
        replaced by the call it contains. Every call gets a result, even if the turn is interrupted or fails
        through a fault in Hermes.
        """
        calls = [self._access.inner(call) for call in calls]
        self._broken = broken or {}
        finished: dict[str, FinishedCall] = {}
        started: dict[str, float] = {}
        try:
            for group in self._groups(calls):
                await _together([self._run_one(node, call, calls, started, finished) for call in group])
        except asyncio.CancelledError:
            await asyncio.shield(self._settle(node, calls, started, finished))
            raise
        except Exception:
            # The turn fails by the first fault; a second one with the same cause adds nothing.
            with suppress(Exception):
                await self._settle(node, calls, started, finished, FAULT)
            raise
        return [finished[call.id] for call in calls]

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Yield consecutive read-only calls together, every other call alone."""
        group: list[ToolCall] = []
        for call in calls:
            entry = self._tools.get(call.name)
            if entry is not None and entry.read_only:
                group.append(call)
                continue
            if group:
                yield group
                group = []
            yield [call]
        if group:
            yield group

    async def _run_one(
        self,
        node: Node,
        call: ToolCall,
        calls: Sequence[ToolCall],
        started: dict[str, float],
        finished: dict[str, FinishedCall],
    ) -> None:
        async with self._parallel:
            began = time.monotonic()
            arguments = _arguments(call)
            entry = self._tools.get(call.name)
            shown = await self._mask_arguments(call, arguments)
            show = describe(entry, call, shown, None)
            self._emit(
                ToolStarted(
                    call=call.id, tool=shown_name(call), arguments=shown_arguments(shown), display=show
                )
            )
            if call.id not in self._recorded:
                await self._session.start_call(node, call)
            started[call.id] = began
            text = await self._answer(call, calls, entry, arguments, f"{show.verb} {show.subject}")
            result = await self._read(text)
            learned = ""
            if (learnings := self._hearers.learnings) is not None:
                learned = await self._helpers.ask(LEARNING, lambda: learnings.after(call, result), "")
            outcome, text = self._judge(call, entry, result, learned)
            text = await self._helpers.ask(
                FOLDERS, lambda: self._folders.add_rules(call.id, result, text), text
            )
            commit = self._commit(call, outcome, text, time.monotonic() - began, shown, finished)
            await self._finish_commit(commit)

    async def _answer(
        self,
        call: ToolCall,
        calls: Sequence[ToolCall],
        entry: ToolEntry | None,
        arguments: dict[str, Any],
        label: str,
    ) -> str:
        """Return the result of a call. If a check fails, the call is refused and the turn continues."""
        try:
            text = self._refusal(call, calls)
            if not text and (learnings := self._hearers.learnings) is not None:
                text = await self._helpers.ask(LEARNING, lambda: learnings.before(call, arguments), "")
            text = text or self._access.misuse(call.name, arguments)
            return text or await self._act(call, entry, arguments, label)
        except Exception as error:
            log.exception("what guards a call of %s failed", shown_name(call))
            if call.id in self._running:
                return _error(f"A fault ended this call; its effects may be partial ({cause(error)}).")
            return _error(f"Not run: what guards calls failed ({cause(error)}); nothing was done.")
        finally:
            self._running.discard(call.id)

    async def _mask_arguments(self, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for surfaces, masked; an empty dict if masking fails."""
        secrets = self._state.secrets
        return await self._helpers.ask(SHOWING, lambda: shown_masked(call, arguments, secrets), {})

    async def _act(
        self, call: ToolCall, entry: ToolEntry | None, arguments: dict[str, Any], label: str
    ) -> str:
        context = self._context_for(call)
        if entry is None or entry.read_only:
            return await self._call(call, arguments, context)
        work = partial(self._call, call, arguments, context)
        return await self._effects.run(call.id, entry.name, label, context, work)

    async def _call(self, call: ToolCall, arguments: dict[str, Any], context: ToolContext) -> str:
        self._running.add(call.id)
        return await hooked_call(
            self._hearers.hooks, call.name, arguments, context, self._tools, self._emit, self._helpers
        )

    def _refusal(self, call: ToolCall, calls: Sequence[ToolCall]) -> str | None:
        """Return the result for a call that is refused without running; None if it may run."""
        if refusal := self._access.refusal(call.name, shown_name(call)):
            return refusal
        if call.id in self._broken:
            return _error(self._broken[call.id])
        first = next(
            other for other in calls if other.name == call.name and other.arguments == call.arguments
        )
        if first is not call:
            return _error(
                "This repeats another call of the same message, which was run once; see its result."
            )
        if self.guard.refuses(call):
            return _error(
                f"Not run: this exact call gave the same result {self.guard.count} times in a row. "
                "Try something else, or tell the user what stands in the way."
            )
        return None

    async def _read(self, text: str) -> dict[str, Any]:
        """Return a result as data, with secrets masked, or an error; a large one is parsed in a thread."""
        try:
            if len(text) > SMALL_RESULT:
                return await asyncio.to_thread(as_data, text, self._state.secrets)
            return as_data(text, self._state.secrets)
        except Exception as error:
            # Text that cannot be searched for secrets is not passed on.
            log.exception("a result could not be looked through")
            return {"error": f"The call was made; its result could not be looked through ({cause(error)})."}

    def _judge(
        self, call: ToolCall, entry: ToolEntry | None, result: dict[str, Any], learned: str
    ) -> tuple[Outcome, str]:
        """Return the outcome of a call, and its result as text, with notes added and the size limited.

        `learned` is a text on what is known about the failure, or empty.
        """
        failed = "error" in result and result["error"] is not None
        outcome: Outcome = "done"
        if failed:
            outcome = "denied" if result.get("status") == "blocked" else "failed"
        notes = self._helpers.hear("Counting repeats", lambda: self._notes(call, entry, result, failed), [])
        if learned:
            result["learning"] = learned
        if notes:
            result["note"] = " ".join(notes)
        return outcome, self._fit_result(call, json.dumps(result, ensure_ascii=False, default=str))

    def _notes(
        self, call: ToolCall, entry: ToolEntry | None, result: dict[str, Any], failed: bool
    ) -> list[str]:
        """Return notes for the model about repetitions and its task list; often none."""
        told = self.guard.note(
            call,
            json.dumps(result, sort_keys=True, default=str),
            is_read_only=entry is not None and entry.read_only,
        )
        todos = self._state.todos
        return [each for each in (told, reminder(todos.count_call(), failed, todos.items())) if each]

    def _fit_result(self, call: ToolCall, text: str) -> str:
        """Return `text` or, if it is too long, a preview with the path of a file that holds all of it."""
        whole = len(text) <= self._access.result_limit
        self._shown[call.id] = self._helpers.hear(
            READ, lambda: self._state.files.deliver(call.id, whole=whole), {}
        )
        if whole:
            return text
        name = f"{call.name}-{call.id}.json"
        path = self._helpers.hear("Keeping a large result", lambda: self._state.spill(name, text), None)
        preview: dict[str, Any] = {
            "preview": text[: min(PREVIEW, self._access.result_limit)],
            "characters": len(text),
            "hint": "The rest could not be kept in a file; ask for less at once.",
        }
        if path is not None:
            hint = "The whole result is in that file; read_file or search it."
            preview |= {"full_result": str(path), "hint": hint}
        return json.dumps(preview, ensure_ascii=False)

    async def _finish_commit(self, commit: Coroutine[Any, Any, None]) -> None:
        """Wait until a commit that has begun is complete, even if the turn is interrupted."""
        task = asyncio.create_task(commit)
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        await asyncio.shield(task)

    async def _commit(
        self,
        call: ToolCall,
        outcome: Outcome,
        text: str,
        seconds: float,
        arguments: dict[str, Any],
        finished: dict[str, FinishedCall],
    ) -> None:
        data: dict[str, Any] = {"outcome": outcome, "seconds": round(seconds, 3)}
        step = self._effects.take_step(call.id)
        if step is not None:
            data["step"], data["files"] = step.number, len(step_names(step))
        try:
            result = json.loads(text)
        except (ValueError, RecursionError):
            result = {}
        seen = self._shown.pop(call.id, {})
        shown = self._helpers.hear(
            READ, lambda: lines_shown(seen, str(result.get("content", "")).count("\n") + 1), []
        )
        if shown:
            data[SHOWN] = shown
        data |= self._helpers.hear(FOLDERS, lambda: self._folders.deliver(call.id), {})
        node = await self._session.finish_call(call, text, data)
        entry = self._tools.get(call.name)
        self._emit(
            ToolFinished(
                node=node.id,
                call=call.id,
                tool=shown_name(call),
                outcome=outcome,
                seconds=seconds,
                result=text,
                display=describe(entry, call, arguments, result),
            )
        )
        if step is not None:
            self._emit(step_event(step, node.id))
        finished[call.id] = FinishedCall(call, outcome, text)

    async def _settle(
        self,
        node: Node,
        calls: Sequence[ToolCall],
        started: dict[str, float],
        finished: dict[str, FinishedCall],
        words: tuple[str, str] = (INTERRUPTED, NOT_STARTED),
    ) -> None:
        """Store a result for every call that has none, so that the history stays valid."""
        await asyncio.gather(*self._commits, return_exceptions=True)
        for call in calls:
            if call.id not in finished:
                self._state.files.withdraw(call.id)
                self._helpers.hear(FOLDERS, partial(self._folders.withdraw, call.id), None)
                text = words[0] if call.id in started else words[1]
                asked = partial(self._hearers.left_by, call.id, node.id)
                if left := await self._helpers.ask("The record of a script", asked, ""):
                    text = json.dumps({**json.loads(words[0]), "note": left}, ensure_ascii=False)
                took = time.monotonic() - started[call.id] if call.id in started else 0.0
                shown = await self._mask_arguments(call, _arguments(call))
                await self._commit(call, "interrupted", text, took, shown, finished)


def step_event(step: Step, node: int) -> StepTaken:
    """Return the event that reports the step of a call."""
    names = step_names(step)
    return StepTaken(
        node=node,
        call=step.call,
        step=step.number,
        paths=tuple(map(clean, names[:NAMED_PATHS])),
        count=len(names),
        coverage=clean(step.coverage.sentence()),
    )


async def _together(jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run jobs concurrently. The first error stops the others and is raised unchanged."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        parsed = json.loads(call.arguments) if call.arguments else {}
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _error(sentence: str) -> str:
    return json.dumps({"error": sentence}, ensure_ascii=False)
