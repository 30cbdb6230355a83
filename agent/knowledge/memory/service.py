"""The memory service of a session: reads the frozen blocks, writes, tells what came of it.

`MemoryProvider` is the whole of what the rest of the program knows, so that
another store can take the place of the files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.knowledge.injection import scan
from agent.knowledge.memory.entries import Entries, MemoryOperation, MemoryWriteError, size
from agent.knowledge.memory.files import MemoryContents, MemoryFile, MemoryFileError
from agent.knowledge.memory.origins import Origin
from agent.knowledge.memory.scopes import LIMITS, SCOPES, MemoryFolders, Scope, block, project_root
from tools.services.actions import Action


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """What a write came to."""

    before: MemoryContents
    after: MemoryContents

    @property
    def changed(self) -> bool:
        """Whether any entry is different now."""
        return self.before.entries != self.after.entries


class MemoryProvider(Protocol):
    """A store of memory for one workspace."""

    def leaving(self) -> Action | None:
        """The act of giving a note to a service, on which the gate decides; None for files here."""
        ...

    async def read(self, scope: Scope) -> MemoryContents:
        """A scope as it is now. Raises `MemoryFileError` if it cannot be read."""
        ...

    async def write(self, scope: Scope, operations: Sequence[MemoryOperation], origin: Origin) -> MemoryWrite:
        """Apply operations together, or none of them.

        Raises `MemoryWriteError` for operations that cannot be applied, `MemoryFileError` for a store
        that cannot be used.
        """
        ...

    async def blocks(self) -> tuple[MemoryBlock, ...]:
        """What the system prompt of a new session shows, in order; scopes without entries are left out."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One scope as the system prompt shows it."""

    scope: Scope
    text: str
    path: Path
    problem: str = ""
    """What a person should hear: entries left out, or a file that cannot be read."""


class MemoryFiles:
    """Memory in plain files under the home of Hermes."""

    def __init__(self, root: Path, workspace: Path, limits: Mapping[Scope, int] = LIMITS) -> None:
        # A home that is reached through a link is as good as any other; links within it are refused.
        self._folders = MemoryFolders(Path(os.path.realpath(root)))
        self._project = project_root(workspace)
        self._limits = limits

    def leaving(self) -> Action | None:
        return None

    def file(self, scope: Scope) -> MemoryFile:
        """The file of a scope."""
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
        """`blocks` for callers that are in a thread already."""
        found: list[MemoryBlock] = []
        for scope in SCOPES:
            file = self.file(scope)
            try:
                memory = file.read()
            except MemoryFileError as error:
                found.append(MemoryBlock(scope, "", file.path, str(error)))
                continue
            shown, problem = vetted(memory)
            text = block(scope, shown, size(memory.entries), memory.limit)
            if text:
                found.append(MemoryBlock(scope, text, file.path, problem))
        return tuple(found)


def refuse_injection(content: str) -> None:
    """Raise `MemoryWriteError` if a text reads like an order to an agent, which memory must not hold."""
    findings = scan(content)
    if findings:
        names = ", ".join(dict.fromkeys(each.rule for each in findings))
        raise MemoryWriteError(
            f"This reads like an instruction to an agent ({names}: {findings[0].excerpt[:80]!r}), "
            "which memory does not take; write the plain fact."
        )


def vetted(memory: MemoryContents) -> tuple[Entries, str]:
    """The entries as a model may see them, and what a person should hear.

    An entry that reads like an attack stays in the file, for the person to look at and delete; a mark
    stands in its place.
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
