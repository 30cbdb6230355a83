"""The notes of memory as something that can be recalled."""

from __future__ import annotations

from collections.abc import Sequence

from agent.knowledge.memory.files import MemoryFileError
from agent.knowledge.memory.scopes import SCOPES
from agent.knowledge.memory.service import MemoryProvider, vetted
from agent.knowledge.recall.sources import Passage


class MemoryNotes:
    """Notes about the person, the machine and the project one works in."""

    name = "memory"

    def __init__(self, provider: MemoryProvider) -> None:
        self._provider = provider

    async def passages(self) -> Sequence[Passage]:
        found: list[Passage] = []
        for scope in SCOPES:
            try:
                memory = await self._provider.read(scope)
            except MemoryFileError:
                continue
            for entry, shown in zip(memory.entries, vetted(memory)[0], strict=True):
                origin = memory.origins.of(entry)
                found.append(
                    Passage(
                        title=memory.path.name,
                        text=shown,
                        created=origin.created if origin else 0.0,
                        session=origin.session if origin else "",
                        node=(origin.node or 0) if origin else 0,
                        kind=scope,
                    )
                )
        return found
