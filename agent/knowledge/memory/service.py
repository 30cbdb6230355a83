"""The memory service of a session: it reads memory for the system prompt, writes to it and reports the
result.

The rest of the program only knows `MemoryProvider`, so another store can replace the files.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from agent.core.home import from_home
from agent.knowledge.injection import scan
from agent.knowledge.memory.files import Action as Change
from agent.knowledge.memory.files import (
    Entries,
    MemoryContents,
    MemoryFile,
    MemoryFileError,
    MemoryOperation,
    MemoryWriteError,
    Origin,
    preview,
    size,
    usage,
)
from agent.knowledge.memory.scopes import LIMITS, SCOPES, SHOWN_IN, MemoryFolders, Scope, block, project_root
from tools.context import Asker, MemoryChange, MemoryKeeper, MemoryView
from tools.results import ToolError
from tools.services.actions import Action, Permit, WritePath


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """The contents of a memory before and after a write."""

    before: MemoryContents
    after: MemoryContents

    @property
    def changed(self) -> bool:
        """Whether any entry changed."""
        return self.before.entries != self.after.entries


class MemoryProvider(Protocol):
    """A store of memory for one workspace."""

    def leaving(self) -> Action | None:
        """Return the action to be permitted if notes go to a remote service; None for local files."""
        ...

    async def read(self, scope: Scope) -> MemoryContents:
        """Return the memory of a scope. Raises `MemoryFileError` if it cannot be read."""
        ...

    async def write(self, scope: Scope, operations: Sequence[MemoryOperation], origin: Origin) -> MemoryWrite:
        """Apply all operations to a scope, or none; return the result.

        Raises `MemoryWriteError` for operations that cannot be applied, `MemoryFileError` for a store that
        cannot be used.
        """
        ...

    async def blocks(self) -> tuple[MemoryBlock, ...]:
        """Return the memory blocks for the system prompt of a new session, in order, without empty scopes."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One scope as the system prompt shows it."""

    scope: Scope
    text: str
    path: Path
    problem: str = ""
    """A notice for the user: entries left out, or an unreadable file."""


class MemoryFiles:
    """Memory in plain files in the Hermes home."""

    def __init__(self, root: Path, workspace: Path, limits: Mapping[Scope, int] = LIMITS) -> None:
        # A home that is reached through a link is as good as any other; links within it are refused.
        self._folders = MemoryFolders(Path(os.path.realpath(root)))
        self._project = project_root(workspace)
        self._limits = limits

    def leaving(self) -> Action | None:
        return None

    def file(self, scope: Scope) -> MemoryFile:
        """Return the file of a scope."""
        return MemoryFile(self._folders.path(scope, self._project), self._limits[scope])

    async def read(self, scope: Scope) -> MemoryContents:
        return await asyncio.to_thread(self.file(scope).read)

    async def write(self, scope: Scope, operations: Sequence[MemoryOperation], origin: Origin) -> MemoryWrite:
        for operation in operations:
            refuse_injection(operation.content)
        before, after = await asyncio.to_thread(self.file(scope).write, operations, origin)
        return MemoryWrite(before, after)

    async def blocks(self) -> tuple[MemoryBlock, ...]:
        return await asyncio.to_thread(self.read_blocks)

    def read_blocks(self) -> tuple[MemoryBlock, ...]:
        """Return the same as `blocks`, for callers that already run in a thread."""
        found: list[MemoryBlock] = []
        for scope in SCOPES:
            file = self.file(scope)
            try:
                memory = file.read()
            except MemoryFileError as error:
                found.append(MemoryBlock(scope, "", file.path, str(error)))
                continue
            shown, problem = vet_entries(memory)
            text = block(scope, shown, size(memory.entries), memory.limit)
            if text:
                found.append(MemoryBlock(scope, text, file.path, problem))
        return tuple(found)


def refuse_injection(content: str) -> None:
    """Raise `MemoryWriteError` if a text reads like an order to an agent; such texts are not stored in
    memory.
    """
    findings = scan(content)
    if findings:
        names = ", ".join(dict.fromkeys(each.rule for each in findings))
        raise MemoryWriteError(
            f"This reads like an instruction to an agent ({names}: {findings[0].excerpt[:80]!r}), "
            "which memory does not take; write the plain fact."
        )


def vet_entries(memory: MemoryContents) -> tuple[Entries, str]:
    """Return the entries that a model may see, and a notice for the user.

    An entry that reads like an attack is replaced by a placeholder. It stays in the file, so the user can
    read and delete it.
    """
    shown: list[str] = []
    blocked = 0
    for entry in memory.entries:
        findings = scan(entry)
        if findings:
            blocked += 1
            names = ", ".join(dict.fromkeys(each.rule for each in findings))
            shown.append(
                f"[BLOCKED: an entry of {memory.path.name} matched {names}; remove it with the memory tool]"
            )
        else:
            shown.append(entry)
    if not blocked:
        return tuple(shown), ""
    which = "an entry" if blocked == 1 else f"{blocked} entries"
    mend = "see `hermes memory list`" if memory.on_disk else "have it removed with the memory tool"
    return tuple(shown), f"{memory.path.name}: {which} held back as possible injection; {mend}."


MOST_REFUSALS = 3
"""The number of refused writes in one turn after which the model is told to stop trying."""

FULL = 0.8
"""The share of the limit from which the user is notified."""


@dataclass(slots=True)
class SessionMemory:
    """The memory of the main agent, one object per session; `node` returns the id of the current message."""

    provider: MemoryProvider
    session: str
    node: Callable[[], int | None]
    asker: Asker
    asks: bool
    """Whether the user is asked before anything is written."""
    writing: Callable[[str, Action], Awaitable[None]]
    """Called with the call and what will be written, so that it can be undone."""
    refused: int = 0

    def of_call(self, call: str) -> MemoryOfCall:
        """Return an object through which one call reads and writes this memory."""
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
        if self.asks and not await self._ask_person(scope, operations):
            raise ToolError("The user did not agree to this note; continue without it.", status="declined")
        if permit is not None and (leaving := self.provider.leaving()) is not None:
            await permit(leaving)
        await self._announce(call, scope)
        origin = Origin(time.time(), self.session, self.node())
        try:
            written = await self.provider.write(scope, operations, origin)
        except MemoryWriteError as error:
            raise await self._refusal(scope, error) from None
        self.refused = 0
        return _view(scope, written)

    def turn_began(self) -> None:
        """Begin a new turn and reset the count of refusals."""
        self.refused = 0

    async def _announce(self, call: str, scope: Scope) -> None:
        with suppress(MemoryFileError):  # the write says what is wrong
            now = await self.provider.read(scope)
            if not now.on_disk:
                return
            path = now.path
            path = await asyncio.to_thread(path.parent.resolve) / path.name
            await self.writing(call, WritePath(tool="memory", path=path))

    async def _ask_person(self, scope: Scope, operations: Sequence[MemoryOperation]) -> bool:
        lines = "\n".join(_line(operation) for operation in operations)
        answer = await self.asker.ask(f"Write to {scope} memory?\n{lines}", ("Yes", "No"), False)
        return answer.outcome == "answered" and answer.text.strip().lower() == "yes"

    async def _refusal(self, scope: Scope, error: MemoryWriteError) -> ToolError:
        self.refused += 1
        try:
            now = await self.provider.read(scope)
            shown, used = list(vet_entries(now)[0]), usage(now.entries, now.limit)
        except MemoryFileError:
            shown, used = [], ""
        if self.refused >= MOST_REFUSALS:
            given_up = "Leave memory as it is for now and continue with the task."
            return ToolError(f"{error} {given_up}", current_entries=shown, usage=used, done=True)
        return ToolError(str(error), current_entries=shown, usage=used)


@dataclass(frozen=True, slots=True)
class MemoryOfCall(MemoryKeeper):
    """The memory of a session as one call uses it."""

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
        entries=vet_entries(now)[0],
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
