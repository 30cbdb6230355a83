"""Calls made by a script: permitted, shown and recorded like the model's, but not part of its context."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from agent.core.messages import ToolCall
from agent.events import Event, ToolFinished, ToolStarted
from agent.integrations.hooks.session_hooks import SessionHooks
from agent.model.protocol import ToolSpec
from agent.session.conversation.live_session import LiveSession
from agent.session.conversation.script_journal import SHOWN as LINE
from agent.session.conversation.script_journal import Recorded, ScriptJournals, ScriptReplay, fingerprint
from agent.session.further_tools import ToolAccess
from agent.session.turns.call_runner import hooked_call
from agent.session.turns.shown_call import SMALL_RESULT, as_data, describe, shown_arguments, shown_masked
from agent.session.turns.task_state import ScriptFiles
from agent.session.turns.tool_context import CallContext
from agent.session.turns.turn_helpers import TurnHelpers
from tools.code.data import CodeJob, Mode
from tools.code.runner import CodeRunner
from tools.context import InnerCaller
from tools.inner_call import inner_call
from tools.registry import Registry, ToolEntry
from tools.results import Outcome
from tools.text.safe_text import clean

KEPT = 2_000
"""The maximum number of characters that the session stores of a call's arguments and of its result."""
SHOWN = 100_000
"""The maximum number of characters of a result that surfaces can show."""
PARALLEL = 8
"""The maximum number of read-only calls of one script that run at once."""
WARM_UP_AFTER = 2.0
"""Seconds after the opening of a session until an interpreter is started that waits for a script."""

JOURNAL = "The record of a script"
SHOWING = "Showing a call"
"""The name of this step in a notice about its failure."""

ContextFor = Callable[[ToolCall], CallContext]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripts:
    """Services shared by the scripts of one session."""

    runner: CodeRunner
    access: ToolAccess
    specs: Sequence[ToolSpec]
    """The tools that scripts are offered."""
    session: LiveSession
    emit: Callable[[Event], None]
    secrets: Mapping[str, str]
    confined: bool
    """True if the operating system confines scripts."""
    hooks: SessionHooks
    journals: ScriptJournals
    """The journals of the session's scripts, for the repetition of interrupted ones."""
    helpers: TurnHelpers

    def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """Return the definitions of the tools that scripts are offered."""
        return definitions(self.specs, self.access.registry)

    def resolve_call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the tool and arguments of a call; for `tool_call`, those of the call that it contains."""
        found = inner_call(tool, arguments)
        if found is None or self.access.further is None or not self.access.further.reaches(found[0]):
            return tool, arguments
        return found

    def calls(self, parent: str, context_for: ContextFor) -> ScriptCalls:
        """Return the call interface for the script that the call `parent` runs."""
        return ScriptCalls(parent, self, context_for)


def warm_up(runner: CodeRunner, specs: Sequence[ToolSpec], tools: Registry, folder: Path, mode: Mode) -> None:
    """Start an interpreter for the first script, after a delay in which the session is opened."""
    if any(tool.name == "execute_code" for tool in specs):
        job = CodeJob(
            script="", folder=folder, tools=definitions(specs, tools), known=tools.names(), mode=mode
        )
        runner.prepare(job, after=WARM_UP_AFTER)


def definitions(specs: Sequence[ToolSpec], tools: Registry) -> tuple[Mapping[str, Any], ...]:
    """Return name, description, parameters (a JSON schema) and `for_scripts` of each of these tools."""
    for_scripts = tools.with_trait("for_scripts")
    return tuple(
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "for_scripts": tool.name in for_scripts,
        }
        for tool in specs
    )


class ScriptCalls(InnerCaller):
    """The calls of one script; `parent` is the id of the call that runs the script.

    Read-only calls run in parallel, all others one after the other.
    """

    def __init__(self, parent: str, scripts: Scripts, context_for: ContextFor) -> None:
        self._parent = parent
        self._scripts = scripts
        self._context_for = context_for
        self._made = 0
        self._reading = asyncio.Semaphore(PARALLEL)
        self._acting = asyncio.Lock()
        self._files: ScriptFiles | None = None
        self._earlier = ""
        self._replay = ScriptReplay()
        path = scripts.session.path
        self._journal = scripts.journals.new(parent, path[-1].id if path else 0)

    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Return the definitions of the tools that the script is offered."""
        return self._scripts.definitions()

    def all_tools(self) -> frozenset[str]:
        """Return the names of all existing tools."""
        return self._scripts.access.registry.names()

    def confined(self) -> bool:
        """Return whether the operating system confines the script."""
        return self._scripts.confined

    async def resume(self, script: str) -> None:
        """Answer calls from the journal of an earlier script. Raises `ToolError` if there is none."""
        self._replay = await self._scripts.journals.replay(script)
        self._earlier = script

    async def end_script(self, complete: bool) -> str:
        """Handle the end of the script; return a report on its calls if it was interrupted, otherwise an
        empty text.
        """
        if not complete:
            return await self._journal.report()
        await self._journal.remove()
        if self._earlier:
            await self._scripts.journals.forget(self._earlier)
        return ""

    async def run(
        self, tool: str, arguments: dict[str, Any], waiting: Callable[[], AbstractContextManager[None]]
    ) -> str:
        """Carry out a call, or answer it from the journal; return its result as JSON text.

        `waiting` is entered while the user is asked. Raises `StoreError` if the call cannot be recorded.
        """
        tool, arguments = self._scripts.resolve_call(tool, arguments)
        self._made += 1
        number = self._made
        call = ToolCall(f"{self._parent}.{number}", tool, json.dumps(arguments, ensure_ascii=False))
        entry = self._scripts.access.registry.get(tool)
        helpers = self._scripts.helpers
        shown = await helpers.ask(SHOWING, lambda: shown_masked(call, arguments, self._scripts.secrets), {})
        known = await _fingerprint(call, arguments)
        recorded = self._replay.take(known)
        made = _Made(number, call, entry, shown, is_read=entry is not None and entry.read_only)
        beginning = clean(json.dumps(shown, ensure_ascii=False)[: 2 * LINE])
        # No helper: an unrecorded call would be made again by the next script.
        await self._journal.begin(number, tool, known, beginning, durable=not made.is_read)
        if recorded is not None and recorded.result is not None:
            return await self._repeat(made, recorded, recorded.result)
        context = self._context_for(call)
        if self._files is None:
            self._files = context.state.files.of_script()
        context = dataclasses.replace(context, waiting=waiting, script_files=self._files)
        async with self._reading if made.is_read else self._acting:
            return await self._make(made, arguments, context)

    async def _make(self, made: _Made, arguments: dict[str, Any], context: CallContext) -> str:
        """Run the call and return its result. Its outcome is recorded even if it is cancelled."""
        began = time.monotonic()
        self._tell_start(made)
        text = json.dumps({"error": "Interrupted: the script was stopped before this call ended."})
        refusal = self._scripts.access.blocked(made.call.name)
        outcome: Outcome = "interrupted"
        try:
            scripts = self._scripts
            if refusal:
                text = refusal
            else:
                result = await hooked_call(
                    scripts.hooks,
                    made.call.name,
                    arguments,
                    context,
                    scripts.access.registry,
                    scripts.emit,
                    scripts.helpers,
                )
                text = await self._mask(result)
            outcome = _outcome(text)
        finally:
            seconds = time.monotonic() - began
            await asyncio.shield(self._finish(made, outcome, text, seconds))
        return text

    async def _repeat(self, made: _Made, recorded: Recorded, text: str) -> str:
        """Return the recorded result of a call, and record it again; nothing is run."""
        self._tell_start(made)
        outcome: Outcome = "failed" if recorded.outcome == "failed" else "done"
        await asyncio.shield(self._finish(made, outcome, text, 0.0, repeated=True))
        return text

    def _tell_start(self, made: _Made) -> None:
        self._scripts.emit(
            ToolStarted(
                call=made.call.id,
                tool=made.call.name,
                arguments=shown_arguments(made.arguments),
                display=describe(made.entry, made.call, made.arguments, None),
                parent=self._parent,
            )
        )

    async def _mask(self, text: str) -> str:
        if len(text) > SMALL_RESULT:
            return await asyncio.to_thread(_mask_json, text, self._scripts.secrets)
        return _mask_json(text, self._scripts.secrets)

    async def _finish(
        self, made: _Made, outcome: Outcome, text: str, seconds: float, *, repeated: bool = False
    ) -> None:
        """Record the call in the journal and the store, and emit its end."""
        ended = partial(self._journal.end, made.number, outcome, text, durable=not made.is_read)
        await self._scripts.helpers.ask(JOURNAL, ended, None)
        call = made.call
        about: dict[str, Any] = {
            "call": call.id,
            "parent": self._parent,
            "tool": call.name,
            "arguments": json.dumps(made.arguments, ensure_ascii=False)[:KEPT],
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "size": len(text),
        }
        if repeated:
            about["repeated"] = True
        node = await self._scripts.session.add("inner", clean(text[:KEPT]), about)
        result = json.loads(text) if len(text) <= SHOWN else {}
        display = describe(made.entry, call, made.arguments, result if isinstance(result, dict) else {})
        if repeated:
            display = dataclasses.replace(
                display, summary=f"from the record · {display.summary}".rstrip(" ·")
            )
        self._scripts.emit(
            ToolFinished(
                node=node.id,
                call=call.id,
                tool=call.name,
                outcome=outcome,
                seconds=seconds,
                result=text[:SHOWN],
                display=display,
                parent=self._parent,
            )
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """One call made by a script. `arguments` are masked."""

    number: int
    call: ToolCall
    entry: ToolEntry | None
    arguments: dict[str, Any]
    is_read: bool


async def _fingerprint(call: ToolCall, arguments: dict[str, Any]) -> str:
    if len(call.arguments) > SMALL_RESULT:
        return await asyncio.to_thread(fingerprint, call.name, arguments)
    return fingerprint(call.name, arguments)


def _mask_json(text: str, secrets: Mapping[str, str]) -> str:
    return json.dumps(as_data(text, secrets), ensure_ascii=False, default=str)


def _outcome(text: str) -> Outcome:
    """Return the outcome of a call, derived from its result."""
    if '"error"' not in text[:SHOWN]:
        return "done"
    result = cast(Any, json.loads(text))
    if not isinstance(result, dict) or result.get("error") is None:
        return "done"
    return "denied" if result.get("status") == "blocked" else "failed"
