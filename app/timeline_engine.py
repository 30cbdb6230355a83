"""The timeline over the session that is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.engine import Engine
from agent.errors import StoreError
from agent.home import PRIVATE_FILE, Home, private_folder
from agent.store.marks import Mark
from agent.store.nodes import Head, Node
from agent.store.outline import OutlineRow
from agent.store.text import first_line
from agent.workspace.checkpoints import states
from agent.workspace.checkpoints.entries import Change
from app.file_changes import FileChanges
from app.journeys import Journeys
from app.screens.timeline_services import FileChange, Sides, What
from tools.text import clean

_WHOLE = 1 << 30


class EngineTimeline:
    """What `TimelineServices` asks for."""

    def __init__(self, engine: Engine, journeys: Journeys) -> None:
        self._session = engine.session
        self._travel = engine.travel
        self._journeys = journeys
        self._files = FileChanges(self._travel.contents)

    # The tree

    async def glimpse(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        path = self._session.path
        end = next((index + 1 for index, node in enumerate(path) if node.id == at), len(path))
        near = path[max(min(end + count // 2, len(path)) - count, 0) :][:count]
        return [_row(node) for node in near if node.kind != "inner"]

    async def outline(self) -> Sequence[OutlineRow]:
        return await self._travel.outline()

    async def heads(self) -> Sequence[Head]:
        return await self._travel.heads()

    async def marks(self) -> Sequence[Mark]:
        return await self._travel.marks()

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> Mark:
        return await self._travel.mark(node, label=label, bookmarked=bookmarked)

    async def node(self, node: int) -> Node:
        return await self._travel.node(node)

    # Files

    async def steps(self) -> Mapping[int, Sequence[str]]:
        return {step.number: [each.path for each in step.changes] for step in await self._travel.steps()}

    async def labels(self) -> Mapping[int, str]:
        # What others did in between says nothing about the call.
        return {step.number: step.label for step in await self._travel.steps() if step.kind != "outside"}

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        wanted = set(steps)
        found: dict[int, tuple[int, int]] = {}
        for step in await self._travel.steps():
            if step.number in wanted:
                told = await self._files.described(step.changes)
                if any(each.added is not None for each in told):
                    found[step.number] = (sum(e.added or 0 for e in told), sum(e.removed or 0 for e in told))
        return found

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileChange]:
        wanted = set(steps)
        those = [step for step in await self._travel.steps() if step.number in wanted]
        return await self._files.described(states.difference(those, min(wanted) - 1, max(wanted)))

    async def difference(self, one: int, other: int) -> Sequence[FileChange]:
        return await self._files.described(await self._changes(one, other))

    async def sides(self, one: int, other: int, path: str) -> Sides:
        for change in await self._changes(one, other):
            if change.path == path:
                return await self._files.sides(change)
        return Sides(None, None, "This file is the same at both points.")

    async def _changes(self, one: int, other: int) -> Sequence[Change]:
        first, second = await self._travel.position_of(one), await self._travel.position_of(other)
        return await self._travel.changes(first, second)

    # What can be done

    async def restore(self, node: int, what: What) -> str:
        return await self._journeys.back_to(node, what)

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        return await self._journeys.fork(node, name, carry_over=carry_over)

    async def switch(self, head: str) -> str:
        return await self._journeys.switch(head)

    async def rename(self, head: str, name: str) -> str:
        return await self._journeys.rename(head, name)

    async def export(self, node: int) -> str:
        """Write the conversation up to a node as a page that can be read anywhere."""
        from agent.export.page import page_of
        from tools.registry import registry

        session, store = self._session.record, self._session.store
        nodes = [*await store.before(session.id, node, _WHOLE), await self._travel.node(node)]
        file = Home.locate().root / "exports" / f"{session.id}-{node}.html"

        def write() -> None:
            page = page_of(session, nodes, registry, secrets=store.secrets, branch=self._travel.head)
            _write_private(file, page.encode())

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
        return f"Written to {file}; it shows everything up to here, secrets masked."


def _row(node: Node) -> OutlineRow:
    data = node.data
    step, usage, calls = data.get("step"), data.get("usage"), data.get("calls")
    tokens = usage.get("output") if isinstance(usage, dict) else None
    state = data.get("state")
    return OutlineRow(
        node.id,
        node.parent,
        node.kind,
        node.created,
        clean(first_line(node.content[:400])),
        step if isinstance(step, int) else None,
        str(data.get("tool") or ""),
        str(data.get("outcome") or (state if state != "complete" else "") or ""),
        str(data.get("origin") or ""),
        tokens if isinstance(tokens, int) else None,
        len(calls) if isinstance(calls, list) else 0,
    )


def _write_private(file: Path, data: bytes) -> None:
    """A file only its owner can read, there when it is complete."""
    private_folder(file.parent)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(
        os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE), "wb"
    ) as f:
        f.write(data)
    unfinished.replace(file)
