"""Calls that a script makes: governed, shown and recorded like those of the model, outside its context."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agent.calls import SMALL_RESULT, as_data, describe, shown_arguments, shown_masked
from agent.events import Event, ToolFinished, ToolStarted
from agent.messages import ToolCall
from agent.model.protocol import ToolSpec
from agent.session import LiveSession
from agent.tool_context import CallContext
from tools.code.data import CodeJob, Mode
from tools.code.runner import CodeRunner
from tools.registry import Registry, call_tool
from tools.results import Outcome
from tools.text import clean

KEPT = 2_000
"""Characters of arguments and results that the session keeps of an inner call."""
SHOWN = 100_000
"""Characters of a result that surfaces get to see."""
PARALLEL = 8
"""Calls of one script that run at once."""
WARM_UP_AFTER = 2.0
"""Seconds between the opening of a session and the start of an interpreter that waits for a script."""

ContextFor = Callable[[ToolCall], CallContext]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripts:
    """What the scripts of one session have in common."""

    runner: CodeRunner
    tools: Registry
    specs: Sequence[ToolSpec]
    """The tools on offer."""
    session: LiveSession
    emit: Callable[[Event], None]
    secrets: Mapping[str, str]
    confined: bool
    """Whether the operating system confines them."""

    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Definitions of the tools on offer."""
        return tuple(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in self.specs
        )

    def warm_up(self, folder: Path, mode: Mode) -> None:
        """Have an interpreter wait for the first script, once the session has had time to open."""
        if any(tool.name == "execute_code" for tool in self.specs):
            job = CodeJob(script="", folder=folder, tools=self.offered(), known=self.tools.names(), mode=mode)
            self.runner.prepare(job, after=WARM_UP_AFTER)

    def calls(self, parent: str, context_for: ContextFor) -> InnerCalls:
        """The calls of the script that the call `parent` runs."""
        return InnerCalls(parent, self, context_for)


class InnerCalls:
    """The calls of one script; `parent` is the call that runs it.

    Calls that only read run side by side, all others one after the other.
    """

    def __init__(self, parent: str, scripts: Scripts, context_for: ContextFor) -> None:
        self._parent = parent
        self._scripts = scripts
        self._context_for = context_for
        self._made = 0
        self._reading = asyncio.Semaphore(PARALLEL)
        self._acting = asyncio.Lock()

    def offered(self) -> tuple[Mapping[str, Any], ...]:
        """Definitions of the tools on offer."""
        return self._scripts.offered()

    def known(self) -> frozenset[str]:
        """Names of all tools there are."""
        return self._scripts.tools.names()

    def confined(self) -> bool:
        """Whether the operating system confines the script itself."""
        return self._scripts.confined

    async def run(
        self, tool: str, arguments: dict[str, Any], waiting: Callable[[], AbstractContextManager[None]]
    ) -> str:
        """Carry out a call; its result as JSON text. `waiting` is entered while a person is asked."""
        self._made += 1
        call = ToolCall(f"{self._parent}.{self._made}", tool, json.dumps(arguments, ensure_ascii=False))
        entry = self._scripts.tools.get(tool)
        context = dataclasses.replace(self._context_for(call), waiting=waiting)
        turn = self._reading if entry is not None and entry.read_only else self._acting
        async with turn:
            began = time.monotonic()
            shown = await shown_masked(call, arguments, self._scripts.secrets)
            started = describe(entry, call, shown, None)
            self._scripts.emit(
                ToolStarted(
                    call=call.id,
                    tool=tool,
                    arguments=shown_arguments(shown),
                    display=started,
                    parent=self._parent,
                )
            )
            text = json.dumps({"error": "Interrupted: the script was stopped before this call ended."})
            outcome: Outcome = "interrupted"
            try:
                text = await self._redacted(await call_tool(tool, arguments, context, self._scripts.tools))
                outcome = _outcome(text)
            finally:
                seconds = time.monotonic() - began
                await asyncio.shield(self._finish(call, shown, outcome, text, seconds))
        return text

    async def _redacted(self, text: str) -> str:
        if len(text) > SMALL_RESULT:
            return await asyncio.to_thread(_masked, text, self._scripts.secrets)
        return _masked(text, self._scripts.secrets)

    async def _finish(
        self, call: ToolCall, arguments: dict[str, Any], outcome: Outcome, text: str, seconds: float
    ) -> None:
        """Write the call down beside the conversation, and tell that it is over. `arguments` are masked."""
        about = {
            "call": call.id,
            "parent": self._parent,
            "tool": call.name,
            "arguments": json.dumps(arguments, ensure_ascii=False)[:KEPT],
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "size": len(text),
        }
        node = await self._scripts.session.add("inner", clean(text[:KEPT]), about)
        result = json.loads(text) if len(text) <= SHOWN else {}
        entry = self._scripts.tools.get(call.name)
        self._scripts.emit(
            ToolFinished(
                node=node.id,
                call=call.id,
                tool=call.name,
                outcome=outcome,
                seconds=seconds,
                result=text[:SHOWN],
                display=describe(entry, call, arguments, result if isinstance(result, dict) else {}),
                parent=self._parent,
            )
        )


def _masked(text: str, secrets: Mapping[str, str]) -> str:
    return json.dumps(as_data(text, secrets), ensure_ascii=False, default=str)


def _outcome(text: str) -> Outcome:
    """How a call ended, by its result."""
    if '"error"' not in text[:SHOWN]:
        return "done"
    result = cast(Any, json.loads(text))
    if not isinstance(result, dict) or result.get("error") is None:
        return "done"
    return "denied" if result.get("status") == "blocked" else "failed"
