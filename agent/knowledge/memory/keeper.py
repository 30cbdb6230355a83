"""The session's own view of the notes, to which the tool `memory` writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from agent.core.home import from_home
from agent.knowledge.memory.entries import Action as Change
from agent.knowledge.memory.entries import MemoryOperation, MemoryWriteError, preview, usage
from agent.knowledge.memory.files import MemoryContents, MemoryFileError
from agent.knowledge.memory.origins import Origin
from agent.knowledge.memory.scopes import SCOPES, SHOWN_IN, Scope
from agent.knowledge.memory.service import MemoryProvider, MemoryWrite, vetted
from tools.context import Asker, MemoryChange, MemoryView
from tools.results import ToolError
from tools.senses.services import Permit
from tools.services.actions import Action, WritePath

MOST_REFUSALS = 3
"""Refused writes of one turn after which the model is told to let it be."""

FULL = 0.8
"""Share of the limit from which a person is told how full a memory is."""


@dataclass(slots=True)
class SessionMemory:
    """Notes of the main agent. One for a session; `node` says at which message a write happens."""

    provider: MemoryProvider
    session: str
    node: Callable[[], int | None]
    asker: Asker
    asks: bool
    """Whether a person is asked before anything is written."""
    writing: Callable[[str, Action], Awaitable[None]]
    """Told, by the call, what is about to be written, so that it can be taken back."""
    refused: int = 0

    def of_call(self, call: str) -> MemoryOfCall:
        """These notes as one call writes to them."""
        return MemoryOfCall(self, call)

    async def write(
        self, call: str, target: str, changes: Sequence[MemoryChange], permit: Permit | None = None
    ) -> MemoryView:
        if target not in SCOPES:
            raise ToolError(f"Unknown target {target[:40]!r}; use {', '.join(SCOPES)}.")
        scope = cast(Scope, target)
        operations = [
            MemoryOperation(cast(Change, each.action), each.content, each.old_text) for each in changes
        ]
        if self.asks and not await self._agreed(scope, operations):
            raise ToolError("The user did not agree to this note; go on without it.", status="declined")
        if permit is not None and (leaving := self.provider.leaving()) is not None:
            await permit(leaving)
        await self._announce(call, scope)
        origin = Origin(time.time(), self.session, self.node())
        try:
            written = await self.provider.write(scope, operations, origin)
        except MemoryWriteError as error:
            raise await self._refusal(scope, error) from None
        except MemoryFileError as error:
            raise ToolError(str(error)) from None
        self.refused = 0
        return _view(scope, written)

    def turn_began(self) -> None:
        """A new turn: refusals are counted anew."""
        self.refused = 0

    async def _announce(self, call: str, scope: Scope) -> None:
        with suppress(MemoryFileError):  # the write says what is wrong
            now = await self.provider.read(scope)
            if not now.on_disk:
                return
            path = now.path
            path = await asyncio.to_thread(path.parent.resolve) / path.name
            await self.writing(call, WritePath(tool="memory", path=path))

    async def _agreed(self, scope: Scope, operations: Sequence[MemoryOperation]) -> bool:
        lines = "\n".join(_line(operation) for operation in operations)
        answer = await self.asker.ask(f"Write to {scope} memory?\n{lines}", ("Yes", "No"), False)
        return answer.outcome == "answered" and answer.text.strip().lower() == "yes"

    async def _refusal(self, scope: Scope, error: MemoryWriteError) -> ToolError:
        self.refused += 1
        try:
            now = await self.provider.read(scope)
            shown, used = list(vetted(now)[0]), usage(now.entries, now.limit)
        except MemoryFileError:
            shown, used = [], ""
        if self.refused >= MOST_REFUSALS:
            given_up = "Leave memory as it is for now and go on with the task."
            return ToolError(f"{error} {given_up}", current_entries=shown, usage=used, done=True)
        return ToolError(str(error), current_entries=shown, usage=used)


@dataclass(frozen=True, slots=True)
class MemoryOfCall:
    """The notes of a session in the hands of one call."""

    notes: SessionMemory
    call: str

    async def write(
        self, target: str, changes: Sequence[MemoryChange], permit: Permit | None = None
    ) -> MemoryView:
        return await self.notes.write(self.call, target, changes, permit)


def _line(operation: MemoryOperation) -> str:
    match operation.action:
        case "add":
            return f"+ {preview(operation.content)}"
        case "remove":
            return f"− {preview(operation.old_text)}"
        case _:
            return f"{preview(operation.old_text)} → {preview(operation.content)}"


def _view(scope: Scope, written: MemoryWrite) -> MemoryView:
    now = written.after
    return MemoryView(
        target=scope,
        path=from_home(now.path) if now.on_disk else str(now.path),
        shown_in=SHOWN_IN[scope],
        entries=vetted(now)[0],
        usage=usage(now.entries, now.limit),
        message=_message(written),
        note=" ".join(each for each in (now.note, _fullness(now)) if each),
    )


def _message(written: MemoryWrite) -> str:
    if not written.changed:
        return "Nothing to change: memory holds this already."
    before, after = set(written.before.entries), set(written.after.entries)
    new, gone = len(after - before), len(before - after)
    return f"Saved: {new} new, {gone} gone. It is in the prompt from the next session on."


def _fullness(now: MemoryContents) -> str:
    share = len("\n§\n".join(now.entries)) / now.limit
    return f"{now.path.name} is {share:.0%} full." if share >= FULL else ""
